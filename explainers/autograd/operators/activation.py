"""Element-wise non-linearities, and the gates made of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from explainers.autograd.recorder import Operator, Propagator, Recorder

TINY = 1e-6  # below this |x| a gate act(x)/x is replaced by its limit, the slope at x


class Activation(Operator):
    """An element-wise non-linearity with act(0) = 0.

    ``power`` says that it is a power of x, perhaps part of a variance: a rule that differentiates normalisations differentiates it.
    """

    title = "an activation"

    @staticmethod
    def forward(ctx: Any, x: Tensor, act: Callable[[Tensor], Tensor], power: bool, rec: Recorder) -> Tensor:
        ctx.set_materialize_grads(False)
        y = act(x)
        ctx.save_for_backward(x, y)
        ctx.act, ctx.power, ctx.rec = act, power, rec
        ctx.factors = {}  # what a signal is multiplied by under the choices there were so far: several rules share it
        return y

    @staticmethod
    def backward(ctx: Any, *signals: Tensor | None) -> Any:
        (g,) = signals
        choice = ctx.rec.rule.activation
        if g is None or choice == "identity":
            return g, None, None, None
        factor = {"jacobian": "slope", "gate": "slope" if ctx.power and ctx.rec.rule.norm == "jacobian" else "gate"}[choice]
        if factor not in ctx.factors:
            x, y = (t.detach() for t in ctx.saved_tensors)
            ctx.factors[factor] = slope(ctx.act, x) if factor == "slope" else gate(ctx.act, x, y)
        return g * ctx.factors[factor], None, None, None

    @staticmethod
    def propagate(rec: Propagator, x: Tensor, act: Callable[[Tensor], Tensor], power: bool) -> Tensor:
        real = rec.real(x)
        near = real.abs() < TINY
        return x * torch.where(near, slope(act, real), act(real) / torch.where(near, 1.0, real))


def gate(act: Callable[[Tensor], Tensor], x: Tensor, y: Tensor) -> Tensor:
    """y/x of an element-wise function y = act(x), and its slope where x is all but zero."""
    near = x.abs() < TINY
    if not bool(near.any()):
        return y / x
    return torch.where(near, slope(act, x), y / torch.where(near, 1.0, x))


def slope(act: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Derivative of an element-wise function."""
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        (slope,) = torch.autograd.grad(act(x).sum(), x)
    return slope


class Gate(Operator):
    """A bounded non-linearity that multiplies another path (sigmoid, tanh): constant where gates are constant.

    ``Mul`` gives the whole signal to the other factor there. Where the gate is not multiplied but read on (the tanh of
    BERT's pooler), it is an :class:`Activation`, and dispatch chooses that one for functions with act(0) = 0.
    """

    title = "a gate that does not multiply anything"

    @staticmethod
    def forward(ctx: Any, x: Tensor, act: Callable[[Tensor], Tensor], rec: Recorder) -> Tensor:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x)
        ctx.act, ctx.rec = act, rec
        return act(x)

    @staticmethod
    def backward(ctx: Any, *signals: Tensor | None) -> Any:
        (g,) = signals
        choice = ctx.rec.rule.activation
        if g is None or choice == "identity":
            return g, None, None
        if choice == "gate":
            return None, None, None
        (x,) = ctx.saved_tensors
        return g * slope(ctx.act, x), None, None

    @staticmethod
    def propagate(rec: Propagator, x: Tensor, act: Callable[[Tensor], Tensor]) -> Tensor:
        return act(rec.real(x)).requires_grad_()
