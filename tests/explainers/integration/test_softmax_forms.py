"""Attention weights that are a softmax written in other ways: every method gives the numbers of the plain form, without a note."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import explainers
from tests.explainers.support.attention_forms import PREPROCESS, Attention, Block, Vit, built, of_module, pixels

SPECS = (
    "input_x_gradient",
    "input_x_gradient:libra",
    "input_x_gradient:attnlrp",
    "fullgrad_plus:libra",
    "rollout",
    "transformer_attribution",
    "alti",
)
Weigh = Callable[[Tensor], Tensor]  # from scores (B, H, queries, keys) to weights


def by_shifted_logarithm(scores: Tensor) -> Tensor:
    largest = scores.amax(-1, keepdim=True)
    return (scores - (largest + (scores - largest).exp().sum(-1, keepdim=True).log())).exp()


def in_place(scores: Tensor) -> Tensor:
    return scores.sub_(scores.logsumexp(-1, keepdim=True)).exp_()


def by_powers_of_two(scores: Tensor) -> Tensor:
    powers = torch.exp2(scores / math.log(2))
    return powers / powers.sum(-1, keepdim=True)


def by_inverse(scores: Tensor) -> Tensor:
    exponentials = scores.exp()
    return exponentials.sum(-1, keepdim=True).reciprocal() * exponentials


def by_power(scores: Tensor) -> Tensor:
    exponentials = (scores - scores.amax(-1, keepdim=True)).exp()
    return exponentials * exponentials.sum(-1, keepdim=True) ** -1


FORMS: dict[str, Weigh] = {
    "logsumexp": lambda s: (s - s.logsumexp(-1, keepdim=True)).exp(),
    "logsumexp without its axis": lambda s: torch.exp(s - torch.logsumexp(s, -1)[..., None]),
    "logsumexp first": lambda s: (-s.logsumexp(-1, keepdim=True) + s).exp(),
    "logarithm of a sum": lambda s: (s - s.exp().sum(-1, keepdim=True).log()).exp(),
    "shifted logarithm": by_shifted_logarithm,
    "in place": in_place,
    "over queries": lambda s: (s.mT.contiguous() - s.mT.logsumexp(-2, keepdim=True)).exp().mT,
    "log_softmax": lambda s: F.log_softmax(s, -1).exp(),
    "special": lambda s: torch.special.log_softmax(s, -1).exp(),
    "softmin": lambda s: F.softmin(-s, -1),
    "shifted softmax": lambda s: (s - s.amax(-1, keepdim=True)).softmax(-1),
    "softmax shifted by values of max": lambda s: F.softmax(s - s.max(dim=-1, keepdim=True).values, dim=-1),
    "shifted, scaled and raised": lambda s: torch.softmax((2 * s - (2 * s).amax(-1, keepdim=True)) / 2 + 3.0, -1),
    "shifted in place": lambda s: s.clone().sub_(s.amax(-1, keepdim=True)).softmax(-1),
    "shifted log_softmax": lambda s: F.log_softmax(s - s.amax(-1, keepdim=True), -1).exp(),
    "special softmax": lambda s: torch.special.softmax(s, -1),
    "normalize": lambda s: F.normalize(s.exp(), p=1, dim=-1),
    "normalize shifted": lambda s: F.normalize((s - s.amax(-1, keepdim=True)).exp(), p=1.0, dim=-1),
    "normalize weights": lambda s: F.normalize(3 * s.softmax(-1), p=1, dim=-1),
    "powers of two": by_powers_of_two,
    "inverse": by_inverse,
    "power": by_power,
}


def vit_of(form: Any) -> nn.Module:
    return built(lambda: Vit(lambda: [Block(lambda: Attention(form)) for _ in range(2)]))


def maps_of(form: Any) -> Any:
    model = explainers.wrap(vit_of(form), kind="image", preprocess=PREPROCESS)
    result = explainers.explain(model, {"pixel_values": pixels()}, 1, list(SPECS))
    return (result[0] if isinstance(result, list) else result).maps


@pytest.mark.parametrize("name", FORMS)
def test_a_softmax_has_its_rules_in_every_writing(name: str) -> None:
    def written(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
        return FORMS[name](q @ k.mT / q.shape[-1] ** 0.5) @ v

    for found, expected in zip(maps_of(written), maps_of(of_module), strict=True):
        torch.testing.assert_close(found.scores, expected.scores, rtol=1e-4, atol=1e-6, msg=found.method)
        assert not found.notes


@pytest.mark.parametrize("name", ["logsumexp", "shifted logarithm", "over queries", "in place", "shifted, scaled and raised"])
def test_biases_are_shared_alike_in_every_writing_of_a_softmax(name: str) -> None:
    """Sums inside the scores leave the single tokens' copies with other scores, which no softmax is judged by."""

    def written(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
        return FORMS[name](q @ k.mT / q.shape[-1] ** 0.5) @ v

    def shared(form: Any) -> Any:
        model = explainers.wrap(vit_of(form), kind="image", preprocess=PREPROCESS)
        result = explainers.explain(model, {"pixel_values": pixels()}, 1, ["decompx?biases=absdot"])
        return (result[0] if isinstance(result, list) else result).maps[0]

    found, expected = shared(written), shared(of_module)
    torch.testing.assert_close(found.scores, expected.scores, rtol=1e-4, atol=1e-6)
    assert not found.notes


def test_the_exponential_of_a_turned_log_softmax_is_not_taken_for_a_softmax_of_the_same_rows() -> None:
    def written(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
        return F.log_softmax(k @ q.mT / q.shape[-1] ** 0.5, -2).mT.exp() @ v

    model = explainers.wrap(vit_of(written), kind="image", preprocess=PREPROCESS)
    x = pixels()
    result = explainers.explain(model, {"pixel_values": x}, 1, ["input_x_gradient"])
    first = result[0] if isinstance(result, list) else result
    torch.testing.assert_close(first.logits.double(), vit_of(of_module)(x)[0].detach(), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(first.maps[0].scores, maps_of(of_module)[0].scores, rtol=1e-4, atol=1e-6)
    with pytest.raises(explainers.ExplainerError, match="no softmax runs in them"):
        explainers.explain(model, {"pixel_values": x}, 1, ["rollout"])


def test_a_softmax_that_is_shifted_then_masked_is_the_masked_softmax() -> None:
    mask = torch.rand(17, 17, generator=torch.Generator().manual_seed(0)) < 0.7
    mask |= torch.eye(17, dtype=torch.bool)

    def written(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
        scores = q @ k.mT / q.shape[-1] ** 0.5
        return (scores - scores.amax(-1, keepdim=True)).masked_fill(~mask, -math.inf).softmax(-1) @ v

    def plain(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    for found, expected in zip(maps_of(written), maps_of(plain), strict=True):
        torch.testing.assert_close(found.scores, expected.scores, rtol=1e-4, atol=1e-6, msg=found.method)


def test_a_shift_along_another_axis_than_that_of_the_softmax_stays() -> None:
    """It is no shift of the softmax, and has its gradient."""

    def written(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
        scores = q @ k.mT / q.shape[-1] ** 0.5
        return (scores - scores.amax(-2, keepdim=True)).softmax(-1) @ v

    vit = vit_of(written)
    x = torch.cat([vit.cls, vit.embed(vit.patch(pixels()))], 1) + vit.pos  # type: ignore[operator]
    x = x.detach().requires_grad_()
    y = x
    for block in vit.blocks:  # type: ignore[union-attr]
        y = block(y)
    (gradient,) = torch.autograd.grad(vit.head(vit.norm(y)[:, 0])[0, 1], x)  # type: ignore[operator]
    torch.testing.assert_close(maps_of(written)[0].scores.double(), (x * gradient).sum(-1)[0].detach(), rtol=1e-5, atol=1e-8)
