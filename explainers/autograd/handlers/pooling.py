"""Handlers of means, pools, maxima, and constants that are concatenated with tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from explainers.autograd import operators as op
from explainers.autograd.dispatch import TorchFunction, call_through, handles, linear_function, note, role
from explainers.autograd.handlers.elementwise import add, may_write, mul
from explainers.autograd.nodes import Move, Role
from explainers.autograd.operators.pooling import Constant, Mean, Pick, PointReads, Pool
from explainers.autograd.recorder import Recorder

#: The most tensors whose sum after stacking them is recorded as a sum of each; more are pooled.
MAX_STACKED = 3


@handles(torch.mean, Tensor.mean, torch.sum, Tensor.sum)
def total(rec: Recorder, func: TorchFunction, input: Tensor, dim: Any = None, keepdim: bool = False, **kwargs: Any) -> Tensor:
    """Compute the sum of ``input`` over the dimensions ``dim`` (None: all), or the mean if ``func`` is torch's mean; record it and return
    it; ``keepdim`` keeps these dimensions, of length 1.
    """
    dim = kwargs.pop("axis", dim)
    if not rec.active(input):
        return func(input, keepdim=keepdim, dim=dim, **kwargs) if dim is not None else func(input, **kwargs)
    if kwargs.get("dtype") is None and (parts := _stacked_along(rec, input, dim)) is not None:
        whole = _sum_of(rec, parts)
        whole = mul(rec, torch.mul, whole, 1 / len(parts)) if func in (torch.mean, Tensor.mean) else whole
        return rec.nodes.move(whole.unsqueeze(dim if isinstance(dim, int) else dim[0]), whole) if keepdim else whole
    x = input if kwargs.get("dtype") is None else rec.nodes.move(input.to(kwargs["dtype"]), input)
    dims = tuple(range(x.dim())) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    scale = 1 / math.prod(x.shape[d] for d in dims) if func in (torch.mean, Tensor.mean) else 1.0
    return rec.run(Mean, x, dims, keepdim, scale, scale == 1 and _are_products(rec, x))


def _are_products(rec: Recorder, x: Tensor) -> bool:
    """Return whether the numbers ``x`` are products of two paths, perhaps times a constant: their sum is a matrix product of these. What a
    gate or a scale multiplies is no such product.
    """
    node = rec.nodes.of(x)
    while node is not None and node.operator is op.Scale and len(node.paths) == 1:
        (node,) = node.paths
    return node is not None and node.operator is op.Mul and not {Role.GATE, Role.SCALE} & {*node.settings["roles"]}


def _sum_of(rec: Recorder, parts: Sequence[Tensor]) -> Tensor:
    """Return the sum of several tensors, recorded two at a time."""
    whole = parts[0]
    for part in parts[1:]:
        whole = add(rec, torch.add, whole, part)
    return whole


def _stacked_along(rec: Recorder, x: Tensor, dim: Any) -> tuple[Tensor, ...] | None:
    """Return the tensors that were just stacked to ``x`` along ``dim``, a number or one in a list: their sum is a sum of paths, such as a
    residual, and no pooling. None if there are none.
    """
    known, axis = rec.nodes.stacked, dim if isinstance(dim, int) else dim[0] if isinstance(dim, list | tuple) and len(dim) == 1 else None
    return known[2] if known is not None and known[0] is x and axis is not None and axis % x.dim() == known[1] else None


def _note_stack(rec: Recorder, func: TorchFunction, out: Tensor, tensors: Sequence[Tensor], dim: int) -> None:
    """Note that ``out`` holds a few ``tensors`` one after the other along an axis of its own."""
    dim %= out.dim()
    if not 1 < len(tensors) <= MAX_STACKED or not (func is torch.stack or all(t.dim() == out.dim() and t.shape[dim] == 1 for t in tensors)):
        return
    parts = tensors if func is torch.stack else [rec.nodes.move(t.squeeze(dim), t, role(rec, t)) for t in tensors]
    rec.nodes.stacked = out, dim, tuple(parts)


def _axis_of_tokens(rec: Recorder, x: Tensor, dim: int) -> int | None:
    """Return the axis ``dim`` of ``x``, counted from the front, if the tokens of the blocks lie along it by its length; else None."""
    axis, tokens = dim % x.dim(), rec.nodes.blocks[0].input.shape[1] if rec.nodes.blocks else None
    return axis if axis > 0 and x.shape[axis] == tokens and tokens not in x.shape[1:axis] else None


@handles(torch.cat, torch.concat, torch.concatenate, torch.stack)
def _concatenate(rec: Recorder, func: TorchFunction, tensors: Sequence[Tensor], *args: Any, **kwargs: Any) -> Tensor:
    """Concatenate ``tensors``, record it and return the result. After the embedding, constants next to tensors that depend on the input
    become biases; before it, pieces of the image joined together are still pixels.
    """
    path, parts = next((t for t in tensors if rec.active(t)), None), tensors
    if rec.entered and path is not None:
        joined = None if func is torch.stack else _axis_of_tokens(rec, path, (*args, kwargs.get("dim", kwargs.get("axis", 0)))[0])
        tensors = [
            t if rec.active(t) or not (t.numel() and t.is_floating_point()) else rec.run(Constant, t, path, role(rec, path), joined)
            for t in tensors
        ]
    out = func(tensors, *args, **kwargs)
    if path is not None and not rec.entered and all(role(rec, t) == Role.PIXELS for t in tensors if rec.active(t)):
        note(rec, out, Move, tuple(tensors), Role.PIXELS, func.__name__)
    elif path is not None:
        _note_stack(rec, func, out, parts, (*args, kwargs.get("dim", kwargs.get("axis", 0)))[0])
    return out


@handles(
    F.avg_pool1d,
    F.avg_pool2d,
    F.avg_pool3d,
    F.adaptive_avg_pool1d,
    F.adaptive_avg_pool2d,
    F.adaptive_avg_pool3d,
    F.fold,
    torch.cumsum,
    Tensor.cumsum,
    torch.trace,
    Tensor.trace,
    Tensor.sum_to_size,
    torch.nansum,
    Tensor.nansum,
    torch.nanmean,
    Tensor.nanmean,
)
def _pool(rec: Recorder, func: TorchFunction, input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Compute ``func`` of ``input`` (an average, a sum of overlapping windows or a running sum), record it as pooling and return the
    result.
    """
    if not rec.active(input):
        return func(input, *args, **kwargs)
    return rec.run(Pool, input, lambda x: func(x, *args, **kwargs))


@handles(F.interpolate)
def _resize(rec: Recorder, func: TorchFunction, input: Tensor, *args: Any, **kwargs: Any) -> Any:
    """Compute ``func`` of ``input``, a change of its size, record it and return the result. A resized image is still an image: each pixel
    is a mean of others with weights that sum to 1, and under every rule its signal is passed on by these weights. A resized map of features
    counts as pooling, except with bicubic weights, some of which are negative.
    """
    if role(rec, input) == Role.PIXELS:
        return rec.nodes.move(func(input, *args, **kwargs), input, Role.PIXELS)
    if not rec.active(input):
        return func(input, *args, **kwargs)
    if (args[2] if len(args) > 2 else kwargs.get("mode", "nearest")) == "bicubic":
        return linear_function(rec, func, input, *args, **kwargs)
    return rec.run(Pool, input, lambda x: func(x, *args, **kwargs))


@handles(F.grid_sample)
def _sample(rec: Recorder, func: TorchFunction, input: Tensor, grid: Tensor, mode: str = "bilinear", *args: Any, **kwargs: Any) -> Any:
    """Read the map ``input`` at the points of ``grid``, between its own places, record it and return the result: at each point a weighted
    mean of the numbers around it. Where the points do not depend on the input it is pooling. Bicubic weights, some of which are negative,
    are treated as in :func:`_resize`.
    """
    if not (rec.active(input) or rec.active(grid)):
        return func(input, grid, mode, *args, **kwargs)
    if rec.active(grid) and (mode == "bicubic" or not rec.active(input)):
        return call_through(rec, func, (input, grid, mode, *args), kwargs)
    if mode == "bicubic":
        return linear_function(rec, func, input, grid, mode, *args, **kwargs)
    if rec.active(grid):
        return rec.run(PointReads, input, grid, lambda x, points: func(x, points, mode, *args, **kwargs))
    return rec.run(Pool, input, lambda x: func(x, grid, mode, *args, **kwargs))


handles(Tensor.cumsum_)(may_write(_pool, torch.cumsum))


@handles(
    F.max_pool1d,
    F.max_pool2d,
    F.max_pool3d,
    F.adaptive_max_pool1d,
    F.adaptive_max_pool2d,
    F.adaptive_max_pool3d,
    torch.amax,
    Tensor.amax,
    torch.amin,
    Tensor.amin,
)
def _pick(rec: Recorder, func: TorchFunction, input: Tensor, *args: Any, **kwargs: Any) -> Any:
    if not rec.active(input) or kwargs.get("return_indices"):
        return call_through(rec, func, (input, *args), kwargs)
    return rec.run(Pick, input, lambda x: func(x, *args, **kwargs), role=role(rec, input))


@handles(torch.max, Tensor.max, torch.min, Tensor.min)
def _largest(rec: Recorder, func: TorchFunction, input: Tensor, dim: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Compute the maximum (or another selection by ``func``) of ``input`` over the dimension ``dim``, record it as a selection, and return
    it with its indices. A maximum of all numbers, or of two tensors, is called without being recorded as one.
    """
    dim = kwargs.pop("dim", dim)
    if not rec.active(input) or not isinstance(dim, int):
        return call_through(rec, func, (input,) if dim is None else (input, dim, *args), kwargs)
    places = func(input.detach(), dim, *args, **kwargs)
    largest = rec.run(Pick, input, lambda x: func(x, dim, *args, **kwargs)[0], role=role(rec, input))
    return type(places)((largest, places[1]))
