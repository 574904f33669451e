"""Normalisations, and what makes the scale of one written out."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from explainers.autograd import operators as op
from explainers.autograd.dispatch import TorchFunction, active, call_through, handles, make_scale, role
from explainers.autograd.handlers.elementwise import add, may_write, mul, written_sigmoid
from explainers.autograd.handlers.written_norm import note_mean
from explainers.autograd.handlers.written_softmax import is_exponential
from explainers.autograd.nodes import Role
from explainers.autograd.recorder import Recorder


def _affine(rec: Recorder, normed: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """Return ``normed`` times a weight plus a bias, recorded as a product and a sum: of what depends on the input they are no constants."""
    out = normed if weight is None else mul(rec, torch.mul, normed, weight)
    return out if bias is None else add(rec, torch.add, out, bias)


def _by_channel(rec: Recorder, input: Tensor, *parameters: Tensor | None) -> list[Tensor | None]:
    """Return the ``parameters`` of a norm shaped to act on the channels of ``input``, its second axis."""
    shape = (-1, *[1] * (input.dim() - 2))
    return [None if each is None else rec.nodes.move(each.view(shape), each) for each in parameters]


@handles(F.layer_norm, torch.layer_norm)
def _layer_norm(
    rec: Recorder,
    func: TorchFunction,
    input: Tensor,
    normalized_shape: Any,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    *rest: Any,
    **kwargs: Any,
) -> Tensor:
    def whole(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        return F.layer_norm(x, normalized_shape, weight, bias, eps)

    if rec.active(weight) or rec.active(bias):
        return _affine(rec, _layer_norm(rec, func, input, normalized_shape, eps=eps), weight, bias)
    if not rec.active(input):
        return whole(input, weight, bias)
    note_mean(rec, input)
    between = role(rec, input) in (Role.CONTEXT, Role.UNNORMALISED)  # attention and its projection
    return rec.run(op.Norm, input, weight, bias, len(normalized_shape), eps, True, whole, role=Role.CONTEXT if between else None)


@handles(getattr(F, "rms_norm", None), getattr(torch, "rms_norm", None))
def _rms_norm(
    rec: Recorder, func: TorchFunction, input: Tensor, normalized_shape: Any, weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    def whole(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        return F.rms_norm(x, normalized_shape, weight, eps)

    if rec.active(weight):
        return _affine(rec, _rms_norm(rec, func, input, normalized_shape, eps=eps), weight, None)
    if not rec.active(input):
        return whole(input, weight, None)
    epsilon = torch.finfo(input.dtype).eps if eps is None else eps
    return rec.run(op.Norm, input, weight, None, len(normalized_shape), epsilon, False, whole)


@handles(F.group_norm, torch.group_norm)
def _group_norm(
    rec: Recorder,
    func: TorchFunction,
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    *rest: Any,
    **kwargs: Any,
) -> Tensor:
    """Compute a group normalisation of ``input`` and return it, recorded as a LayerNorm over the channels of each group and all places,
    with the bias added afterwards.
    """
    if rec.active(weight) or rec.active(bias):
        return _affine(rec, _group_norm(rec, func, input, num_groups, eps=eps), *_by_channel(rec, input, weight, bias))
    if not rec.active(input):
        return F.group_norm(input, num_groups, weight, bias, eps)
    grouped = rec.nodes.move(input.unflatten(1, (num_groups, -1)), input)
    shape = (num_groups, -1, *[1] * (input.dim() - 2))

    def whole(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        return F.group_norm(x.flatten(1, 2), num_groups, None if weight is None else weight.flatten(), None, eps).view_as(x)

    normed = rec.run(op.Norm, grouped, None if weight is None else weight.view(shape), None, grouped.dim() - 2, eps, True, whole)
    out: Tensor = rec.nodes.move(normed.flatten(1, 2), normed)
    return out if bias is None else rec.run(op.Add, out, bias.view(shape[1:]), Role.SHIFT)


@handles(F.batch_norm)
def _batch_norm(
    rec: Recorder,
    func: TorchFunction,
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Compute batch normalisation of ``input`` in evaluation mode and return it, recorded as an affine map for each channel: x * scale +
    shift.
    """
    if (rec.active(weight) or rec.active(bias)) and not training:
        normed = _batch_norm(rec, func, input, running_mean, running_var, eps=eps)
        return _affine(rec, normed, *_by_channel(rec, input, weight, bias))
    if not rec.active(input) or training or running_mean is None or running_var is None:
        out = F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
        if rec.active(input) and active(out):
            rec.watch(out, "batch_norm of the batch's own statistics")
        return out
    shape = (1, -1, *[1] * (input.dim() - 2))
    scale = (running_var + eps).rsqrt() * (1 if weight is None else weight)
    shift = -running_mean * scale + (0 if bias is None else bias)
    return rec.run(op.Add, mul(rec, torch.mul, input, scale.view(shape)), shift.view(shape).to(input.dtype), Role.SHIFT)


@handles(torch.batch_norm)
def _plain_batch_norm(
    rec: Recorder,
    func: TorchFunction,
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = True,
) -> Tensor:
    """Compute batch normalisation of ``input``, called with the arguments of ``torch.batch_norm``, record it as :func:`_batch_norm` does,
    and return the result.
    """
    return _batch_norm(rec, F.batch_norm, input, running_mean, running_var, weight, bias, training, momentum, eps)


@handles(F.normalize)
def _normalize(
    rec: Recorder, func: TorchFunction, input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: None = None
) -> Tensor:
    if not rec.active(input):
        return func(input, p, dim, eps)
    if p == 1 and (role(rec, input) == Role.WEIGHTS or is_exponential(rec, input)) and bool((input.sum(dim) > eps).all()):
        with rec.record_calls():  # of numbers that are never negative, their share
            return input / input.sum(dim, keepdim=True)
    return rec.run(op.Div, input, rec.nodes.move(input.norm(p, dim, keepdim=True).clamp_min(eps).expand_as(input), input))


@handles(
    torch.rsqrt,
    Tensor.rsqrt,
    torch.sqrt,
    Tensor.sqrt,
    torch.norm,
    Tensor.norm,
    torch.linalg.norm,
    torch.linalg.vector_norm,
    torch.var,
    Tensor.var,
    torch.std,
    Tensor.std,
)
def _scale_maker(rec: Recorder, func: TorchFunction, *args: Any, **kwargs: Any) -> Any:
    return make_scale(rec, func(*args, **kwargs), func.__name__, *args, *kwargs.values())


@handles(torch.reciprocal, Tensor.reciprocal)
def _reciprocal(rec: Recorder, func: TorchFunction, input: Tensor) -> Any:
    written = written_sigmoid(rec, 1, input) if rec.active(input) else None
    return _scale_maker(rec, torch.reciprocal, input) if written is None else written


@handles(torch.pow, Tensor.pow, Tensor.__pow__, torch.square, Tensor.square)
def _pow(rec: Recorder, func: TorchFunction, input: Any, exponent: Any = 2, **kwargs: Any) -> Any:
    if not rec.active(input) or isinstance(exponent, Tensor):
        return call_through(rec, torch.pow, (input, exponent), kwargs)
    if exponent == -1 and (written := written_sigmoid(rec, 1, input)) is not None:
        return written
    if exponent in (0.5, -0.5, -1):
        return make_scale(rec, torch.pow(input, exponent), "pow", input)
    curved = Role.CURVED if role(rec, input) == Role.CURVED else None
    return rec.run(op.Activation, input, lambda x: torch.pow(x, exponent), True, role=curved)


for _names, _handler, _beside in (
    ((torch.rsqrt_, Tensor.rsqrt_), _scale_maker, torch.rsqrt),
    ((torch.sqrt_, Tensor.sqrt_), _scale_maker, torch.sqrt),
    ((torch.reciprocal_, Tensor.reciprocal_), _reciprocal, torch.reciprocal),
    ((Tensor.pow_, Tensor.__ipow__), _pow, torch.pow),
    ((torch.square_, Tensor.square_), _pow, torch.square),
):
    handles(*_names)(may_write(_handler, _beside))
