"""Maps that are linear in the input: F.linear, convolution, a product with a constant."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from explainers.autograd.nodes import Node
from explainers.autograd.operators.accounting import account_of
from explainers.autograd.recorder import Operator, Propagator, Recorder, saved_of
from explainers.autograd.rules import operands
from explainers.autograd.rules.operands import BilinearMap, LinearMapRole
from explainers.models import matrix_products


def weight_and_bias_of(node: Node) -> tuple[Tensor, Tensor | None]:
    """Return the weight and the bias of a recorded linear map."""
    return node.settings["w"], node.settings["b"]


class LinearMap(Operator):
    """y = forward(x, w) + b, for any map that is linear in x and in w: F.linear, convolution, x @ constant.

    ``role`` "pixels": x holds the pixels themselves, to which the z^B rule applies under a relevance rule. "attention": it projects the
    output of attention. Which maps make queries, keys and values is known when the pass has ended.
    """

    title = "a linear map"
    keeps_operands = True

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, w: Tensor, b: Tensor | None, forward: BilinearMap, backward: BilinearMap, role: LinearMapRole, rec: Recorder
    ) -> Tensor:
        ctx.set_materialize_grads(False)
        ctx.maps, ctx.role, ctx.rec, ctx.biased, ctx.position = (forward, backward), role, rec, rec.entered, rec.position
        y = forward(x, w)
        rec.keep(ctx, x, w, b, None if b is None else y)  # without a bias y is what others may write into
        if b is None:
            return y
        out = _add_bias(y, b)
        rec.recompute(out, _add_bias, y, b)
        return out

    @staticmethod
    def backward(ctx: Any, *signals: Tensor | None) -> Any:
        (g,) = signals
        if g is None:
            return (None,) * 7
        choice = ctx.rec.rule.choice("linear")
        account = account_of(ctx.rec, ctx.biased and choice.counts_biases)
        forward, backward = ctx.maps
        differentiable = ctx.rec.is_differentiated_again
        linear = operands.LinearMapOperand(saved_of(ctx), forward, backward, lambda: _role(ctx), ctx.rec.double, account, differentiable)
        return choice.map(linear, g), None, None, None, None, None, None

    @staticmethod
    def propagate(
        rec: Propagator, x: Tensor, w: Tensor, b: Tensor | None, forward: BilinearMap, backward: BilinearMap, role: LinearMapRole
    ) -> Tensor:
        y = forward(x, w)
        return y if b is None else rec.with_bias(y, b, "attention" if role == "attention" else "linear")


def _add_bias(y: Tensor, bias: Tensor) -> Tensor:
    return y + bias.to(y.dtype)  # under autocast they differ


def _role(ctx: Any) -> LinearMapRole:
    return "attention" if ctx.rec.is_projection(ctx.position) else ctx.role


def linear(x: Tensor, weight: Tensor, bias: Tensor | None, rec: Recorder, role: LinearMapRole = None) -> Tensor:
    """Apply the linear map x W^T + b and record it, so that a rule can choose its backward pass."""
    return rec.run(LinearMap, x, weight, bias, matrix_products.linear, matrix_products.matmul, role)


def swapped(x: Tensor, w: Tensor) -> Tensor:
    """Return w @ x, as a linear map of x."""
    return w @ x


def swapped_back(signal: Tensor, w: Tensor) -> Tensor:
    """Apply the transpose of :func:`swapped` to a signal, for equal batch dimensions."""
    return w.mT @ signal
