"""Numbers that are added up at places, and constants that are written among numbers of a path."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from explainers.autograd.dispatch import TorchFunction, call_through, handles, role
from explainers.autograd.handlers.elementwise import add, may_write, mul
from explainers.autograd.operators.arithmetic import OF_ATTENTION
from explainers.autograd.operators.pooling import Constant, Pool
from explainers.autograd.recorder import Recorder


def _add_at(rec: Recorder, input: Tensor, source: Tensor, scatter: TorchFunction) -> Tensor:
    """Compute input + scatter(zeros, source), record it and return the sum; ``scatter`` adds the numbers of ``source`` up at places of a
    tensor of zeros.
    """
    shape, dtype, device = input.shape, input.dtype, input.device

    def total(values: Tensor) -> Tensor:
        return scatter(torch.zeros(shape, dtype=dtype, device=device), values)

    added = rec.run(Pool, source, total) if rec.active(source) else total(source)
    if rec.active(source) and not rec.active(input) and not input.requires_grad and not bool(input.any()):
        return added
    return add(rec, torch.add, input, added)


@handles(torch.index_add, Tensor.index_add)
def _index_add(rec: Recorder, func: TorchFunction, input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: float = 1) -> Tensor:
    if not (rec.active(input) or rec.active(source)):
        return func(input, dim, index, source, alpha=alpha)
    source = source if alpha == 1 else mul(rec, torch.mul, source, alpha)
    return _add_at(rec, input, source, lambda zeros, values: zeros.index_add(dim, index, values))


@handles(torch.scatter_add, Tensor.scatter_add)
def _scatter_add(rec: Recorder, func: TorchFunction, input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    if not (rec.active(input) or rec.active(src)):
        return func(input, dim, index, src)
    return _add_at(rec, input, src, lambda zeros, values: zeros.scatter_add(dim, index, values))


@handles(torch.index_put, Tensor.index_put)
def _index_put(rec: Recorder, func: TorchFunction, input: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Any:
    if accumulate and (rec.active(input) or rec.active(values)):
        return _add_at(rec, input, values, lambda zeros, added: zeros.index_put(indices, added, accumulate=True))
    return _write_among(rec, func, input, indices, values)


@handles(torch.put, Tensor.put)
def _put(rec: Recorder, func: TorchFunction, input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Any:
    if accumulate and (rec.active(input) or rec.active(source)):
        return _add_at(rec, input, source, lambda zeros, added: zeros.put(index, added, accumulate=True))
    return _write_among(rec, func, input, index, source)


@handles(
    torch.slice_scatter,
    Tensor.slice_scatter,
    torch.select_scatter,
    Tensor.select_scatter,
    torch.diagonal_scatter,
    Tensor.diagonal_scatter,
    torch.as_strided_scatter,
    Tensor.as_strided_scatter,
    torch.index_copy,
    Tensor.index_copy,
    torch.masked_scatter,
    Tensor.masked_scatter,
    torch.scatter,
    Tensor.scatter,
)
def _write_among(rec: Recorder, func: TorchFunction, input: Tensor, *args: Any, **kwargs: Any) -> Any:
    """Call ``func``, which writes numbers over some of ``input`` (such as ``masked_fill`` or ``where``), record it and return the result.
    After the embedding, constants next to numbers that depend on the input become biases.
    """
    path = next((a for a in (input, *args, *kwargs.values()) if rec.active(a)), None)
    if path is None or not rec.entered or role(rec, input) in OF_ATTENTION:
        return call_through(rec, func, (input, *args), kwargs)

    def biased(value: Any) -> Any:
        is_constant = isinstance(value, Tensor) and value.is_floating_point() and not rec.active(value)
        if not is_constant or value.dim() < 2 or value.shape[:1] != path.shape[:1]:  # of no sample
            return value
        return rec.run(Constant, value, path, None, None) if bool(value.isfinite().all() & value.any()) else value

    return call_through(rec, func, (biased(input), *map(biased, args)), {name: biased(value) for name, value in kwargs.items()})


handles(Tensor.index_add_)(may_write(_index_add, torch.index_add))
handles(Tensor.scatter_add_)(may_write(_scatter_add, torch.scatter_add))
handles(torch.index_put_, Tensor.index_put_)(may_write(_index_put, torch.index_put))
handles(Tensor.put_)(may_write(_put, torch.put))
for _written, _beside in (
    (Tensor.index_copy_, torch.index_copy),
    (Tensor.masked_scatter_, torch.masked_scatter),
    (Tensor.scatter_, torch.scatter),
):
    handles(_written)(may_write(_write_among, _beside))
