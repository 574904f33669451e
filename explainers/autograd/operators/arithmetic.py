"""Sums and products, element by element."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from explainers.autograd import gradients, rounding
from explainers.autograd.operators.broadcasting import unbroadcast
from explainers.autograd.recorder import Operator, Propagator, Recorder

#: Roles of what attention is made of: constants there (masks, position biases, stabilisers) are no additive terms of the tokens.
OF_ATTENTION = ("scores", "weights", "unnormalised")


class Add(Operator):
    """a + b. A constant operand is a bias.

    ``role`` of the path beside a constant: ``turned``, the samples of both lie along the last of two dimensions; one of
    :data:`OF_ATTENTION`, whose constants are not accounted for;
    ``shift``, the constant is part of a normalisation.
    """

    title = "a sum"

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, role: str | None, rec: Recorder) -> Tensor:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(a, b)
        ctx.role, ctx.rec, ctx.entered, ctx.position = role, rec, rec.entered, rec.position
        return a + b

    @staticmethod
    def backward(ctx: Any, *signals: Tensor | None) -> Any:
        (g,) = signals
        if g is None:
            return None, None, None, None
        a, b = ctx.saved_tensors
        rule = ctx.rec.rule
        g_a: Tensor | None = g
        g_b: Tensor | None = g
        if rule.is_relevance:
            # A constant takes no share, but for position embeddings added before x^1: their share is lost, as in the published code.
            if all(ctx.needs_input_grad[:2]) or not (ctx.entered or ctx.role):
                g_a, g_b = rounding.split_sum(a, b, g, rule.linear == "z_plus", ctx.rec.gathered(ctx.position))
        elif rule.linear == "epsilon" and all(ctx.needs_input_grad[:2]):
            g_a = g_b = gradients.damped(g, a + b, rule.strength.epsilon_sum)
        elif ctx.entered and ctx.role not in OF_ATTENTION and not all(ctx.needs_input_grad[:2]):
            constant = (b if ctx.needs_input_grad[0] else a).expand_as(g)
            ctx.rec.add_bias(g.mT, constant.mT) if ctx.role == "turned" else ctx.rec.add_bias(g, constant)
        return (
            unbroadcast(g_a, a) if ctx.needs_input_grad[0] else None,
            unbroadcast(g_b, b) if ctx.needs_input_grad[1] else None,
            None,
            None,
        )

    @staticmethod
    def propagate(rec: Propagator, a: Tensor, b: Tensor, role: str | None) -> Tensor:
        if a.requires_grad and b.requires_grad:
            return a + b
        path, constant = (a, b) if a.requires_grad else (b, a)
        if role == "turned":
            return rec.on_real(path.mT, (constant.expand_as(path)).mT).mT
        if role in OF_ATTENTION:
            return path + constant  # attention is the real copy's
        return rec.on_real(path, constant)


class Mul(Operator):
    """a * b, element-wise. ``roles`` tells which factor is a gate, a scale or attention weights, which the rule may hold constant."""

    title = "a product of two paths"

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, roles: tuple[str | None, str | None], rec: Recorder) -> Tensor:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(a, b)
        ctx.roles, ctx.rec = roles, rec
        return a * b

    @staticmethod
    def backward(ctx: Any, *signals: Tensor | None) -> Any:
        (g,) = signals
        if g is None:
            return None, None, None, None
        a, b = ctx.saved_tensors
        rule = ctx.rec.rule
        want_a, want_b = ctx.needs_input_grad[:2]
        fixed = {"gate": rule.activation != "jacobian", "scale": rule.norm != "jacobian", "weights": rule.attention == "constant"}
        if want_a and want_b:
            # a gate or a scale that the rule holds constant leaves everything to the other factor
            want_a, want_b = (not fixed.get(ctx.roles[0], False), not fixed.get(ctx.roles[1], False))
            if not (want_a or want_b):
                want_a = want_b = True
        both = want_a and want_b
        if rule.is_relevance:
            g_a = g_b = g / 2 if both else g
        else:
            # a product with a scale is part of a normalisation: where the rule differentiates that, both factors count whole
            halved = rule.attention in ("half", "constant_half") if "weights" in ctx.roles else rule.product == "half"
            share = 0.5 if both and halved and "scale" not in ctx.roles else 1.0
            g_a, g_b = share * g * b, share * g * a
        return unbroadcast(g_a, a) if want_a else None, unbroadcast(g_b, b) if want_b else None, None, None

    @staticmethod
    def propagate(rec: Propagator, a: Tensor, b: Tensor, roles: tuple[str | None, str | None]) -> Tensor:
        constant = tuple(role in ("gate", "scale", "weights") for role in roles)
        if constant[1]:
            return a * rec.real(b)
        if constant[0]:
            return rec.real(a) * b
        both = rec.share * (a * rec.real(b) + rec.real(a) * b)
        return torch.where(rec.where_real(both), a * b, both)


class Scale(Operator):
    """x * c with a constant c: relevance is not scaled."""

    title = "a product with a constant"

    @staticmethod
    def forward(ctx: Any, x: Tensor, c: Tensor | float, rec: Recorder) -> Tensor:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*([c] if isinstance(c, Tensor) else []))
        ctx.number, ctx.rec, ctx.shape = c, rec, x.shape
        if isinstance(c, Tensor):
            ctx.number = None
        return x * c

    @staticmethod
    def backward(ctx: Any, *signals: Tensor | None) -> Any:
        (g,) = signals
        if g is None:
            return None, None, None
        out = g if ctx.rec.rule.is_relevance else g * (ctx.saved_tensors[0] if ctx.number is None else ctx.number)
        return out.sum_to_size(ctx.shape), None, None

    @staticmethod
    def propagate(rec: Propagator, x: Tensor, c: Tensor | float) -> Tensor:
        return x * c
