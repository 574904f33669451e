"""Functions that are other functions put together: each is written out, and what it is written out as has the rules of its kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from explainers.autograd.dispatch import TorchFunction, active, call_through, handles, note, tensors_in
from explainers.autograd.handlers.elementwise import may_write
from explainers.autograd.nodes import Move
from explainers.autograd.recorder import Recorder

Written = Callable[..., Any]


def _written_as(*functions: TorchFunction | None, in_place: tuple[TorchFunction, ...] = ()) -> Callable[[Written], Written]:
    """Return a decorator: torch's ``functions`` are recorded as the torch calls that the decorated function makes; ``in_place`` are their
    writing forms.
    """

    def declare(written: Written) -> Written:
        def handle(rec: Recorder, func: TorchFunction, *args: Any, **kwargs: Any) -> Any:
            if not any(map(rec.active, tensors_in((*args, *kwargs.values())))):
                return func(*args, **kwargs)
            with rec.record_calls():
                return written(*args, **kwargs)

        handles(*functions)(handle)
        if in_place:
            handles(*in_place)(may_write(handle, functions[0]))
        return written

    return declare


@_written_as(torch.lerp, Tensor.lerp, in_place=(Tensor.lerp_,))
def _lerp(input: Tensor, end: Tensor, weight: Tensor | float) -> Tensor:
    return input * (1 - weight) + end * weight


@_written_as(torch.addcdiv, Tensor.addcdiv, in_place=(Tensor.addcdiv_,))
def _addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: float = 1) -> Tensor:
    return input + tensor1 / tensor2 * value


@_written_as(torch.ldexp, Tensor.ldexp, in_place=(torch.ldexp_, Tensor.ldexp_))
def _ldexp(input: Tensor, other: Tensor) -> Tensor:
    return input * torch.exp2(other.to(input.dtype))


@_written_as(torch.diff, Tensor.diff)
def _diff(input: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None, append: Tensor | None = None) -> Tensor:
    out = torch.cat([each for each in (prepend, input, append) if each is not None], dim)
    for _ in range(n):
        out = out.narrow(dim, 1, out.shape[dim] - 1) - out.narrow(dim, 0, out.shape[dim] - 1)
    return out


@_written_as(torch.cross, Tensor.cross, torch.linalg.cross)
def _cross(input: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    if dim is None:  # torch.cross takes the first of three numbers where it is told none, torch.linalg.cross the last
        dim = -1 if input.shape[-1] == 3 and list(input.shape).count(3) == 1 else next(i for i, n in enumerate(input.shape) if n == 3)
    return input.roll(-1, dim) * other.roll(-2, dim) - input.roll(-2, dim) * other.roll(-1, dim)


@_written_as(torch.kron, Tensor.kron)
def _kron(input: Tensor, other: Tensor) -> Tensor:
    most = max(input.dim(), other.dim())
    a, b = (each.reshape([1] * (most - each.dim()) + list(each.shape)) for each in (input, other))
    spread = a.reshape([n for each in a.shape for n in (each, 1)]) * b.reshape([n for each in b.shape for n in (1, each)])
    return spread.reshape([m * n for m, n in zip(a.shape, b.shape, strict=True)])


# --- sums at places


def _sums_at(input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True) -> Tensor:
    ones = torch.ones(src.shape, dtype=input.dtype, device=input.device)
    count = torch.zeros(input.shape, dtype=input.dtype, device=input.device).scatter_add(dim, index, ones)
    if include_self:
        total = input.scatter_add(dim, index, src)
        return total if reduce == "sum" else total / (count + 1)
    total = torch.zeros(input.shape, dtype=input.dtype, device=input.device).scatter_add(dim, index, src)
    return torch.where(count > 0, total if reduce == "sum" else total / count.clamp(min=1), input)


@handles(torch.scatter_reduce, Tensor.scatter_reduce)
def _scatter_reduce(
    rec: Recorder, func: TorchFunction, input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Any:
    """Compute ``torch.scatter_reduce`` of ``src`` into ``input`` at ``index``, record it and return the result. A sum or a mean is recorded
    as simpler operators, a maximum or a minimum as a selection; a product is left to torch.
    """
    if reduce in ("sum", "mean") and (rec.active(input) or rec.active(src)):
        with rec.record_calls():
            return _sums_at(input, dim, index, src, reduce, include_self=include_self)
    if reduce in ("amax", "amin"):
        out = func(input, dim, index, src, reduce, include_self=include_self)
        return note(rec, out, Move, (input, src), name="scatter_reduce") if active(out) else out
    return call_through(rec, func, (input, dim, index, src, reduce), {"include_self": include_self})


@handles(torch.index_reduce, Tensor.index_reduce)
def _index_reduce(
    rec: Recorder, func: TorchFunction, input: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Any:
    if not (rec.active(input) or rec.active(source)):
        return func(input, dim, index, source, reduce, include_self=include_self)
    shape = [1] * source.dim()
    shape[dim] = len(index)
    places = index.view(shape).expand(source.shape)
    return _scatter_reduce(rec, torch.scatter_reduce, input, dim, places, source, reduce, include_self=include_self)


handles(Tensor.scatter_reduce_)(may_write(_scatter_reduce, torch.scatter_reduce))
handles(Tensor.index_reduce_)(may_write(_index_reduce, torch.index_reduce))


# --- integrals


@_written_as(torch.trapezoid, torch.trapz)
def _trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Tensor | float = 1, dim: int = -1) -> Tensor:
    return _trapezoids(y, x, dx, dim).sum(dim)


@_written_as(torch.cumulative_trapezoid)
def _cumulative_trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Tensor | float = 1, dim: int = -1) -> Tensor:
    return _trapezoids(y, x, dx, dim).cumsum(dim)


def _trapezoids(y: Tensor, x: Tensor | None, dx: Tensor | float, dim: int) -> Tensor:
    """Return the area of each trapezoid under the values ``y`` along ``dim``; ``x`` holds their abscissas, None: these are ``dx`` apart."""
    last, means = y.shape[dim] - 1, (y.narrow(dim, 1, y.shape[dim] - 1) + y.narrow(dim, 0, y.shape[dim] - 1)) / 2
    if x is None:
        return means * dx
    if x.dim() == 1:
        x = x.view([-1 if d == dim % y.dim() else 1 for d in range(y.dim())])
    return means * (x.narrow(dim, 1, last) - x.narrow(dim, 0, last))
