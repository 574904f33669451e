"""Texts whose models are not as BERT is: no limit of length, padding of their own, fewer tokens later, a softmax in another type."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import torch
import transformers as hf
from torch import nn

import explainers
from explainers import ExplainerError
from explainers.methods import METHODS, variants_of

WORDS = 64
SMALL: dict[str, Any] = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
COMMON: dict[str, Any] = {"vocab_size": WORDS, "num_labels": 3, "pad_token_id": 1}
LONG = {"max_position_embeddings": 64}


def _bloom() -> nn.Module:
    return hf.BloomForSequenceClassification(hf.BloomConfig(hidden_size=24, n_layer=2, n_head=2, **COMMON))


def _longformer() -> nn.Module:
    return hf.LongformerForSequenceClassification(hf.LongformerConfig(attention_window=4, **LONG, **SMALL, **COMMON))


def _funnel() -> nn.Module:
    size = {"d_model": 24, "n_head": 2, "d_head": 12, "d_inner": 48, "block_sizes": [2, 2], "num_decoder_layers": 1}
    return hf.FunnelForSequenceClassification(hf.FunnelConfig(**size, vocab_size=WORDS, num_labels=3))


def _xlm() -> nn.Module:
    size = {"emb_dim": 24, "n_layers": 2, "n_heads": 2, "n_langs": 1, "pad_index": 1}
    return hf.XLMForSequenceClassification(hf.XLMConfig(**size, **LONG, vocab_size=WORDS, num_labels=3))


def _flaubert() -> nn.Module:
    size = {"emb_dim": 24, "n_layers": 2, "n_heads": 2, "pad_index": 1}
    return hf.FlaubertForSequenceClassification(hf.FlaubertConfig(**size, **LONG, vocab_size=WORDS, num_labels=3))


def _nystromformer() -> nn.Module:
    size = {"segment_means_seq_len": 4, "num_landmarks": 4}
    return hf.NystromformerForSequenceClassification(hf.NystromformerConfig(**size, **LONG, **SMALL, **COMMON))


def _llama() -> nn.Module:
    config = hf.LlamaConfig(num_key_value_heads=1, **LONG, **SMALL, **COMMON)
    config._attn_implementation = "eager"  # its softmax is in float32 whatever the weights are in
    return hf.LlamaForSequenceClassification(config)


def _qwen3_moe() -> nn.Module:
    experts = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "head_dim": 12}
    return hf.Qwen3MoeForSequenceClassification(hf.Qwen3MoeConfig(num_key_value_heads=1, **experts, **LONG, **SMALL, **COMMON))


MODELS: dict[str, Callable[[], nn.Module]] = {
    "bloom": _bloom,
    "longformer": _longformer,
    "funnel": _funnel,
    "xlm": _xlm,
    "flaubert": _flaubert,
    "nystromformer": _nystromformer,
    "llama": _llama,
    "qwen3-moe": _qwen3_moe,
}
IDS = torch.tensor([[2, 5, 7, 9, 11, 13, 3]])
SPECS = [variant.spec for method in METHODS.values() for variant in variants_of(method)]


def made(name: str, dtype: torch.dtype = torch.float32) -> explainers.Model:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = MODELS[name]()
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.1)
    return explainers.wrap(module.eval().to(dtype))


def explained(model: explainers.Model, spec: str) -> explainers.Explanation:
    result: explainers.Explanation = explainers.explain(
        model, {"input_ids": IDS, "attention_mask": torch.ones_like(IDS)}, target=0, methods=[spec]
    )
    return result


@pytest.mark.parametrize("name", MODELS)
def test_every_method_gives_a_map_or_says_why_not(name: str) -> None:
    model = made(name)
    given = 0
    for spec in SPECS:
        try:
            one = explained(model, spec)[spec]
        except ExplainerError:
            continue
        given += 1
        assert len(one.scores) == IDS.shape[1]
    assert given > 20


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
@pytest.mark.parametrize("name", ["bloom", "xlm", "llama"])
def test_a_softmax_in_another_type_than_the_weights(name: str, dtype: torch.dtype) -> None:
    exact, model = made(name), made(name, dtype)
    specs = ("rollout", "generic_attention", "transformer_attribution", *(() if name == "xlm" else ("token_tm", "globenc", "alti")))
    for spec in specs:  # XLM's blocks are no residual streams, which the last three need
        scores, expected = explained(model, spec)[spec].scores, explained(exact, spec)[spec].scores
        bound = 0.1 if dtype == torch.bfloat16 else 1e-4
        assert float((scores - expected).abs().max()) <= bound * float(expected.abs().max()), spec


@pytest.mark.parametrize("name", [name for name in MODELS if name != "funnel"])  # whose einsum no rule knows; it says so
def test_libra_accounts_for_the_logit(name: str) -> None:
    model = made(name)
    result = explained(model, "fullgrad:libra")
    one = result["fullgrad:libra"]
    assert one.completeness_error is not None
    assert one.completeness_error < 1e-4 * max(1.0, float(result.logits.abs().max()))
    assert not one.notes or name == "longformer"  # whose attention is an einsum, which no rule knows: it says so


def test_tokens_are_those_of_the_text_where_later_blocks_have_fewer() -> None:
    model = made("funnel")
    names = {module: name for name, module in model.module.named_modules()}
    assert [names[block] for block in model.blocks] == ["funnel.encoder.blocks.0.0", "funnel.encoder.blocks.0.1"]


def test_blocks_that_see_fewer_tokens_than_the_text_has_are_refused() -> None:
    with pytest.raises(ExplainerError, match=r"each of the 3 tokens .* is made of several of the 6 of the text"):
        explainers.wrap(made("funnel").module, blocks="funnel.encoder.blocks.1")


@pytest.fixture
def double_by_default() -> Any:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def test_torchs_default_type_changes_nothing(double_by_default: None) -> None:
    torch.set_default_dtype(torch.float32)
    model = made("llama", torch.float32)
    specs = ("transformer_attribution", "pa_lrp", "lrp", "input_x_gradient:attnlrp")
    expected = {}
    for spec in specs:
        with suppress(ExplainerError):  # pa_lrp is for images
            expected[spec] = explained(model, spec)[spec].scores
    torch.set_default_dtype(torch.float64)
    for spec, scores in expected.items():
        assert torch.equal(explained(model, spec)[spec].scores, scores), spec
    assert "transformer_attribution" in expected


def test_attcat_of_one_block_says_why_there_is_none() -> None:
    config = hf.BertConfig(vocab_size=WORDS, num_labels=3, **(SMALL | {"num_hidden_layers": 1}), **LONG)
    model = explainers.wrap(hf.BertForSequenceClassification(config).eval())
    with pytest.raises(ExplainerError, match="leaves the last block out"):
        explained(model, "attcat")


@pytest.mark.parametrize("shape", [(1, 1, 1, 7), (1, 5), (2, 7)])
def test_a_mask_of_another_shape_than_the_ids_is_refused(shape: tuple[int, ...]) -> None:
    model = made("llama")
    with pytest.raises(ExplainerError, match="send one 0 or 1 for each id"):
        explainers.explain(model, {"input_ids": IDS, "attention_mask": torch.ones(shape)}, methods=["input_x_gradient"])


def test_a_model_that_looks_up_no_words_by_a_table_is_explained() -> None:
    class OneHot(nn.Module):
        """Words as rows of an identity matrix, before the layers of BERT."""

        def __init__(self) -> None:
            super().__init__()
            self.inside = nn.Linear(WORDS, 24)
            self.bert = hf.BertForSequenceClassification(hf.BertConfig(vocab_size=WORDS, num_labels=3, **SMALL, **LONG))

        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> Any:
            words = self.inside(nn.functional.one_hot(input_ids, WORDS).float())
            return self.bert(inputs_embeds=words, attention_mask=attention_mask)

    model = explainers.wrap(OneHot().eval(), kind="text")
    result = explained(model, "input_x_gradient")
    assert len(result["input_x_gradient"].scores) == IDS.shape[1]


def test_blocks_behind_a_step_that_moves_the_text_are_refused() -> None:
    """CANINE puts the sum of the text before what later blocks take, and leaves the last token out."""
    config = hf.CanineConfig(
        **SMALL, num_labels=3, max_position_embeddings=64, num_hash_buckets=64, downsampling_rate=1, local_transformer_stride=8
    )
    with pytest.raises(ExplainerError, match="token 2 is token 3"):
        explainers.wrap(hf.CanineForSequenceClassification(config).eval())


def test_keys_and_values_that_a_layer_takes_apart_are_counted() -> None:
    """Funnel's layers are given queries, keys and values: the gradient at x^1 is that of all three."""
    model = made("funnel")
    found = explained(model, "input_x_gradient")["input_x_gradient"].scores
    taken: list[torch.Tensor] = []

    def keep(module: nn.Module, args: Any, output: torch.Tensor) -> torch.Tensor:
        taken.append(output.detach().requires_grad_())
        return taken[-1]

    funnel: Any = model.module
    with funnel.funnel.embeddings.register_forward_hook(keep):
        logits = funnel(input_ids=IDS, attention_mask=torch.ones_like(IDS)).logits
    (gradient,) = torch.autograd.grad(logits[0, 0], taken)
    assert torch.allclose(found, (gradient * taken[0]).sum(-1)[0].detach(), atol=1e-5)
