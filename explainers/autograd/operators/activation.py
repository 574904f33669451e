"""Element-wise non-linearities, and the gates made of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from explainers.autograd.recorder import Operator, Propagator, Recorder, saved_of
from explainers.autograd.rules.operands import ActivationCurve


class Activation(Operator):
    """An element-wise non-linearity with act(0) = 0.

    ``power`` says that it is a power of x, perhaps part of a variance: a rule that differentiates normalisations differentiates it.
    """

    title = "an activation"

    @staticmethod
    def forward(ctx: Any, x: Tensor, act: Callable[[Tensor], Tensor], power: bool, rec: Recorder) -> Tensor:
        ctx.set_materialize_grads(False)
        y = act(x)
        rec.recompute(y, act, x)
        rec.keep(ctx, x, y)
        ctx.act, ctx.power, ctx.rec = act, power, rec
        return y

    @staticmethod
    def backward(ctx: Any, *signals: Tensor | None) -> Any:
        (g,) = signals
        if g is None:
            return None, None, None, None
        saved = saved_of(ctx)
        curve = ActivationCurve(ctx.act, lambda: saved, differentiable=ctx.rec.is_differentiated_again)
        choice = ctx.rec.rule.choice("activation")
        out = choice.power(curve, g, ctx.rec.rule.choice("norm")) if ctx.power else choice.curve(curve, g)
        return out, None, None, None

    @staticmethod
    def propagate(rec: Propagator, x: Tensor, act: Callable[[Tensor], Tensor], power: bool) -> Tensor:
        real = rec.real(x)
        return rec.rule.choice("activation").forward(ActivationCurve(act, lambda: (real,)), x)


class BoundedGate(Operator):
    """A bounded non-linearity that multiplies another path (sigmoid, tanh): constant where gates are constant.

    ``Mul`` then passes the whole signal to the other factor. If the result is not multiplied but used directly (the tanh of BERT's pooler),
    it is an :class:`Activation`, which dispatch chooses for functions with act(0) = 0.
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
        if g is None:
            return None, None, None
        curve = ActivationCurve(ctx.act, lambda: ctx.saved_tensors, differentiable=ctx.rec.is_differentiated_again)
        return ctx.rec.rule.choice("activation").gate(curve, g), None, None

    @staticmethod
    def propagate(rec: Propagator, x: Tensor, act: Callable[[Tensor], Tensor]) -> Tensor:
        return act(rec.real(x)).requires_grad_()
