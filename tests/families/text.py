"""Text classifiers of transformers."""

from __future__ import annotations

from typing import Any

from torch import nn

import explainers.torchvision_ops  # noqa: F401  (before transformers)

# isort: split
import transformers

from tests.families.family import SHAPE, TEXT, Family


def _text(name: str, model: str, config: str, blocks: tuple[str, ...], **arguments: Any) -> Family:
    def make() -> nn.Module:
        return getattr(transformers, model)(getattr(transformers, config)(**(TEXT | arguments)))  # type: ignore[no-any-return]

    return Family(
        name=name,
        library="transformers",
        kind="text",
        make=make,
        blocks=blocks,
        entry=blocks[0],
        prefix=1,
        class_token=0,
        grid=None,
    )


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
]
