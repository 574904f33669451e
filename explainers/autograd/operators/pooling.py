"""Operators that combine tokens: means, pools, maxima, and constants concatenated with tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from explainers.autograd import rounding
from explainers.autograd.nodes import Role
from explainers.autograd.operators.arithmetic import OF_ATTENTION
from explainers.autograd.recorder import Operator, Propagator, Recorder
from explainers.autograd.rules import operands

LinearFunction = Callable[[Tensor], Tensor]


class Mean(Operator):
    """A mean or a sum over dimensions: a linear map with equal positive weights. ``of_products``: the sum of products of two paths, which
    both together are a matrix product.
    """

    title = "a mean"

    @staticmethod
    def forward(ctx: Any, x: Tensor, dims: tuple[int, ...], keepdim: bool, scale: float, of_products: bool, rec: Recorder) -> Tensor:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x)
        ctx.dims, ctx.keepdim, ctx.scale, ctx.of_products, ctx.rec = dims, keepdim, scale, of_products, rec
        return x.sum(dims, keepdim=keepdim) * scale

    @staticmethod
    def backward(ctx: Any, *signals: Tensor | None) -> Any:
        (g,) = signals
        if g is None:
            return (None,) * 6
        (x,) = ctx.saved_tensors
        if not ctx.keepdim:
            for dim in sorted(d % x.dim() for d in ctx.dims):
                g = g.unsqueeze(dim)
        pool = operands.PoolOperand(x, ctx.scale, lambda t: t.sum(ctx.dims, keepdim=True), lambda s: s.expand_as(x), ctx.of_products)
        return ctx.rec.rule.choice("linear").pool(pool, g), None, None, None, None, None

    @staticmethod
    def propagate(rec: Propagator, x: Tensor, dims: tuple[int, ...], keepdim: bool, scale: float, of_products: bool) -> Tensor:
        return x.sum(dims, keepdim=keepdim) * scale


class Pool(Operator):
    """A linear map ``pool(x)`` with constant weights that are not negative: average pooling, or overlapping windows added up."""

    title = "a pool"

    @staticmethod
    def forward(ctx: Any, x: Tensor, pool: LinearFunction, rec: Recorder) -> Tensor:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x)
        ctx.pool, ctx.rec = pool, rec
        return pool(x)

    @staticmethod
    def backward(ctx: Any, *signals: Tensor | None) -> Any:
        (g,) = signals
        if g is None:
            return None, None, None
        (x,) = ctx.saved_tensors

        def back(signal: Tensor) -> Tensor:
            return _pull(ctx.pool, x, signal)

        return ctx.rec.rule.choice("linear").pool(operands.PoolOperand(x, 1.0, ctx.pool, back), g), None, None

    @staticmethod
    def propagate(rec: Propagator, x: Tensor, pool: LinearFunction) -> Tensor:
        return pool(x)


class PointReads(Operator):
    """The numbers of a map ``x`` at points that depend on the input too, as deformable attention reads them: ``read(x, points)``.

    It is linear in the map, with weights that the points choose. The ordinary gradient differentiates these weights; under every other
    choice for attention they are constants, so that the map gets the whole signal, and the points none.
    """

    title = "a read between the places of a map"

    @staticmethod
    def forward(ctx: Any, x: Tensor, points: Tensor, read: Callable[[Tensor, Tensor], Tensor], rec: Recorder) -> Tensor:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, points)
        ctx.read, ctx.rec = read, rec
        return read(x, points)

    @staticmethod
    def backward(ctx: Any, *signals: Tensor | None) -> Any:
        (g,) = signals
        if g is None:
            return (None,) * 4
        x, points = ctx.saved_tensors
        rule, of_map, of_points = ctx.rec.rule, None, None

        def read_at(values: Tensor) -> Tensor:
            read: Tensor = ctx.read(values, points)
            return read

        if ctx.needs_input_grad[0]:
            pool = operands.PoolOperand(x, 1.0, read_at, lambda signal: _pull(read_at, x, signal))
            of_map = rule.choice("linear").pool(pool, g)
        if ctx.needs_input_grad[1] and rule.choice("attention").is_ordinary:
            of_points = _pull(lambda at: ctx.read(x, at), points, g)
        return of_map, of_points, None, None

    @staticmethod
    def propagate(rec: Propagator, x: Tensor, points: Tensor, read: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        return read(x, rec.real(points))


class Pick(Operator):
    """A selection ``pick(x)`` of some of the numbers, such as the largest; its ordinary gradient is right under every rule."""

    title = "a maximum"

    @staticmethod
    def forward(ctx: Any, x: Tensor, pick: LinearFunction, rec: Recorder) -> Tensor:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x)
        ctx.pick = pick
        return pick(x)

    @staticmethod
    def backward(ctx: Any, *signals: Tensor | None) -> Any:
        (g,) = signals
        return None if g is None else _pull(ctx.pick, ctx.saved_tensors[0], g), None, None

    @staticmethod
    def propagate(rec: Propagator, x: Tensor, pick: LinearFunction) -> Tensor:
        """Return for each copy of a sample the numbers of ``x`` that ``pick`` selects in the real sample: the Jacobian-vector product at
        those indices. It is computed as the gradient of a gradient.
        """
        with torch.enable_grad():
            real = rec.real(x).requires_grad_()
            largest = pick(real)
            signal = torch.zeros_like(largest, requires_grad=True)
            (back,) = torch.autograd.grad(largest, real, signal, create_graph=True)
            picked: Tensor = torch.autograd.grad(back, signal, x, create_graph=True)[0]
        return picked


def _pull(function: LinearFunction, x: Tensor, signal: Tensor) -> Tensor:
    """Return the signal at ``x`` that belongs to ``signal`` at ``function(x)``, by the ordinary gradient of ``function``."""
    differentiable = torch.is_grad_enabled()
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        return torch.autograd.grad(function(x), x, signal, create_graph=differentiable)[0]


class Constant(Operator):
    """A constant that is concatenated with tensors that depend on the input, such as a class token. It counts as a bias, unless ``role`` is
    one of :data:`~explainers.autograd.operators.arithmetic.OF_ATTENTION`, as that of a sink next to attention scores.

    It takes its share of relevance, which is accounted for in the same way, whatever its role. ``path`` is anything that depends on the
    input; it only makes the constant a node of the graph. ``axis`` is the one along which the constant joins the tokens, of which it is
    none; None if it does not.
    """

    title = "a constant among the tokens"

    @staticmethod
    def forward(ctx: Any, constant: Tensor, path: Tensor, role: Role | None, axis: int | None, rec: Recorder) -> Tensor:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(constant)
        ctx.rec, ctx.role, ctx.axis = rec, role, axis
        return constant.clone()

    @staticmethod
    def backward(ctx: Any, *signals: Tensor | None) -> Any:
        (g,) = signals
        if g is not None and (ctx.role not in OF_ATTENTION or ctx.rec.rule.is_relevance):
            signal = rounding.value_of(g)
            factor = ctx.rec.rule.choice("linear").factor_of_constant(ctx.saved_tensors[0], signal)
            if ctx.axis is not None:  # by sample alone: another axis may be as long as that of the tokens
                signal, factor = (signal * factor).flatten(1).sum(1, keepdim=True), torch.ones_like(signal[:, :1].flatten(1)[:, :1])
            ctx.rec.add_bias(signal, factor)
        return None, None, None, None, None

    @staticmethod
    def propagate(rec: Propagator, constant: Tensor, path: Tensor, role: Role | None, axis: int | None) -> Tensor:
        return (constant * rec.where_constants(constant).to(constant.dtype)).requires_grad_()
