"""Normalisation: in one step, or divided by a scale that was computed from the input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from explainers.autograd.operators.accounting import account_of
from explainers.autograd.operators.broadcasting import unbroadcast
from explainers.autograd.recorder import Operator, Propagator, Recorder, saved_of
from explainers.autograd.rules.operands import Normalisation, Quotient


class Norm(Operator):
    """Normalisation over the last ``dims`` dimensions, centred (LayerNorm) or not (RMSNorm), then weight and bias."""

    title = "a normalisation"

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        dims: int,
        eps: float,
        centred: bool,
        function: Callable[[Tensor, Tensor | None, Tensor | None], Tensor],
        rec: Recorder,
    ) -> Tensor:
        """Normalise ``x`` over its last ``dims`` dimensions by ``function`` of x, weight and bias, torch's own normalisation, so that the
        value is exactly the model's; keep what the backward pass needs, and return the result.
        """
        ctx.set_materialize_grads(False)
        over = tuple(range(-dims, 0))
        mean = x.mean(over, keepdim=True) if centred else None
        centre = x if mean is None else x - mean
        inverse = (centre.square().mean(over, keepdim=True) + eps).rsqrt()
        rec.keep(ctx, x, inverse, mean, weight, bias)
        ctx.over, ctx.rec, ctx.biased, ctx.position = over, rec, rec.entered, rec.position
        y = function(x, weight, bias)
        rec.recompute(y, function, x, weight, bias)
        return y

    @staticmethod
    def backward(ctx: Any, *signals: Tensor | None) -> Any:
        (g,) = signals
        nothing = (None,) * 7
        if g is None:
            return None, *nothing
        rule = ctx.rec.rule
        linear = rule.choice("linear")
        account = account_of(ctx.rec, ctx.biased and linear.counts_biases, ctx.position)
        norm = Normalisation(saved_of(ctx), ctx.over, account)
        return rule.choice("norm").normalise(norm, linear.norm(norm, g)), *nothing

    @staticmethod
    def propagate(
        rec: Propagator, x: Tensor, weight: Tensor | None, bias: Tensor | None, dims: int, eps: float, centred: bool, function: Any
    ) -> Tensor:
        over = tuple(range(-dims, 0))
        real = rec.real(x)
        centre = real - real.mean(over, keepdim=True) if centred else real
        factor = (centre.square().mean(over, keepdim=True) + eps).rsqrt()
        factor = factor if weight is None else factor * weight
        y = rec.rule.choice("norm").forward(x, over if centred else None, factor)
        y = (y if bias is None else rec.with_bias(y, bias, "norm")).contiguous()  # as torch's own normalisations are
        rec.norms.append((x, y, factor, centred))
        return y


class Div(Operator):
    """The quotient a / b of a path and a denominator computed from the input, which counts as a scale."""

    title = "a division"

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, rec: Recorder) -> Tensor:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(a, b)
        ctx.rec = rec
        return a / b

    @staticmethod
    def backward(ctx: Any, *signals: Tensor | None) -> Any:
        (g,) = signals
        if g is None:
            return None, None, None
        a, b = ctx.saved_tensors
        g_a, g_b = ctx.rec.rule.choice("norm").divide(Quotient(a, b, tuple(ctx.needs_input_grad[:2])), g)
        return None if g_a is None else unbroadcast(g_a, a.shape), None if g_b is None else unbroadcast(g_b, b.shape), None

    @staticmethod
    def propagate(rec: Propagator, a: Tensor, b: Tensor) -> Tensor:
        return a / rec.real(b)
