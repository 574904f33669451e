"""Means, pools, the largest of several, and constants laid beside tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from explainers.autograd.dispatch import TorchFunction, call_through, handles, role
from explainers.autograd.nodes import Role
from explainers.autograd.operators.pooling import Constant, Mean, Pick, Pool
from explainers.autograd.recorder import Recorder


@handles(torch.mean, Tensor.mean, torch.sum, Tensor.sum)
def _mean(rec: Recorder, func: TorchFunction, input: Tensor, dim: Any = None, keepdim: bool = False, **kwargs: Any) -> Tensor:
    dim = kwargs.pop("axis", dim)
    if not rec.active(input):
        return func(input, keepdim=keepdim, dim=dim, **kwargs) if dim is not None else func(input, **kwargs)
    x = input if kwargs.get("dtype") is None else rec.nodes.move(input.to(kwargs["dtype"]), input)
    dims = tuple(range(x.dim())) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    scale = 1 / math.prod(x.shape[d] for d in dims) if func in (torch.mean, Tensor.mean) else 1.0
    return rec.run(Mean, x, dims, keepdim, scale)


@handles(torch.cat, torch.concat, torch.concatenate, torch.stack)
def _joined(rec: Recorder, func: TorchFunction, tensors: Sequence[Tensor], *args: Any, **kwargs: Any) -> Tensor:
    """Constants beside paths, from x^1 on, are biases."""
    path = next((t for t in tensors if rec.active(t)), None)
    if rec.entered and path is not None:
        tensors = [t if rec.active(t) or not (t.numel() and t.is_floating_point()) else rec.run(Constant, t, path) for t in tensors]
    return func(tensors, *args, **kwargs)


@handles(
    F.avg_pool1d,
    F.avg_pool2d,
    F.avg_pool3d,
    F.adaptive_avg_pool1d,
    F.adaptive_avg_pool2d,
    F.adaptive_avg_pool3d,
    F.fold,
)
def _pool(rec: Recorder, func: TorchFunction, input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Averages, and sums of overlapping windows."""
    if not rec.active(input):
        return func(input, *args, **kwargs)
    return rec.run(Pool, input, lambda x: func(x, *args, **kwargs))


@handles(F.interpolate)
def _resized(rec: Recorder, func: TorchFunction, input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """An image in another size is still one: each of its pixels is a mean of others with weights that sum to 1, by which it gives on what
    it gets, whatever the rule. A map of features in another size is pooled, but for bicubic weights, of which some are negative.
    """
    if role(rec, input) == Role.PIXELS:
        return rec.nodes.move(func(input, *args, **kwargs), input, Role.PIXELS)
    if not rec.active(input):
        return func(input, *args, **kwargs)
    if (args[2] if len(args) > 2 else kwargs.get("mode", "nearest")) == "bicubic":
        out: Tensor = call_through(rec, func, (input, *args), kwargs)
        return out
    return rec.run(Pool, input, lambda x: func(x, *args, **kwargs))


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
    """Over one dimension, with its places; the largest of all, or of two tensors, is called through."""
    dim = kwargs.pop("dim", dim)
    if not rec.active(input) or not isinstance(dim, int):
        return call_through(rec, func, (input,) if dim is None else (input, dim, *args), kwargs)
    places = func(input.detach(), dim, *args, **kwargs)
    return type(places)((rec.run(Pick, input, lambda x: func(x, dim, *args, **kwargs)[0]), places[1]))
