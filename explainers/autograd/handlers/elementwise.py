"""Activations, gates, sums and products."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Size, Tensor
from torch.nn import functional as F

from explainers.autograd import operators as op
from explainers.autograd.dispatch import (
    Handler,
    TorchFunction,
    call_through,
    handles,
    make_scale,
    note,
    place_of_inplace,
    role,
    writes_into_first,
)
from explainers.autograd.handlers.written_curve import gate_in_curve
from explainers.autograd.handlers.written_norm import note_mean
from explainers.autograd.handlers.written_sigmoid import is_curve_of, is_exponential_of, sigmoid_exponent, tanh_exponent
from explainers.autograd.handlers.written_softmax import keep_unshifted, written_softmax, written_softmax_by_inverse
from explainers.autograd.nodes import Move, Node, Role, Unruled, ancestors
from explainers.autograd.operators.arithmetic import OF_ATTENTION, has_no_bias
from explainers.autograd.products import are_curved_scores, are_mixed_weights
from explainers.autograd.queued import is_queued
from explainers.autograd.recorder import Recorder


def activation(rec: Recorder, func: TorchFunction, input: Tensor, *args: Any, gives: Role | None = None, **kwargs: Any) -> Tensor:
    """Compute ``func`` of ``input``, an element-wise function with act(0) = 0, record it and return the result. ``gives`` is the role of
    the result, unless the input holds attention scores.
    """
    if not rec.active(input):
        return func(input, *args, **kwargs)
    return rec.run(op.Activation, input, lambda x: func(x, *args, **kwargs), False, role=_role_after_curve(rec, input) or gives)


def _role_after_curve(rec: Recorder, input: Tensor) -> Role | None:
    """Return the role of the output of a curve: CURVED if ``input`` are attention scores, else None."""
    return Role.CURVED if role(rec, input) in (Role.SCORES, Role.CURVED) else None


def may_write(handler: Handler, without_writing: TorchFunction | None = None) -> Handler:
    """Return a handler for a function that can write into its first argument: by its name, as ``x.add_(y)``, or by ``inplace=True``.

    ``handler`` computes the result without writing and without ``inplace``; the result is then written, so that everything else that holds
    the argument sees the new value. ``without_writing`` is the function with another name that computes the same without writing.
    """

    def handle(rec: Recorder, func: TorchFunction, input: Tensor, *args: Any, **kwargs: Any) -> Any:
        if not any(rec.active(a) for a in (input, *args, *kwargs.values())):
            return func(input, *args, **kwargs)
        writes, place = writes_into_first(func, (input, *args), kwargs), place_of_inplace(func)
        kwargs.pop("inplace", None)
        args = args if place is None else args[: place - 1]  # it is the last of them
        if not writes:
            return handler(rec, func, input, *args, **kwargs)
        before = rec.nodes.move(input.clone(), input, role(rec, input))
        out = handler(rec, without_writing or func, before, *args, **kwargs)
        rec.before_write(input)  # it may be another operand, too
        return rec.nodes.move(input.copy_(out), out, role(rec, out))

    return handle


handles(F.gelu, F.softsign, torch.relu, Tensor.relu, torch.selu, torch.celu, torch.rrelu)(activation)
handles(F.silu, F.relu, F.relu6, F.leaky_relu, F.elu, F.selu, F.celu, F.mish, F.hardswish, F.rrelu)(may_write(activation))


@handles(F.prelu, torch.prelu, Tensor.prelu)
def _prelu(rec: Recorder, func: TorchFunction, input: Tensor, weight: Tensor) -> Tensor:
    if not (rec.active(weight) or (rec.is_own_code and weight.requires_grad)):
        return activation(rec, func, input, weight)
    by_channel = weight if weight.numel() == 1 or input.dim() < 2 else weight.view(-1, *[1] * (input.dim() - 2))
    shaped = rec.nodes.move(by_channel, weight)
    negative = activation(rec, torch.relu, mul(rec, torch.mul, input, -1))
    below = mul(rec, torch.mul, mul(rec, torch.mul, negative, shaped), -1)
    above = activation(rec, torch.relu, input)
    return rec.nodes.move(torch.where(input > 0, above, below), above if rec.active(above) else below)


@handles(torch.tanh, Tensor.tanh, F.tanh, torch.erf, Tensor.erf)
def _odd_gate(rec: Recorder, func: TorchFunction, input: Tensor) -> Tensor:
    return activation(rec, func, input, gives=Role.GATE)


@handles(torch.clamp, Tensor.clamp, torch.clip, Tensor.clip, torch.clamp_min, Tensor.clamp_min, torch.clamp_max, Tensor.clamp_max)
def _clamp(rec: Recorder, func: TorchFunction, input: Tensor, *args: Any, **kwargs: Any) -> Any:
    """Compute a clamp of ``input``, record it and return the result. If its bounds include zero it counts as an activation, such as a
    rectifier; a clamp of a scale or a gate only bounds it.
    """
    bounds = [bound for bound in (*args, *kwargs.values()) if bound is not None]
    plain = (
        rec.active(input)
        and role(rec, input) in (None, Role.SCORES, Role.CURVED, Role.CONTEXT)
        and not any(isinstance(b, Tensor) for b in bounds)
    )
    if plain and float(func(torch.zeros(()), *args, **kwargs)) == 0:
        return activation(rec, func, input, *args, **kwargs)
    return call_through(rec, func, (input, *args), kwargs)


handles(F.hardtanh)(may_write(_clamp))


@handles(torch.sigmoid, Tensor.sigmoid, F.sigmoid)
def bounded_gate(rec: Recorder, func: TorchFunction, input: Tensor) -> Tensor:
    """Compute ``func`` of ``input``, a sigmoid, smooth or hard, record it as an operator and return the result; it counts as a gate if a
    path is multiplied by it.
    """
    if not rec.active(input):
        return func(input)
    curved = _role_after_curve(rec, input)
    out = rec.run(op.BoundedGate, input, func, role=curved or Role.GATE)
    if curved:  # AttnLRP has no rule for it
        rec.watch(out, f"attention by {func.__name__}", lambda rule: rule.choice("attention").covers_gates)
    return out


handles(F.hardsigmoid)(may_write(bounded_gate))


@handles(torch.heaviside, Tensor.heaviside)
def _heaviside(rec: Recorder, func: TorchFunction, input: Tensor, values: Tensor) -> Tensor:
    """Compute a step function, which has no derivative in torch: it is constant but at 0, so that its result is a constant here."""
    return func(input.detach(), values.detach())


@handles(F.glu)
def _glu(rec: Recorder, func: TorchFunction, input: Tensor, dim: int = -1) -> Tensor:
    if not rec.active(input):
        return func(input, dim)
    value, gated = (rec.nodes.move(half, input) for half in input.chunk(2, dim))
    out: Tensor = mul(rec, torch.mul, value, bounded_gate(rec, torch.sigmoid, gated))
    return out


@handles(torch.add, Tensor.add, Tensor.__add__, Tensor.__radd__)
def add(rec: Recorder, func: TorchFunction, input: Any, other: Any, *, alpha: float = 1) -> Tensor:
    """Compute ``input`` + alpha ``other``, two tensors or numbers, and return the sum; ``func`` is the called function, which is not used.

    ``rec`` records the sum if either operand depends on the explained input; one that does not is a constant. A product with an alpha other
    than 1 is recorded by itself.
    """
    if alpha != 1:
        other = mul(rec, torch.mul, other, alpha)
    if not (rec.active(input) or rec.active(other)):
        plain: Tensor = input + other
        return plain
    tensor = input if rec.active(input) else other
    a, b = (t if isinstance(t, Tensor) else torch.as_tensor(t, dtype=tensor.dtype, device=tensor.device) for t in (input, other))
    both = rec.active(a) and rec.active(b)
    if not both and rec.entered and role(rec, tensor) not in OF_ATTENTION:
        a, b = (t if rec.active(t) else _without_copies(t, tensor.shape) for t in (a, b))
    alike = role(rec, a) if both and role(rec, a) == role(rec, b) else None
    kept = (alike if alike in (Role.SCORES, Role.WEIGHTS, Role.CONTEXT) else None) if both else role(rec, tensor)
    if both and kept is None and any(_is_threshold_of_scores(rec, *pair) for pair in ((a, b), (b, a))):
        kept = Role.SCORES
    if kept == Role.UNNORMALISED and (b if rec.active(a) else a).dim():
        kept = None  # no stabiliser of a normaliser, but a bias
    if not both and kept is None:
        path, constant = (a, b) if rec.active(a) else (b, a)
        if (whole := _add_to_part(rec, path, constant)) is not None:
            return whole
        op.note_bias(path, constant)
    before = rec.nodes.last_sum
    out = rec.run(op.Add, a, b, kept, role=kept)
    if both and not rec.is_own_code:
        rec.nodes.note_sum(out, (a, b), before)
    if both and not rec.is_own_code and sum(has_no_bias(rec.nodes.of(each)) for each in (a, b)) == 1:
        rec.nodes.unbiased_sum = out, a, b
    for whole, shift in ((a, b), (b, a)) if both else ():
        keep_unshifted(rec, out, whole, shift)
    return out


def _is_threshold_of_scores(rec: Recorder, scores: Tensor, shift: Tensor) -> bool:
    """Return whether ``shift`` is one number for each row of attention ``scores``, made of attention scores, such as the threshold of a
    sparsemax: scores less a threshold are scores.
    """
    if role(rec, scores) != Role.SCORES or shift.shape != (*scores.shape[:-1], 1) or scores.shape[-1] == 1:
        return False
    reached = ancestors([rec.nodes.of(shift)], until=lambda node: node.role == Role.SCORES or node.operator in (op.LinearMap, op.MatMul))
    return any(node.role == Role.SCORES for node in reached)


def _without_copies(constant: Tensor, shape: Size) -> Tensor:
    """Return a ``constant`` that is to be added to a tensor of this ``shape``, with every dimension along which all its numbers are equal
    reduced to size 1, and without those in front: a bias that was repeated for each token is a bias.
    """
    if constant.dim() < 2 or len(shape) < constant.dim():
        return constant
    for dim in range(constant.dim() - 1):
        first = constant.narrow(dim, 0, 1)
        if constant.shape[dim] > 1 and (
            constant.stride(dim) == 0 or (not is_queued(constant) and torch.equal(first.expand_as(constant), constant))
        ):
            constant = first if torch.broadcast_shapes(first.shape, shape) == shape else constant
    while constant.dim() > 1 and len(constant) == 1:
        constant = constant[0]
    return constant


def _add_to_part(rec: Recorder, total: Tensor, constant: Tensor) -> Tensor | None:
    """Return ``total`` plus a ``constant`` as a + (b + constant) where the total is a sum a + b of two paths, and the constant is the bias
    of the linear map that gave b: the residual stream plus ``y @ w``, plus a bias. None where it is anything else.
    """
    known = rec.nodes.unbiased_sum
    if known is None or known[0].shape != total.shape or constant.shape[-1:] != (constant.numel(),) or constant.numel() < 2:
        return None
    out, *operands = known
    part = 0 if has_no_bias(rec.nodes.of(operands[0])) else 1
    node, width = rec.nodes.of(out), operands[part].shape[-1]
    if width != constant.numel() or operands[part].shape != total.shape or node is None:
        return None
    if (total is not out and not torch.equal(total, out)) or not rec.nodes.remove(node):  # a copy, where the model writes into it
        return None
    operands[part] = add(rec, torch.add, operands[part], constant)
    return add(rec, torch.add, *operands)


@handles(torch.sub, Tensor.sub, Tensor.__sub__, torch.subtract, Tensor.subtract)
def sub(rec: Recorder, func: TorchFunction, input: Any, other: Any, *, alpha: float = 1) -> Tensor:
    """Compute the difference ``input`` - alpha ``other``, record it and return it; either operand may be a constant."""
    if not (rec.active(input) or rec.active(other)):
        plain: Tensor = input - alpha * other
        return plain
    out = add(rec, torch.add, input, mul(rec, torch.mul, other, -alpha))
    if alpha == 1:
        keep_unshifted(rec, out, input, other)
    return out


@handles(Tensor.__rsub__, torch.rsub)
def _rsub(rec: Recorder, func: TorchFunction, input: Any, other: Any, *, alpha: float = 1) -> Tensor:
    return sub(rec, torch.sub, other, input, alpha=alpha)


def _role_as_factor(rec: Recorder, x: Tensor) -> Role | None:
    """Return the role of ``x``, a tensor, as a factor of a product: its own role; CURVE if it has none and an activation made it, also one
    that is written as x times a gate; else None.
    """
    known, node = role(rec, x), rec.nodes.of(x)
    while known is None and node is not None and node.operator is op.Scale:
        (node,) = node.paths
    if known is not None or node is None:
        return known
    is_written_out = node.operator is op.Mul and Role.GATE in node.settings["roles"]
    return Role.CURVE if node.operator is op.Activation or is_written_out else None


def _roles_of_factors(rec: Recorder, a: Tensor, b: Tensor) -> tuple[Role | None, Role | None]:
    """Return the roles of ``a`` and ``b`` as the two factors of a product. A sigmoid of a product of queries with keys is attention weights
    where it meets values, but a gate where it multiplies attention weights.
    """

    def role_next_to(x: Tensor, other: Tensor) -> Role | None:
        is_gate = _is_gate_of_scores(rec.nodes.of(x)) and are_mixed_weights(rec.nodes.of(other))
        return Role.GATE if is_gate else _role_as_factor(rec, x)

    return role_next_to(a, b), role_next_to(b, a)


def _is_gate_of_scores(node: Node | None) -> bool:
    """Return whether a node gave a sigmoid of attention scores, perhaps moved or multiplied by a constant since."""
    while node is not None and node.operator in (Move, op.Scale) and len(node.paths) == 1:
        (node,) = node.paths
    return node is not None and node.role == Role.CURVED and node.operator is op.BoundedGate


def are_weights_without_softmax(rec: Recorder, x: Tensor, shape: Size) -> bool:
    """Return whether ``x``, which meets values, is a product of queries with keys after a curve, or as it is; then with as many queries as
    keys in ``shape``, its shape without what was added to meet the values.
    """
    known = role(rec, x)
    if known == Role.SCORES:
        return len(shape) > 1 and shape[-2] == shape[-1]
    return known == Role.CURVED or (known in (None, Role.GATE) and are_curved_scores(rec.nodes.of(x)))


def _meet_as_weights(rec: Recorder, x: Tensor, other: Tensor) -> bool:
    """Return whether ``x`` is attention weights that no softmax made and ``other`` the values, of which each number of one meets each of
    the other along some dimension, as in ``(a[..., None] * v[..., None, :, :]).sum(-2)``.
    """
    if not x.dim() or x.dim() != other.dim() or x.shape[-1] != 1 or other.shape[-1] == 1:
        return False
    is_spread = any(theirs == 1 < ours for ours, theirs in zip(x.shape, other.shape, strict=True))
    return is_spread and are_weights_without_softmax(rec, x, x.shape[:-1])


#: Roles of the factors of an activation that is written as a product.
_OF_CURVES = (None, Role.GATE, Role.CURVE)


@handles(torch.mul, Tensor.mul, Tensor.__mul__, Tensor.__rmul__, torch.multiply, Tensor.multiply)
def mul(rec: Recorder, func: TorchFunction, input: Any, other: Any) -> Any:
    """Compute the element-wise product ``input`` times ``other``, record it and return it; either factor may be a constant."""
    if rec.active(input) and rec.active(other):
        if input is other and role(rec, input) is None:
            return rec.run(op.Activation, input, torch.square, True)
        for over, inverse in ((input, other), (other, input)):
            if (weights := written_softmax_by_inverse(rec, over, inverse)) is not None:
                return weights
            if role(rec, inverse) == Role.SCALE:
                note_mean(rec, over)
            if _meet_as_weights(rec, over, inverse):
                return mul(rec, func, rec.run(op.Weights, over, role=Role.WEIGHTS), inverse)
        roles = _roles_of_factors(rec, input, other)
        gate = gate_in_curve(rec, input, other) if all(each in _OF_CURVES for each in roles) else None
        if gate is not None:
            roles = (None, Role.GATE) if gate else (Role.GATE, None)
        return rec.run(op.Mul, input, other, roles, gate is not None)
    if not (rec.active(input) or rec.active(other)):
        return input * other
    x, c = (input, other) if rec.active(input) else (other, input)
    return rec.run(op.Scale, x, c, role=role(rec, x))


@handles(torch.neg, Tensor.neg, Tensor.__neg__, torch.negative, Tensor.negative)
def _neg(rec: Recorder, func: TorchFunction, input: Tensor) -> Any:
    return mul(rec, torch.mul, input, -1)


#: The role of a quotient of two paths by that of its dividend: weights over their sum are weights, and scores over theirs curved scores.
_ROLE_OF_QUOTIENT = {Role.SCALE: Role.SCALE, Role.WEIGHTS: Role.WEIGHTS, Role.SCORES: Role.CURVED, Role.CURVED: Role.CURVED}


@handles(torch.div, Tensor.div, Tensor.__truediv__, torch.divide, Tensor.divide, torch.true_divide, Tensor.true_divide)
def div(rec: Recorder, func: TorchFunction, input: Any, other: Any, *, rounding_mode: str | None = None) -> Any:
    """Compute the element-wise quotient ``input`` / ``other``, record it and return it; either operand may be a constant. A quotient that
    is rounded (``rounding_mode``) is left to torch.
    """
    if rounding_mode is not None or not (rec.active(input) or rec.active(other)):
        return torch.div(input, other, rounding_mode=rounding_mode)
    if not rec.active(other):
        if isinstance(other, Tensor) and not other.is_floating_point():
            other = other.to(input.dtype)  # one over whole numbers would be of torch's default type
        return rec.run(op.Scale, input, 1 / other, role=role(rec, input))
    if (tanh := tanh_exponent(rec, input, other) if rec.active(input) else None) is not None:
        exponent, factor = tanh
        return _odd_gate(rec, torch.tanh, exponent if factor == 1 else mul(rec, torch.mul, exponent, factor))
    if (written := written_sigmoid(rec, input, other)) is not None:
        return written
    if not rec.active(input):
        return make_scale(rec, input / other, "div", input, other)
    if (weights := written_softmax(rec, input, other)) is not None:
        return weights
    over, under = role(rec, input), role(rec, other)
    if over is None and is_curve_of(rec, other, input):
        return mul(rec, torch.mul, input, _inverse_as_gate(rec, other))
    if over == Role.UNNORMALISED and under in (Role.UNNORMALISED, Role.SCORES):
        return rec.run(op.Normaliser, input, other, under == Role.SCORES, role=Role.CONTEXT)
    if under == Role.SCALE:
        note_mean(rec, input)
    return rec.run(op.Div, input, other, role=None if over is None else _ROLE_OF_QUOTIENT.get(over))


def _inverse_as_gate(rec: Recorder, under: Tensor) -> Tensor:
    """Compute 1 / ``under``, record it as a gate and return it; where a rule differentiates gates, so it does this."""
    out: Tensor = 1 / under
    rec.watch(out, "div", lambda rule: rule.choice("activation").is_ordinary)
    return note(rec, out, Unruled, (under,), Role.GATE, "div")


def written_sigmoid(rec: Recorder, over: Any, under: Tensor) -> Tensor | None:
    """Return the quotient ``over`` / ``under`` with the sigmoid in it recorded as such, if ``under`` is a constant plus an exponential;
    else None. ``over`` is a number or a constant, the exponential itself, or another path.
    """
    known = sigmoid_exponent(rec, under)
    if known is None or (isinstance(over, Tensor) and over.dim() and over.shape != under.shape):
        return None
    exponent, constant = known
    shifted = exponent if constant == 1 else add(rec, torch.add, exponent, -math.log(constant))
    if isinstance(over, Tensor) and is_exponential_of(rec.nodes.of(over), exponent):
        return bounded_gate(rec, torch.sigmoid, shifted)
    gate = bounded_gate(rec, torch.sigmoid, mul(rec, torch.mul, shifted, -1))
    if not rec.active(over) and _is_number(over, constant):
        return gate
    out: Tensor = mul(rec, torch.mul, mul(rec, torch.mul, over, 1 / constant) if constant != 1 else over, gate)
    return out


def _is_number(value: Any, number: float) -> bool:
    """Return whether ``value`` is this ``number``, or a tensor of it alone."""
    return float(value) == number if not isinstance(value, Tensor) or value.numel() == 1 else False


@handles(Tensor.__rtruediv__, Tensor.__rdiv__)
def _rdiv(rec: Recorder, func: TorchFunction, input: Tensor, other: Any) -> Any:
    return div(rec, torch.div, other, input)


@handles(torch.addcmul, Tensor.addcmul)
def _addcmul(rec: Recorder, func: TorchFunction, input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: float = 1) -> Tensor:
    return add(rec, torch.add, input, mul(rec, torch.mul, tensor1, tensor2), alpha=value)


for _names, _handler, _beside in (
    ((Tensor.add_, Tensor.__iadd__), add, torch.add),
    ((Tensor.sub_, Tensor.subtract_, Tensor.__isub__), sub, torch.sub),
    ((Tensor.mul_, Tensor.multiply_, Tensor.__imul__), mul, torch.mul),
    ((Tensor.div_, Tensor.divide_, Tensor.true_divide_, Tensor.__itruediv__), div, torch.div),
    ((torch.neg_, Tensor.neg_, torch.negative_, Tensor.negative_), _neg, torch.neg),
    ((Tensor.addcmul_,), _addcmul, torch.addcmul),
    ((torch.clamp_, Tensor.clamp_, torch.clip_, Tensor.clip_), _clamp, torch.clamp),
    ((torch.clamp_min_, Tensor.clamp_min_), _clamp, torch.clamp_min),
    ((torch.clamp_max_, Tensor.clamp_max_), _clamp, torch.clamp_max),
    ((F.hardtanh_,), _clamp, F.hardtanh),
    ((torch.sigmoid_, Tensor.sigmoid_), bounded_gate, torch.sigmoid),
    ((torch.tanh_, Tensor.tanh_), _odd_gate, torch.tanh),
    ((torch.erf_, Tensor.erf_), _odd_gate, torch.erf),
    ((torch.relu_, Tensor.relu_), activation, torch.relu),
    ((F.leaky_relu_,), activation, F.leaky_relu),
    ((F.elu_,), activation, F.elu),
    ((torch.selu_,), activation, torch.selu),
    ((torch.celu_,), activation, torch.celu),
    ((torch.rrelu_,), activation, torch.rrelu),
):
    handles(*_names)(may_write(_handler, _beside))
