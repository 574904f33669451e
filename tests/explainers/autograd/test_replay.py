"""Every operator in a user's own pass: the rule's signal, and its derivative against finite differences of that signal."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from explainers.autograd.backward_rule import backward_rule
from explainers.autograd.rules import RULES
from explainers.errors import ExplainerError
from tests.explainers.support.formulas import twin_of
from tests.explainers.support.operator_cases import CASES, Case
from tests.explainers.support.operator_cases.attention import POWERS_OF_TWO
from tests.explainers.support.operator_cases.case import assert_close, normal
from tests.explainers.support.toys import Function, autograd

RULES_TRIED = ("libra", "attnlrp-epsilon", "cp-lrp-gamma", "gim")
#: A softmax that weighs no values is none of attention in own code, and follows the ordinary gradient.
ALONE = {"softmax", "softmax-method", "softmax-torch", "softmax-dtype", "softmax-special", "softmin", "nn.Softmax"} | {
    *(f"log-softmax-exp{form}" for form in ("", "-torch", "-method", "-special")),
    *(f"softmax-of-powers-{name}" for name in POWERS_OF_TWO),
    *("softmax-written-out", "softmax-written-in-place"),
}
#: Rows whose signal has no derivative, or one that is not that of its differences: torch has none, or the function detaches numbers.
WITHOUT_DERIVATIVE = {"hardsigmoid", "quotient"}
#: The same of a rule alone that differentiates curves, which the others hold constant: torch differentiates no hardsigmoid twice.
WITHOUT_DERIVATIVE_UNDER = {("gim", "inplace-hardsigmoid")}


def first(function: Function, x: Tensor, rule: str, again: bool = False) -> tuple[Tensor, Tensor]:
    """The value, and the signal at x of one at random there."""
    with backward_rule(rule) as block:
        value = function(x).flatten(1)
        (signal,) = torch.autograd.grad(value, x, normal(*value.shape, seed=21), create_graph=again, allow_unused=True)
    assert not block.unruled
    return value, torch.zeros_like(x) if signal is None else signal


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CASES])
def test_signal_and_its_derivative(case: Case) -> None:
    function = case.make()
    for rule in RULES_TRIED:
        x = case.x.detach().clone().requires_grad_()
        value, signal = first(function, x, rule, again=True)
        seed, alone = normal(*value.shape, seed=21), case.name in ALONE
        twin = case.twin(twin_of(RULES["gradient" if alone else rule]), x).flatten(1)
        assert_close(value, twin)
        expected = torch.autograd.grad(twin, x, seed)[0] if twin.requires_grad else torch.zeros_like(x)
        assert_close(signal, expected, message=rule)
        assert_close(first(function, x, rule)[1], expected, message=f"{rule}, once")
        if value.requires_grad:
            assert_close(torch.autograd.grad(value, x, seed, retain_graph=True)[0], autograd(function, x, seed), message="after the block")
        if not signal.requires_grad or case.name in WITHOUT_DERIVATIVE or (rule, case.name) in WITHOUT_DERIVATIVE_UNDER:
            continue
        weights, direction, step = normal(*x.shape, seed=5), normal(*x.shape, seed=6), 1e-6
        (slope,) = torch.autograd.grad((signal * weights).sum(), x, materialize_grads=True)
        ends = [first(function, (x + sign * step * direction).detach().requires_grad_(), rule)[1] for sign in (1, -1)]
        measured = ((ends[0] - ends[1]) * weights).sum() / (2 * step)
        torch.testing.assert_close((slope * direction).sum(), measured, rtol=1e-6, atol=1e-6, msg=rule)


def test_a_curve_can_be_differentiated_again_at_zero() -> None:
    """GELU(x)/x is 1/2 + x / sqrt(2 pi) + ... near zero; there and beside it its derivative is that of the quotient."""
    x = torch.tensor([0.0, 1e-12, -1e-9, 1e-4], dtype=torch.float64, requires_grad=True)
    with backward_rule("libra"):
        (gate,) = torch.autograd.grad(F.gelu(x).sum(), x, create_graph=True)
    (slope,) = torch.autograd.grad(gate.sum(), x)
    torch.testing.assert_close(gate, 0.5 + x / (2 * torch.pi) ** 0.5, rtol=0, atol=1e-12)
    torch.testing.assert_close(slope, torch.full_like(x, (2 * torch.pi) ** -0.5), rtol=1e-5, atol=1e-7)


def test_rows_without_signal_have_derivatives_too() -> None:
    """Of (y - c)^2 at y = c the signal is zero and its derivative is not."""
    layer, x = nn.Linear(3, 3).double(), normal(2, 5, 3).requires_grad_()
    with backward_rule("libra"):
        y = layer(x)
    loss = F.mse_loss(y, torch.where(torch.arange(5)[:, None] == 0, 0.0, y.detach()), reduction="sum")
    with backward_rule("libra"):
        (signal,) = torch.autograd.grad(loss, x, create_graph=True)
    (slope,) = torch.autograd.grad(signal.sum(), x)
    torch.testing.assert_close(slope, (2 * layer.weight.mT @ layer.weight).sum(0).expand_as(x))


class Small(nn.Module):
    """Attention, norms of two kinds, gates, a scale of each channel, PReLU and a convolution, whose weights all get gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.group = nn.Conv1d(4, 4, 3, padding=1), nn.LayerNorm(4), nn.GroupNorm(2, 4)
        self.attention, self.gate, self.up = nn.MultiheadAttention(4, 2, batch_first=True), nn.Linear(4, 8), nn.Linear(4, 8)
        self.down, self.prelu = nn.Linear(8, 4), nn.PReLU(4)
        self.scale, self.position = nn.Parameter(torch.ones(4)), nn.Parameter(torch.zeros(1, 5, 4))
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x.mT).mT + self.position
        h = self.norm(x)
        x = x + self.attention(h, h, h, need_weights=False)[0] * self.scale
        h = self.group(x.flatten(0, 1)).view_as(x)
        return self.prelu((x + self.down(F.silu(self.gate(h)) * self.up(h))).flatten(0, 1)).view_as(x).mean(1)


def surrogate(module: Small, x: Tensor, known: list[Tensor] | None = None) -> tuple[Tensor, list[Tensor]]:
    """The value, and what Libra holds constant: as it is, or as it is ``known`` to be. Each term is written out."""
    constants: list[Tensor] = []

    def hold(value: Tensor) -> Tensor:
        constants.append(value)
        return value if known is None else known[len(constants) - 1]

    def normed(x: Tensor, norm: Any, shape: tuple[int, ...]) -> Tensor:
        scale = hold((x.var(-1, keepdim=True, unbiased=False) + norm.eps).rsqrt())
        return (x - x.mean(-1, keepdim=True)) * scale * norm.weight.view(shape) + norm.bias.view(shape)

    x = F.conv1d(x.mT, module.conv.weight, module.conv.bias, padding=1).mT + module.position
    attention = module.attention
    projected = F.linear(normed(x, module.norm, (4,)), attention.in_proj_weight, attention.in_proj_bias).chunk(3, -1)
    q, k, v = (t.unflatten(-1, (2, 2)).transpose(1, 2) for t in projected)
    weights = hold((q @ k.mT / 2**0.5).softmax(-1))
    x = x + attention.out_proj((weights @ v).transpose(1, 2).flatten(2)) * module.scale
    h = normed(x.unflatten(-1, (2, 2)), module.group, (2, 2)).flatten(2)
    gate, up = module.gate(h), module.up(h)
    gated = gate * hold(gate.sigmoid())
    x = x + module.down(0.5 * gated * hold(up) + 0.5 * hold(gated) * up)
    positive = hold((x > 0).to(x))
    return (x * positive + x * (1 - positive) * module.prelu.weight).mean(1), constants


def test_parameters_get_the_gradient_of_the_surrogate() -> None:
    """Against finite differences of it, for every parameter and for the input; and the same where the input needs no gradient."""
    torch.manual_seed(0)
    module, x = Small().double(), normal(3, 5, 4).requires_grad_()
    seed = normal(3, 4, seed=2)
    with backward_rule("libra"):
        value = module(x)
        signals = torch.autograd.grad(value, [x, *module.parameters()], seed)
        alone = torch.autograd.grad(module(x.detach()), list(module.parameters()), seed)
    for ours, again in zip(signals[1:], alone, strict=True):
        torch.testing.assert_close(ours, again)
    with torch.no_grad():
        written_out, constants = surrogate(module, x)
        torch.testing.assert_close(written_out, value)
        for place, signal in zip([x, *module.parameters()], signals, strict=True):
            direction, before, ends = normal(*place.shape, seed=3), place.clone(), []
            for sign in (1, -1):
                place.copy_(before + sign * 1e-6 * direction)
                ends.append((surrogate(module, x, constants)[0] * seed).sum())
            place.copy_(before)
            torch.testing.assert_close((signal * direction).sum(), (ends[0] - ends[1]) / 2e-6, rtol=1e-6, atol=1e-8)


def test_weights_are_refused_where_a_rule_has_no_gradient_for_them() -> None:
    module, x = nn.Linear(3, 2), normal(2, 3).float().requires_grad_()
    for rule in ("attnlrp-epsilon", "cp-lrp-gamma"):
        with backward_rule(rule):
            assert torch.autograd.grad(module(x).sum(), x)[0].shape == x.shape
            with pytest.raises(ExplainerError, match="gives weights no gradient"):
                torch.autograd.grad(module(x).sum(), module.weight)
