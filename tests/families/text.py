"""Text classifiers of transformers."""

from __future__ import annotations

from typing import Any

from torch import nn

import explainers.models.libraries.torchvision_ops  # noqa: F401  (before transformers)

# isort: split
import transformers

from tests.families.family import CLASS, SEPARATOR, SHAPE, TEXT, Family


def _text(name: str, model: str, config: str, blocks: tuple[str, ...], *, token: int | None = 0, **arguments: Any) -> Family:
    def make() -> nn.Module:
        return getattr(transformers, model)(getattr(transformers, config)(**(TEXT | arguments)))  # type: ignore[no-any-return]

    return Family(
        name=name,
        library="transformers",
        kind="text",
        make=make,
        blocks=blocks,
        entry=blocks[0],
        prefix=int(token == 0),
        class_token=token,
        grid=None,
    )


_LAYERS = ("model.layers.0", "model.layers.1")
_MODERN: dict[str, Any] = SHAPE | {
    "layer_types": ["full_attention", "sliding_attention"],
    "local_attention": 4,
    "cls_token_id": CLASS,
    "sep_token_id": SEPARATOR,
}

TEXTS: list[Family] = [
    _text(
        "bert",
        "BertForSequenceClassification",
        "BertConfig",
        ("bert.encoder.layer.0", "bert.encoder.layer.1"),
        **SHAPE,
    ),
    _text(
        "distilbert",
        "DistilBertForSequenceClassification",
        "DistilBertConfig",
        ("distilbert.transformer.layer.0", "distilbert.transformer.layer.1"),
        dim=24,
        n_layers=2,
        n_heads=2,
        hidden_dim=48,
    ),
    _text(
        "roberta",
        "RobertaForSequenceClassification",
        "RobertaConfig",
        ("roberta.encoder.layer.0", "roberta.encoder.layer.1"),
        **SHAPE,
    ),
    _text(
        "electra",
        "ElectraForSequenceClassification",
        "ElectraConfig",
        ("electra.encoder.layer.0", "electra.encoder.layer.1"),
        embedding_size=16,
        **SHAPE,
    ),
    _text(
        "albert",
        "AlbertForSequenceClassification",
        "AlbertConfig",
        ("albert.encoder.albert_layer_groups.0.albert_layers.0",) * 2,
        embedding_size=16,
        **SHAPE,
    ),
    # disentangled attention over relative positions, no absolute ones
    _text(
        "deberta-v3",
        "DebertaV2ForSequenceClassification",
        "DebertaV2Config",
        ("deberta.encoder.layer.0", "deberta.encoder.layer.1"),
        relative_attention=True,
        position_buckets=4,
        norm_rel_ebd="layer_norm",
        share_att_key=True,
        pos_att_type=["p2c", "c2p"],
        position_biased_input=False,
        type_vocab_size=0,
        pooler_hidden_size=24,
        **SHAPE,
    ),
    # rotary positions, GeGLU, the second block attends to neighbours only
    _text("modernbert", "ModernBertForSequenceClassification", "ModernBertConfig", _LAYERS, **_MODERN),
    _text(
        "modernbert-mean",
        "ModernBertForSequenceClassification",
        "ModernBertConfig",
        _LAYERS,
        token=None,
        **_MODERN,
        classifier_pooling="mean",
    ),
    # causal: the head reads the last word; one-dimensional convolutions (addmm) in the first, RMSNorm, rotary positions, SwiGLU and
    # fewer heads of keys than of queries in the others, and normalised queries and keys in the last
    _text(
        "gpt2",
        "GPT2ForSequenceClassification",
        "GPT2Config",
        ("transformer.h.0", "transformer.h.1"),
        token=-1,
        n_embd=24,
        n_layer=2,
        n_head=2,
    ),
    _text("llama", "LlamaForSequenceClassification", "LlamaConfig", _LAYERS, token=-1, num_key_value_heads=1, **SHAPE),
    _text("qwen2", "Qwen2ForSequenceClassification", "Qwen2Config", _LAYERS, token=-1, num_key_value_heads=1, **SHAPE),
    _text("qwen3", "Qwen3ForSequenceClassification", "Qwen3Config", _LAYERS, token=-1, num_key_value_heads=1, head_dim=12, **SHAPE),
]
