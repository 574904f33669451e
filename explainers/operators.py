"""The operators of a recorded forward pass: autograd functions whose backward follows the rule in force.

Each computes what torch computes. In ``backward`` it asks the recording which :class:`~explainers.rules.Rule` is in
force. A signal of None means
"nothing arrives", and is passed on as None, so that a branch cut by a rule (queries and keys under constant attention) costs nothing.

Every additive constant ``b`` of an operator with output ``y`` reports ``signal * b`` to the recording: FullGrad's bias
terms (Srinivas & Fleuret 2019).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional as F

from explainers import relevance

if TYPE_CHECKING:
    from explainers.recording import Recording

Map = Callable[[Tensor, Tensor], Tensor]
TINY = 1e-6  # below this |x| a gate act(x)/x is replaced by its limit, the slope at x


def _reduce(signal: Tensor | None, like: Tensor) -> Tensor | None:
    """Undo broadcasting."""
    return None if signal is None else signal.sum_to_size(like.shape) if signal.shape != like.shape else signal


class LinearMap(Function):
    """y = forward(x, w) + b, for any map that is linear in x and in w: F.linear, convolution, x @ constant.

    ``image`` says that x are the pixels themselves, to which the z^B rule applies under a relevance rule.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, b: Tensor | None, forward: Map, backward: Map, image: bool, rec: Recording) -> Tensor:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, w, b)
        ctx.maps, ctx.image, ctx.rec, ctx.biased = (forward, backward), image, rec, rec.entered
        y = forward(x, w)
        return y if b is None else y + b

    @staticmethod
    def backward(ctx: Any, *signals: Tensor | None) -> Any:
        (g,) = signals
        if g is None:
            return (None,) * 7
        x, w, b = ctx.saved_tensors
        rule = ctx.rec.rule
        if not rule.is_relevance:
            if b is not None and ctx.biased:
                ctx.rec.add_bias(g, b)
            out = ctx.maps[1](g, w)
        elif ctx.image:
            out = relevance.split_image_linear(x, w, g, *ctx.maps)
        else:
            # Sums of terms of one sign keep their digits: here float32 is enough, and half the work.
            dtype = torch.float32 if ctx.rec.double else x.dtype
            forward, backward = ctx.maps
            each = rule.linear == "z_plus_each"
            out = relevance.split_linear(x.to(dtype), w.to(dtype), g.to(dtype), forward, backward, each).to(g.dtype)
        return out, None, None, None, None, None, None


class MatMul(Function):
    """a @ b of two paths: queries with keys, attention with values. Batch dimensions must agree."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, rec: Recording) -> Tensor:
        ctx.set_materialize_grads(False)
        y = a @ b
        ctx.save_for_backward(a, b, y)
        ctx.rec = rec
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
            g_a, g_b = relevance.split_product(a, b, y, g)
            if not all(ctx.needs_input_grad[:2]):  # the other factor is a constant and takes no share
                g_a, g_b = g_a * 2, g_b * 2
        else:
            share = 0.5 if choice == "half" and all(ctx.needs_input_grad[:2]) else 1.0  # a constant takes no share
            g_a = share * (g @ b.mT) if ctx.needs_input_grad[0] else None
            g_b = share * (a.mT @ g) if ctx.needs_input_grad[1] else None
        return (
            _reduce(g_a, a) if ctx.needs_input_grad[0] else None,
            _reduce(g_b, b) if ctx.needs_input_grad[1] else None,
            None,
        )


class Softmax(Function):
    """Softmax over ``dim``: the attention weights."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, dim: int, dtype: torch.dtype | None, rec: Recording) -> Tensor:
        ctx.set_materialize_grads(False)
        y = torch.softmax(x, dim, dtype=dtype)
        ctx.save_for_backward(y)
        ctx.dim, ctx.rec, ctx.dtype = dim, rec, x.dtype
        return y

    @staticmethod
    def backward(ctx: Any, *signals: Tensor | None) -> Any:
        (g,) = signals
        choice = ctx.rec.rule.attention
        if g is None or choice == "constant":
            return None, None, None, None
        if choice != "relevance":
            (y,) = ctx.saved_tensors
            gy = g * y
            g = gy - y * gy.sum(ctx.dim, keepdim=True)
        return g.to(ctx.dtype), None, None, None


class Norm(Function):
    """Normalisation over the last ``dims`` dimensions, centred (LayerNorm) or not (RMSNorm), then weight and bias."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        dims: int,
        eps: float,
        centred: bool,
        function: Callable[[Tensor], Tensor],
        rec: Recording,
    ) -> Tensor:
        """``function`` is torch's own normalisation, so that the value is exactly the model's."""
        ctx.set_materialize_grads(False)
        over = tuple(range(-dims, 0))
        mean = x.mean(over, keepdim=True) if centred else None
        centre = x if mean is None else x - mean
        inverse = (centre.square().mean(over, keepdim=True) + eps).rsqrt()
        ctx.save_for_backward(centre * inverse, inverse, mean, weight, bias)
        ctx.over, ctx.rec, ctx.biased = over, rec, rec.entered
        return function(x)

    @staticmethod
    def backward(ctx: Any, *signals: Tensor | None) -> Any:
        (g,) = signals
        nothing = (None,) * 7
        if g is None:
            return None, *nothing
        unit, inverse, mean, weight, bias = ctx.saved_tensors
        choice = ctx.rec.rule.norm
        if not ctx.rec.rule.is_relevance and bias is not None and ctx.biased:
            ctx.rec.add_bias(g, bias)
        if choice == "identity":
            return g, *nothing
        if weight is not None:
            g = g * weight
        if choice == "constant_mean":
            g = g * inverse
            if mean is not None and ctx.biased and not ctx.rec.rule.is_relevance:  # a constant that is taken off is a bias
                ctx.rec.add_bias(g, -mean)
            return g, *nothing
        out = g if mean is None else g - g.mean(ctx.over, keepdim=True)
        if choice == "jacobian":
            out = out - unit * (g * unit).mean(ctx.over, keepdim=True)
        return out * inverse, *nothing


class Activation(Function):
    """An element-wise non-linearity with act(0) = 0.

    ``power`` says that it is a power of x, perhaps part of a variance: a rule that differentiates normalisations differentiates it.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, act: Callable[[Tensor], Tensor], power: bool, rec: Recording) -> Tensor:
        ctx.set_materialize_grads(False)
        y = act(x)
        ctx.save_for_backward(x, y)
        ctx.act, ctx.power, ctx.rec = act, power, rec
        return y

    @staticmethod
    def backward(ctx: Any, *signals: Tensor | None) -> Any:
        (g,) = signals
        choice = ctx.rec.rule.activation
        if g is None or choice == "identity":
            return g, None, None, None
        x, y = ctx.saved_tensors
        if choice == "gate" and not (ctx.power and ctx.rec.rule.norm == "jacobian"):
            near = x.abs() < TINY
            gate = y / torch.where(near, 1.0, x)
            return g * (torch.where(near, slope(ctx.act, x), gate) if bool(near.any()) else gate), None, None, None
        return g * slope(ctx.act, x), None, None, None


def slope(act: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Derivative of an element-wise function."""
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        (slope,) = torch.autograd.grad(act(x).sum(), x)
    return slope


class Gate(Function):
    """A bounded non-linearity that multiplies another path (sigmoid, tanh): constant where gates are constant.

    ``Mul`` gives the whole signal to the other factor there. Where the gate is not multiplied but read on (the tanh of
    BERT's pooler), it is
    an :class:`Activation`, and dispatch chooses that one for functions with act(0) = 0.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, act: Callable[[Tensor], Tensor], rec: Recording) -> Tensor:
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


class Add(Function):
    """a + b. A constant operand is a bias.

    ``role`` of the path beside a constant: ``turned``, the samples of both lie along the last of two dimensions; ``scores`` or
    ``weights`` of attention, whose constants (masks, position biases) are no additive terms of the tokens and are not accounted for;
    ``shift``, the constant is part of a normalisation.
    """

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, role: str | None, rec: Recording) -> Tensor:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(a, b)
        ctx.role, ctx.rec, ctx.entered = role, rec, rec.entered
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
                g_a, g_b = relevance.split_sum(a, b, g, normalise=rule.linear == "z_plus")
        elif ctx.entered and ctx.role not in ("scores", "weights") and not all(ctx.needs_input_grad[:2]):
            constant = (b if ctx.needs_input_grad[0] else a).expand_as(g)
            ctx.rec.add_bias(g.mT, constant.mT) if ctx.role == "turned" else ctx.rec.add_bias(g, constant)
        return (
            _reduce(g_a, a) if ctx.needs_input_grad[0] else None,
            _reduce(g_b, b) if ctx.needs_input_grad[1] else None,
            None,
            None,
        )


class Mul(Function):
    """a * b, element-wise. ``roles`` tells which factor is a gate or a scale, which the rule may hold constant."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, roles: tuple[str | None, str | None], rec: Recording) -> Tensor:
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
        fixed = {"gate": rule.activation != "jacobian", "scale": rule.norm != "jacobian"}
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
            share = 0.5 if both and rule.product == "half" and "scale" not in ctx.roles else 1.0
            g_a, g_b = share * g * b, share * g * a
        return _reduce(g_a, a) if want_a else None, _reduce(g_b, b) if want_b else None, None, None


class Div(Function):
    """a / b with a denominator computed from the input: a scale."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, rec: Recording) -> Tensor:
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
        choice = ctx.rec.rule.norm
        g_a = _reduce(g if choice == "identity" else g / b, a) if ctx.needs_input_grad[0] else None
        g_b = _reduce(-g * a / b.square(), b) if ctx.needs_input_grad[1] and choice == "jacobian" else None
        return g_a, g_b, None


class Scale(Function):
    """x * c with a constant c: relevance is not scaled."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, c: Tensor | float, rec: Recording) -> Tensor:
        ctx.set_materialize_grads(False)
        ctx.c, ctx.rec, ctx.shape = c, rec, x.shape
        return x * c

    @staticmethod
    def backward(ctx: Any, *signals: Tensor | None) -> Any:
        (g,) = signals
        if g is None:
            return None, None, None
        out = g if ctx.rec.rule.is_relevance else g * ctx.c
        return out.sum_to_size(ctx.shape), None, None


def linear(x: Tensor, weight: Tensor, bias: Tensor | None, rec: Recording, image: bool = False) -> Tensor:
    """x W^T + b. ``image`` says that x are pixels."""
    rec.saw_linear(x, weight, bias)
    return rec.run(LinearMap, x, weight, bias, F.linear, torch.matmul, image)


def swapped(x: Tensor, w: Tensor) -> Tensor:
    """w @ x, as a linear map of x."""
    return w @ x


def swapped_back(signal: Tensor, w: Tensor) -> Tensor:
    """The transpose of :func:`swapped`, for equal batch dimensions."""
    return w.mT @ signal
