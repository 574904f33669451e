"""Heads of one number that end in a curve: the value is explained, by the curve's tangent, under every rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import explainers
from explainers.self_check.sample import picture
from tests.explainers.support.own_vit import RECIPE, D, ViT

BINS = torch.arange(6.0)
CURVES: dict[str, tuple[int, Callable[[Tensor], Tensor]]] = {
    "exp": (1, torch.exp),
    "softplus": (1, F.softplus),
    "scaled sigmoid": (1, lambda z: 4 * torch.sigmoid(z) + 1),
    "three tanh": (1, lambda z: 3 * torch.tanh(z)),
    "squared": (1, lambda z: z**2),
    "mean of bins": (6, lambda z: (z.softmax(-1) * BINS.to(z)).sum(-1, keepdim=True)),
    "mean of bins by a product": (6, lambda z: z.softmax(-1) @ BINS.to(z)),
    "sum of sigmoids": (6, lambda z: z.sigmoid().sum(-1)),
}
LINES: dict[str, tuple[int, Callable[[Tensor], Tensor]]] = {
    "itself": (1, lambda z: z),
    "scaled and shifted": (1, lambda z: 3 * z + 1),
    "mean": (6, lambda z: z.mean(-1)),
}


class OneNumber(ViT):
    def __init__(self, width: int, curve: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.head, self.curve = nn.Linear(D, width), curve

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.curve(super().forward(x))
        return out


def opened(head: tuple[int, Callable[[Tensor], Tensor]], **how: Any) -> explainers.Model:
    torch.manual_seed(0)
    return explainers.open(OneNumber(*head).eval(), kind="image", preprocess=RECIPE, **how)


@pytest.mark.parametrize("name", CURVES)
def test_the_value_is_explained_by_the_tangent(name: str) -> None:
    model = opened(CURVES[name])
    assert model.report is not None
    assert not model.report.failures, str(model.report)
    assert model.output == "regression"
    specs = ["input_x_gradient", "input_x_gradient:libra", "fullgrad_plus:libra", "occlusion", "transformer_attribution"]
    result = explainers.explain(model, picture(), None, specs)
    pixels = model.tensors(picture())["pixel_values"]
    with torch.no_grad():
        torch.testing.assert_close(result.logits.flatten(), model.module(pixels).flatten())
    assert result.completeness("libra") < 1e-5 * max(1.0, float(result.logits.abs()))
    assert any("tangent" in note for note in result.notes)

    # the same model, whose head is a linear layer: the tangent written out
    width, curve = CURVES[name]
    module: Any = model.module
    taken: list[Tensor] = []
    handle = module.head.register_forward_hook(lambda layer, args, out: taken.append(out.detach()))
    with torch.no_grad():
        module(pixels)
    handle.remove()
    slopes = torch.autograd.functional.jacobian(lambda z: curve(z).flatten(), taken[0]).reshape(1, width)
    twin = OneNumber(1, lambda z: z)
    twin.load_state_dict({key: value for key, value in module.state_dict().items() if not key.startswith("head")}, strict=False)
    with torch.no_grad():
        twin.head.weight.copy_(slopes @ module.head.weight)
        twin.head.bias.copy_(slopes @ module.head.bias)
    theirs = explainers.explain(
        explainers.wrap(twin.eval(), kind="image", preprocess=RECIPE, output="regression"), {"pixel_values": pixels}, None, specs
    )
    for spec in specs[:2]:
        torch.testing.assert_close(result[spec].scores, theirs[spec].scores, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", LINES)
def test_a_straight_line_stays_a_logit(name: str) -> None:
    model = opened(LINES[name], check="none")
    assert model.output == "sigmoid"
    assert not model.head_activation.is_curved


def test_who_says_that_it_is_a_logit_is_believed() -> None:
    assert opened(CURVES["exp"], output="sigmoid", check="none").output == "sigmoid"
    assert opened((1, torch.sigmoid), check="none").output == "sigmoid"


def test_a_number_made_in_two_ways_is_no_curve_of_one_layer() -> None:
    class Two(OneNumber):
        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = super().forward(x) + self.head(self.patch(x).flatten(2).mean(-1))
            return out

    torch.manual_seed(0)
    with pytest.raises(explainers.ExplainerError, match="way round the blocks"):
        explainers.wrap(Two(1, torch.exp).eval(), kind="image", preprocess=RECIPE)
