"""Attention: products of two paths, and the softmax over keys; linear attention, a product of three, and its normaliser."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from explainers.autograd.operators.broadcasting import unbroadcast
from explainers.autograd.recorder import Operator, Propagator, Recorder, saved_of
from explainers.autograd.rules import operands


def _share(ctx: Any, g: Tensor | None, kind: str) -> tuple[Tensor | None, Tensor | None, None]:
    """Return what the two operands of the product kept in ``ctx`` get of the signal ``g`` at its output, and None for the recorder: as the
    rule shares operators of that ``kind``.
    """
    if g is None:
        return None, None, None
    rule = ctx.rec.rule
    product = operands.MatrixProduct(saved_of(ctx), tuple(ctx.needs_input_grad[:2]), lambda: ctx.rec.accumulated_rounding(ctx.position))
    g_a, g_b = rule.choice(kind).matmul(product, rule.choice("linear").matmul(product, g))
    return (
        unbroadcast(g_a, ctx.shapes[0]) if ctx.needs_input_grad[0] else None,
        unbroadcast(g_b, ctx.shapes[1]) if ctx.needs_input_grad[1] else None,
        None,
    )


class MatMul(Operator):
    """The matrix product a @ b of two paths: of queries with keys, of attention weights with values, or any other, such as of tokens with a
    weight that is made from them, which is shared as element-wise products are. Batch dimensions must agree.
    """

    title = "a matrix product of two paths"
    keeps_operands = True
    keeps_output = True

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, rec: Recorder) -> Tensor:
        ctx.set_materialize_grads(False)
        y = a @ b
        rec.recompute(y, torch.matmul, a, b)
        rec.keep(ctx, a, b, y)
        ctx.shapes = a.shape, b.shape
        ctx.rec, ctx.position = rec, rec.position
        return y

    @staticmethod
    def backward(ctx: Any, *signals: Tensor | None) -> Any:
        rule = ctx.rec.rule
        # by the ordinary gradient all products are alike, and passes of it run before it is known what comes after this one
        is_ordinary = rule.choice("attention").is_ordinary and rule.choice("product").is_ordinary
        shared = _share(ctx, signals[0], "attention" if is_ordinary or ctx.rec.is_of_attention(ctx.position) else "product")
        if wanted := ctx.rec.operand_signals:
            direct = {(ctx.position, side): signal for side, signal in enumerate(shared[:2])}
            wanted.update((reader, signal) for reader, signal in direct.items() if reader in wanted)
        return shared

    @staticmethod
    def propagate(rec: Propagator, a: Tensor, b: Tensor) -> Tensor:
        return a @ b  # a holds the real attention weights; the product of queries and keys is read of the real copy alone


class DynamicLinear(MatMul):
    """The product x W^T of a path with a weight that depends on the input too; it is not a product of queries and keys."""

    @staticmethod
    def propagate(rec: Propagator, a: Tensor, b: Tensor) -> Tensor:
        both = rec.rule.choice("product").part * (a @ rec.real(b) + rec.real(a) @ b)
        return torch.where(rec.where_real(both), a @ b, both)


class DynamicConvolution(DynamicLinear):
    """A convolution whose weight depends on the input too, as the product of what its places see with the weight."""


class Softmax(Operator):
    """The softmax over ``dim`` that makes attention weights."""

    title = "a softmax"
    keeps_output = True

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
        if g is not None:
            g = ctx.rec.rule.choice("attention").softmax(ctx.saved_tensors[0], ctx.dim, g)
        return None if g is None else g.to(ctx.dtype), None, None, None

    @staticmethod
    def propagate(rec: Propagator, x: Tensor, dim: int, dtype: torch.dtype | None) -> Tensor:
        # a constant, but a node of the graph, so that what depends on it is still seen to be on the path
        return torch.softmax(rec.real(x), dim, dtype=dtype).requires_grad_()


class Weights(Operator):
    """A marker of attention weights that another curve than softmax made of the products of queries and keys, placed where they are
    multiplied with the values; it does not change them. Rules that hold attention constant pass no signal through it; under other rules the
    operators that made the weights follow their own choices.
    """

    title = "attention weights"

    @staticmethod
    def forward(ctx: Any, x: Tensor, rec: Recorder) -> Tensor:
        ctx.set_materialize_grads(False)
        ctx.rec = rec
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *signals: Tensor | None) -> Any:
        (g,) = signals
        return None if g is None else ctx.rec.rule.choice("attention").weights(g), None

    @staticmethod
    def propagate(rec: Propagator, x: Tensor) -> Tensor:
        return rec.real(x).requires_grad_()


class LinearAttention(Operator):
    """Linear attention Q (K V) (Katharopoulos et al. 2020), whose weights Q K are never computed. K is (..., d, keys).

    The rules are those of (Q K) V: of the signal that weights and values share, the weights' part is shared by Q and K once more.
    ``kv`` is K V as the model computed it.
    """

    title = "linear attention"

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, kv: Tensor, rec: Recorder) -> Tensor:
        ctx.set_materialize_grads(False)
        y = query @ kv
        ctx.save_for_backward(query, key, value, kv, y)
        ctx.rec, ctx.position = rec, rec.position
        return y

    @staticmethod
    def backward(ctx: Any, *signals: Tensor | None) -> Any:
        (g,) = signals
        if g is None:
            return (None,) * 5
        rule = ctx.rec.rule
        query, key, value, kv, y = ctx.saved_tensors
        position = ctx.position
        known_later = (lambda: ctx.rec.is_normalised(position), lambda: ctx.rec.accumulated_rounding(position))
        attention = operands.LinearAttentionOperand(query, key, value, kv, y, *known_later)
        return *rule.choice("attention").linear_attention(attention, g, rule.choice("linear")), None, None

    @staticmethod
    def propagate(rec: Propagator, query: Tensor, key: Tensor, value: Tensor, kv: Tensor) -> Tensor:
        return rec.real(query) @ (rec.real(key) @ value)


class Normaliser(Operator):
    """The division a / b of the output of linear attention by its normaliser b, the sum of the weights with which a was computed; after it
    the weights sum to 1.

    If weights are constant, so is b; relevance is passed on completely. Otherwise it is a division by a scale, and follows the rule of
    normalisation. It is not treated as a softmax: that has logits of any size, and AttnLRP's rule for it is a Taylor expansion with a bias.
    Weights over their sum are x_j / g(x), which AttnLRP (Prop. 3.4) passes unchanged: differentiated, their relevance would always add up
    to 0.

    Under LRP-ε the matrix product that AttnLRP stabilises (Prop. 3.3, R / (2 O + ε)) is that of the weights which sum to 1 with the values,
    so its output O is a / b and not a: the size of a depends on how many tokens there are.

    ``apart``: b comes from a separate product, which then gets the weights' half of the signal; else b was computed together with a, by a
    column of ones next to the values.
    """

    title = "the normaliser of linear attention"

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, apart: bool, rec: Recorder) -> Tensor:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(a, b)
        ctx.apart, ctx.rec = apart, rec
        return a / b

    @staticmethod
    def backward(ctx: Any, *signals: Tensor | None) -> Any:
        (g,) = signals
        if g is None:
            return (None,) * 4
        a, b = ctx.saved_tensors
        rule = ctx.rec.rule
        quotient = operands.NormaliserOperand(a, b, tuple(ctx.needs_input_grad[:2]), ctx.apart)
        g_a, g_b = rule.choice("attention").normaliser(quotient, rule.choice("linear").normaliser(quotient, g), rule.choice("norm"))
        return None if g_a is None else unbroadcast(g_a, a.shape), None if g_b is None else unbroadcast(g_b, b.shape), None, None

    @staticmethod
    def propagate(rec: Propagator, a: Tensor, b: Tensor, apart: bool) -> Tensor:
        return a / rec.real(b)
