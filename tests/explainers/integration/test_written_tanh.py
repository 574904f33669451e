"""A tanh that is written out by exponentials has the digits of torch's, in the scores of attention and as a gate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import explainers
from tests.explainers.support.attention_forms import PREPROCESS, Attention, Block, Vit, built, pixels

Curve = Callable[[Tensor], Tensor]
SPECS = ("input_x_gradient:libra", "input_x_gradient:attnlrp", "transformer_attribution", "rollout", "decompx")
CURVES: dict[str, Curve] = {
    "two exponentials": lambda z: (z.exp() - (-z).exp()) / (z.exp() + (-z).exp()),
    "the other sign": lambda z: -(((-z).exp() - z.exp()) / ((-z).exp() + z.exp())),
    "one exponential": lambda z: ((2 * z).exp() - 1) / ((2 * z).exp() + 1),
    "one falling": lambda z: (1 - (-2 * z).exp()) / (1 + (-2 * z).exp()),
}


def soft_cap(curve: Curve, s: Tensor, q: Tensor, v: Tensor) -> Tensor:
    return (2 * curve(s / 2)).softmax(-1) @ v


def gate_of_queries(curve: Curve, s: Tensor, q: Tensor, v: Tensor) -> Tensor:
    return (s * curve(q[..., :1])).softmax(-1) @ v


def gate_of_outputs(curve: Curve, s: Tensor, q: Tensor, v: Tensor) -> Tensor:
    return curve(q) * (s.softmax(-1) @ v)


def maps_of(use: Any, curve: Curve) -> Any:
    def form(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
        return use(curve, q @ k.mT / q.shape[-1] ** 0.5, q, v)  # type: ignore[no-any-return]

    model = explainers.wrap(
        built(lambda: Vit(lambda: [Block(lambda: Attention(form)) for _ in range(2)])), kind="image", preprocess=PREPROCESS
    )
    result = explainers.explain(model, {"pixel_values": pixels()}, 1, list(SPECS))
    return (result[0] if isinstance(result, list) else result).maps


@pytest.mark.parametrize("name", CURVES)
@pytest.mark.parametrize("use", [soft_cap, gate_of_queries, gate_of_outputs])
def test_a_tanh_has_its_rules_in_every_writing(use: Any, name: str) -> None:
    for found, expected in zip(maps_of(use, CURVES[name]), maps_of(use, torch.tanh), strict=True):
        torch.testing.assert_close(found.scores, expected.scores, rtol=1e-4, atol=1e-6, msg=found.method)
        assert not found.notes


def test_a_quotient_that_is_no_tanh_keeps_its_note() -> None:
    (found, *_) = maps_of(gate_of_outputs, lambda z: (z.exp() - 0.5 * (-z).exp()) / (z.exp() + (-z).exp()))
    assert "exp" in " ".join(found.notes)
