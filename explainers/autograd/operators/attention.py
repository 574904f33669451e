"""Attention: products of two paths, and the softmax over keys; linear attention, a product of three, and its normaliser."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from explainers.autograd import gradients, rounding
from explainers.autograd.operators.broadcasting import unbroadcast
from explainers.autograd.recorder import Operator, Propagator, Recorder


class MatMul(Operator):
    """a @ b of two paths: queries with keys, attention with values. Batch dimensions must agree."""

    title = "a matrix product of two paths"

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

    title = "a softmax"

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


class Weights(Operator):
    """Attention weights that another curve than softmax made of the products of queries and keys, where they meet the values: constant
    where attention is, else what lies behind them follows its own choice.
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
        return None if ctx.rec.rule.attention in ("constant", "constant_half") else g, None

    @staticmethod
    def propagate(rec: Propagator, x: Tensor) -> Tensor:
        return rec.real(x).requires_grad_()


class LinearAttention(Operator):
    """Q (K V), linear attention (Katharopoulos et al. 2020): what Q K would weigh V by, never made itself. K is (..., d, keys).

    The rules are those of (Q K) V: of the signal that weights and values share, the weights' part is shared by Q and K once more.
    ``kv`` is K V as the model computed it.
    """

    title = "linear attention"

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, kv: Tensor, rec: Recorder) -> Tensor:
        ctx.set_materialize_grads(False)
        y = query @ kv
        ctx.save_for_backward(query, key, value, kv, y)
        ctx.rec, ctx.position, ctx.normalised = rec, rec.position, False
        return y

    @staticmethod
    def backward(ctx: Any, *signals: Tensor | None) -> Any:
        (g,) = signals
        if g is None:
            return (None,) * 5
        query, key, value, kv, y = ctx.saved_tensors
        rule = ctx.rec.rule
        halves = rule.attention in ("half", "constant_half", "relevance")
        share, inner = (0.5, 0.25) if halves else (1.0, 1.0)  # of values, and of queries and keys each
        if rule.attention == "relevance":
            of_query, of_key, of_value = rounding.split_linear_attention(query, key, value, kv, y, g, ctx.rec.gathered(ctx.position))
            return inner * of_query, inner * of_key, share * of_value, None, None
        weighs = rule.attention not in ("constant", "constant_half")
        if rule.linear == "epsilon":
            return *_with_epsilon(ctx, g, share, inner if weighs else None), None, None
        at_kv = query.mT @ g
        return (
            inner * (g @ kv.mT) if weighs else None,
            inner * (at_kv @ value.mT) if weighs else None,
            share * (key.mT @ at_kv),
            None,
            None,
        )

    @staticmethod
    def propagate(rec: Propagator, query: Tensor, key: Tensor, value: Tensor, kv: Tensor) -> Tensor:
        return rec.real(query) @ (rec.real(key) @ value)


def _with_epsilon(ctx: Any, g: Tensor, share: float, inner: float | None) -> tuple[Tensor | None, Tensor | None, Tensor]:
    """Signals at Q, K and V under LRP-ε, which divides each weight by itself: so here they are made. ``inner`` None: they are constants."""
    query, key, value, _, y = ctx.saved_tensors
    epsilon = ctx.rec.rule.strength.epsilon_sum / 2  # each product is taken twice, once for each factor
    weights = query @ key
    if not ctx.normalised:
        g = gradients.damped(g, y, epsilon)
    of_value = share * (weights.mT @ g)
    if inner is None:
        return None, None, of_value
    at_weights = inner * gradients.damped(g @ value.mT, weights, epsilon)
    return at_weights @ key.mT, query.mT @ at_weights, of_value


def mark_normalised(attended: Tensor) -> None:
    """Note that ``attended``, numbers that linear attention gave, is divided by its normaliser, which stabilises in its place."""
    waiting, seen = [attended.grad_fn], set()
    while waiting:
        node: Any = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if type(node).__name__ == "LinearAttentionBackward":
            node.normalised = True
        else:
            waiting += [before for before, _ in node.next_functions]


class Normaliser(Operator):
    """a / b of linear attention, b the sum of the weights by which a was made, so that they sum to 1.

    Where weights are constant, so is b; of relevance it passes on all. Else it is what other divisions by a scale are, and follows the rule
    of normalisation. It is no softmax: that has logits of any size, and AttnLRP's rule for it is a Taylor expansion with a bias. Weights
    over their sum are x_j / g(x), which AttnLRP (Prop. 3.4) passes unchanged: differentiated, their relevance would always add up to 0.

    Under LRP-ε the matrix product that AttnLRP stabilises (Prop. 3.3, R / (2 O + ε)) is that of the weights which sum to 1 with the values,
    so its output O is a / b and not a: the size of a depends on how many tokens there are.

    ``apart``: b comes from a product of its own, which then holds the half of the signal that is the weights'; else values of one beside
    the others made it together with a.
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
        if rule.attention == "relevance":
            return unbroadcast(g, a), None, None, None
        if rule.linear == "epsilon":
            g = gradients.damped(g, a / b, rule.strength.epsilon_sum / 2)
        choice = "constant" if rule.attention in ("constant", "constant_half") else rule.norm
        of_b = None
        if choice == "jacobian":
            share = 0.5 if rule.attention == "half" and ctx.apart else 1.0
            of_b = unbroadcast(-share * g * a / b.square(), b)
        return unbroadcast(g if choice == "identity" else g / b, a), of_b, None, None

    @staticmethod
    def propagate(rec: Propagator, a: Tensor, b: Tensor, apart: bool) -> Tensor:
        return a / rec.real(b)
