"""Attention: products of two paths, and the softmax over keys."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from explainers.autograd import gradients, rounding
from explainers.autograd.operators.broadcasting import unbroadcast
from explainers.autograd.recorder import Operator, Propagator, Recorder


class MatMul(Operator):
    """a @ b of two paths: queries with keys, attention with values. Batch dimensions must agree."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, rec: Recorder) -> Tensor:
        ctx.set_materialize_grads(False)
        y = a @ b
        ctx.save_for_backward(a, b, y)
        ctx.rec, ctx.position = rec, rec.position
        return y

    @staticmethod
    def backward(ctx: Any, *signals: Tensor | None) -> Any:
        (g,) = signals
        if g is None:
            return None, None, None
        a, b, y = ctx.saved_tensors
        choice = ctx.rec.rule.attention
        g_a: Tensor | None
        g_b: Tensor | None
        if choice == "relevance":
            g_a, g_b = rounding.split_product(a, b, y, g, ctx.rec.gathered(ctx.position))
            if not all(ctx.needs_input_grad[:2]):  # the other factor is a constant and takes no share
                g_a, g_b = g_a * 2, g_b * 2
        else:
            if ctx.rec.rule.linear == "epsilon":
                # the product is taken twice, once for each factor that is a path
                g = gradients.damped(g, y, ctx.rec.rule.strength.epsilon_sum / sum(ctx.needs_input_grad[:2]))
            share = 0.5 if choice in ("half", "constant_half") and all(ctx.needs_input_grad[:2]) else 1.0  # a constant takes no share
            g_a = share * (g @ b.mT) if ctx.needs_input_grad[0] else None
            g_b = share * (a.mT @ g) if ctx.needs_input_grad[1] else None
        return (
            unbroadcast(g_a, a) if ctx.needs_input_grad[0] else None,
            unbroadcast(g_b, b) if ctx.needs_input_grad[1] else None,
            None,
        )

    @staticmethod
    def propagate(rec: Propagator, a: Tensor, b: Tensor) -> Tensor:
        return a @ b  # a holds the real attention weights; the product of queries and keys is read of the real copy alone


class Softmax(Operator):
    """Softmax over ``dim``: the attention weights."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, dim: int, dtype: torch.dtype | None, rec: Recorder) -> Tensor:
        ctx.set_materialize_grads(False)
        y = torch.softmax(x, dim, dtype=dtype)
        ctx.save_for_backward(y)
        ctx.dim, ctx.rec, ctx.dtype = dim, rec, x.dtype
        return y

    @staticmethod
    def backward(ctx: Any, *signals: Tensor | None) -> Any:
        (g,) = signals
        choice = ctx.rec.rule.attention
        if g is None or choice in ("constant", "constant_half"):
            return None, None, None, None
        if choice != "relevance":
            (y,) = ctx.saved_tensors
            gy = g * y
            g = gy - y * gy.sum(ctx.dim, keepdim=True)
        return g.to(ctx.dtype), None, None, None

    @staticmethod
    def propagate(rec: Propagator, x: Tensor, dim: int, dtype: torch.dtype | None) -> Tensor:
        # a constant, but a node of the graph, so that what depends on it is still seen to be on the path
        return torch.softmax(rec.real(x), dim, dtype=dtype).requires_grad_()
