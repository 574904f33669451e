"""Maps that are linear in the input: F.linear, convolution, a product with a constant."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from explainers.autograd import gradients, rounding
from explainers.autograd.recorder import Operator, Propagator, Recorder
from explainers.autograd.relevance import Inputs

Map = Callable[[Tensor, Tensor], Tensor]

_INPUTS: dict[str, Inputs] = {"z_plus": "both", "z_plus_positive": "positive", "z_plus_each": "each"}


#: What a linear map is, where a rule asks: of the pixels themselves, one of attention's projections, or any other.
Role = Literal["pixels", "attention"] | None


class LinearMap(Operator):
    """y = forward(x, w) + b, for any map that is linear in x and in w: F.linear, convolution, x @ constant.

    ``role``: ``pixels``, x are the pixels themselves, to which the z^B rule applies under a relevance rule; ``attention``, it projects
    what attention gives. What makes queries, keys and values is told later, by :func:`explainers.autograd.projections.tell`.
    """

    title = "a linear map"

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, b: Tensor | None, forward: Map, backward: Map, role: Role, rec: Recorder) -> Tensor:
        ctx.set_materialize_grads(False)
        ctx.maps, ctx.role, ctx.rec, ctx.biased = (forward, backward), role, rec, rec.entered
        y = forward(x, w)
        ctx.save_for_backward(x, w, b, None if b is None else y)  # without a bias y is what others may write into
        return y if b is None else y + b

    @staticmethod
    def backward(ctx: Any, *signals: Tensor | None) -> Any:
        (g,) = signals
        if g is None:
            return (None,) * 7
        x, w, b, y = ctx.saved_tensors
        rule = ctx.rec.rule
        bias = b if ctx.biased else None  # of what lies before x^1, biases are no terms of their own
        if rule.linear == "gamma" and ctx.role != "attention":
            strength = rule.strength.gamma_convolution if w.dim() > 2 and ctx.maps[0] is not torch.matmul else rule.strength.gamma
            forward, backward = ctx.maps
            s_above, s_below, out = gradients.gamma(x, w, b, g, forward, backward, strength)
            if bias is not None:
                ctx.rec.add_bias(s_above, bias + strength * bias.clamp(min=0))
                ctx.rec.add_bias(s_below, bias + strength * bias.clamp(max=0))
        elif not rule.is_relevance:
            if rule.linear == "epsilon":
                y = ctx.maps[0](x, w)
                g = gradients.damped(g, y if b is None else y + b, rule.strength.epsilon)
            if bias is not None:
                ctx.rec.add_bias(g, bias)
            out = at_rows(lambda signal, _: ctx.maps[1](signal, w), g, x) if ctx.maps[0] is F.linear else ctx.maps[1](g, w)
        elif ctx.role == "pixels":
            out = rounding.split_image_linear(x, w, g, *ctx.maps)
        else:
            # Sums of terms of one sign keep their digits: here float32 is enough, and half the work.
            dtype = torch.float32 if ctx.rec.double else x.dtype
            forward, backward = ctx.maps
            inputs, weight = _INPUTS[rule.linear], w.to(dtype)

            def split(signal: Tensor, x: Tensor, y: Tensor | None = None) -> Tensor:
                return rounding.split_linear(x.to(dtype), weight, signal.to(dtype), forward, backward, inputs, y).to(g.dtype)

            known = [x] if y is None else [x, y]
            out = at_rows(split, g, *known) if forward is F.linear else split(g, *known)
        return out, None, None, None, None, None, None

    @staticmethod
    def propagate(rec: Propagator, x: Tensor, w: Tensor, b: Tensor | None, forward: Map, backward: Map, role: Role) -> Tensor:
        y = forward(x, w)
        return y if b is None else rec.with_bias(y, b)


def at_rows(back: Callable[..., Tensor], signal: Tensor, *tensors: Tensor) -> Tensor:
    """``back(signal, *tensors)`` of a map that treats each row alone; where few rows have a signal, of these alone, others getting zeros.

    In the last block it is the classification token alone whose row goes on to the head.
    """
    rows = _few_rows(signal)
    if rows is None:
        return back(signal, *tensors)
    part = back(*(t.flatten(0, -2).index_select(0, rows) for t in (signal, *tensors)))
    whole: Tensor = torch.zeros(math.prod(signal.shape[:-1]), part.shape[-1], dtype=part.dtype, device=part.device)
    return whole.index_copy(0, rows, part).view(*signal.shape[:-1], -1)


def _few_rows(signal: Tensor) -> Tensor | None:
    """Indices of the rows of a signal (B, S, N) that are not zero, where they are less than half of all; else None."""
    if signal.dim() != 3 or signal.shape[1] < 2:
        return None
    arrived = [rounding.value_of(signal), *([signal.error] if isinstance(signal, rounding.Carried) else [])]
    if all(bool(arrived[0][:, token].any()) for token in (signal.shape[1] // 2, -1)):  # two tokens tell it of nearly every signal
        return None
    rows = torch.stack([t.detach().flatten(0, 1).any(-1) for t in arrived]).any(0).nonzero()[:, 0]
    if not len(rows):  # no signal at all: a row of zeros tells the shape and the type
        return rows.new_zeros(1)
    return rows if 2 * len(rows) < signal.shape[0] * signal.shape[1] else None


def linear(x: Tensor, weight: Tensor, bias: Tensor | None, rec: Recorder, role: Role = None) -> Tensor:
    """x W^T + b."""
    rec.saw_linear(x, weight, bias)
    return rec.run(LinearMap, x, weight, bias, F.linear, torch.matmul, role)


def swapped(x: Tensor, w: Tensor) -> Tensor:
    """w @ x, as a linear map of x."""
    return w @ x


def swapped_back(signal: Tensor, w: Tensor) -> Tensor:
    """The transpose of :func:`swapped`, for equal batch dimensions."""
    return w.mT @ signal
