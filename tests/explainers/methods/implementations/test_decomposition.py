"""Methods that follow tokens forward (DecompX, GlobEnc, ALTI), against sums that must come out."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch

import explainers
from explainers.autograd.forward_decomposition import ForwardDecomposition
from explainers.methods import contributions
from explainers.methods.contributions import after_attention
from explainers.records.session import Session
from tests.explainers.support.garbage import without_collection
from tests.explainers.support.pair import TARGET
from tests.explainers.support.wrapped import inputs, scores, wrapped
from tests.families import FAMILIES


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n, f in FAMILIES.items() if f.kind != "clip"])
def test_decompx_by_propagating_every_token_is_input_times_gradient(name: str) -> None:
    """Under constant attention, gates and scales the two are the same number; with and without the halving of products."""
    pairs = ("decompx", "input_x_gradient:libra-product"), ("decompx:libra", "input_x_gradient:libra")
    read = scores(name, *pairs[0], *pairs[1])
    for forward, backward in (read[:2], read[2:]):
        torch.testing.assert_close(forward, backward, rtol=1e-5, atol=1e-6 * float(backward.abs().max()))


@pytest.mark.parametrize("name", ["vit", "hf-dinov2-reg", "mixer", "roberta"])
def test_decompx_with_shared_biases_adds_up_to_the_logit(name: str) -> None:
    """Biases in blocks that normalise before and after, of a head, and of a pooler; tests/golden has the authors' own numbers."""
    model, tensors = wrapped(name), inputs(name, 2)
    result = explainers.explain(model, tensors, target=TARGET, methods=["decompx", "decompx?biases=absdot"])
    for each in result:
        left_out, shared = each.maps
        assert float(shared.scores.double().sum()) == pytest.approx(each.target.logit, rel=1e-5, abs=1e-6)
        assert abs(float(left_out.scores.double().sum()) - each.target.logit) > 1e-3
        assert not shared.notes
        assert shared.adds_up_to is None


@pytest.mark.parametrize("name", ["vit", "bert"])
def test_contributions_and_bias_are_what_attention_gives_on_in_each_block(name: str) -> None:
    """What is left when all contributions are taken off the stream is the same at every token: the constants after attention."""
    model, tensors = wrapped(name), inputs(name)
    asked = Session(model, tensors, TARGET)
    trace = asked.trace(asked.chosen[0], None)
    for block, module in enumerate(model.blocks):
        shares = after_attention(trace, block, norms=1)
        left = shares.whole - shares.vectors.sum(2)
        if name == "vit":
            torch.testing.assert_close(shares.whole, trace.mid_residuals[block], rtol=0, atol=1e-12)
            expected = module.attn.proj.bias.expand_as(left)
        else:
            dense, norm = module.attention.output.dense, module.attention.output.LayerNorm
            scale = (trace.mid_residuals[block].var(-1, unbiased=False, keepdim=True) + norm.eps).rsqrt()
            expected = (dense.bias - dense.bias.mean()) * scale * norm.weight + norm.bias
        real = trace.mask
        torch.testing.assert_close(left[real], expected.detach()[real], rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", ["vit", "bert"])
def test_rolled_contributions_are_shares(name: str) -> None:
    for found in scores(name, "globenc", "alti", "attention_flow"):
        assert found.min() >= 0
        assert float(found.sum()) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("name", ["decompx", "globenc"])
def test_no_more_than_two_passes_of_copies_are_in_memory(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They hold what all copies of the tokens were in all blocks; none of them waits for cycles to be collected."""
    alive, most = weakref.WeakSet[ForwardDecomposition](), 0
    began = ForwardDecomposition.__init__

    def begin(self: ForwardDecomposition, *given: Any, **options: Any) -> None:
        nonlocal most
        alive.add(self)
        most = max(most, len(alive))
        began(self, *given, **options)

    monkeypatch.setattr(ForwardDecomposition, "__init__", begin)
    monkeypatch.setattr(contributions, "INNER_BATCH", 4)
    gc.collect()
    with without_collection():
        scores("vit", name)
        assert not alive
    assert most == 1
