"""Relevance that carries a first-order estimate of its own rounding error, element by element.

Where a sum cancels, its operands share relevance in proportion to numbers that are large against what is left, and the rounding of the
forward pass is amplified as much. A backward pass that starts from a :class:`RelevanceWithError` brings that estimate along: torch's own
functions (views, sums of what arrives by several paths) treat it as they treat the relevance, and the splits of
:mod:`explainers.autograd.relevance` say below what each adds to it. Error analysis of first order: Higham, Accuracy and Stability of
Numerical Algorithms, 2002, chapters 1 and 3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from explainers.autograd import relevance as splits
from explainers.autograd.queued import is_queued

BilinearMap = Callable[[Tensor, Tensor], Tensor]

#: Rounding of an activation, in units of the last place, where it was not measured: what its own sum and all before it have gathered.
ACCUMULATED_ROUNDING = 16.0

#: How many times its rounding a number may be off.
FARTHEST = 4.0

_ATEN = torch.ops.aten
_SUMS = frozenset((_ATEN.add, _ATEN.sub, _ATEN.stack, _ATEN.cat))
#: Moves and sums: of errors, which are not negative, they make none that are. After others the signs are left out.
_KEEPS_SIGNS = frozenset(
    (
        *(_ATEN.view, _ATEN._unsafe_view, _ATEN.transpose, _ATEN.t, _ATEN.permute, _ATEN.expand, _ATEN.unsqueeze, _ATEN.squeeze),
        *(_ATEN.select, _ATEN.slice, _ATEN.unbind, _ATEN.split, _ATEN.detach, _ATEN.alias, _ATEN.clone, _ATEN.index_select),
        *(_ATEN.add, _ATEN.stack, _ATEN.cat, _ATEN.sum),
    )
)


class RelevanceWithError(Tensor):
    """A tensor of relevance, ``value``, with an estimate of its rounding error, ``error`` (not negative), of the same shape."""

    value: Tensor
    error: Tensor

    @staticmethod
    def __new__(cls, value: Tensor, error: Tensor) -> RelevanceWithError:
        """Join ``value`` and its ``error``, tensors of one shape, into one tensor with the shape, type and device of the value."""
        if value.stride() != error.stride():
            value, error = value.contiguous(), error.contiguous()
        made: RelevanceWithError = Tensor._make_wrapper_subclass(
            cls, value.shape, strides=value.stride(), dtype=value.dtype, device=value.device
        )
        made.value, made.error = value, error
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        """Apply ``func``, a function that is linear in the relevance among its arguments, to both value and error, and return the result as
        value and error; for the error with all weights positive.
        """
        kwargs = kwargs or {}
        summed = func.overloadpacket in _SUMS

        def of(value: Any) -> Any:
            return value.value if isinstance(value, RelevanceWithError) else value

        def error_of(value: Any) -> Any:
            if isinstance(value, RelevanceWithError):
                return value.error
            return torch.zeros_like(value) if summed and isinstance(value, Tensor) else value

        values, errors = func(*tree_map(of, args), **tree_map(of, kwargs)), func(*tree_map(error_of, args), **tree_map(error_of, kwargs))
        is_signed = func.overloadpacket not in _KEEPS_SIGNS or "alpha" in kwargs
        if isinstance(values, tuple | list):
            return type(values)(_pair(v, e, is_signed) for v, e in zip(values, errors, strict=True))
        return _pair(values, errors, is_signed)


def _pair(value: Any, error: Any, is_signed: bool) -> Any:
    if not isinstance(value, Tensor) or not value.is_floating_point():
        return value
    return RelevanceWithError(value, error.abs() if is_signed else error)


def exact(seed: Tensor) -> RelevanceWithError:
    """Return the relevance ``seed`` together with an estimated rounding error of zero."""
    return RelevanceWithError(seed, torch.zeros_like(seed))


def value_of(signal: Tensor) -> Tensor:
    """Return ``signal``, which may carry an error estimate, without it, as a plain tensor."""
    return signal.value if isinstance(signal, RelevanceWithError) else signal


def error_of(signal: Tensor) -> Tensor:
    """Return the rounding error estimated for ``signal``, zeros if it carries no estimate."""
    return signal.error if isinstance(signal, RelevanceWithError) else torch.zeros_like(signal)


def _unit(x: Tensor, accumulated: float = ACCUMULATED_ROUNDING) -> float:
    """Return the relative rounding error of the numbers of ``x``, a tensor, from its type and ``accumulated``, the rounding in units of the
    last place that they have gathered so far.
    """
    return accumulated * torch.finfo(x.dtype).eps / 2


def scale_of(x: Tensor) -> Tensor:
    """Return for each number of an activation ``x`` the size to which its rounding is relative. It includes the size of its row, since the
    number was a sum of such numbers.
    """
    return _scale_of_size(x.abs())


def _scale_of_size(size: Tensor) -> Tensor:
    return size + size.mean(-1, keepdim=True)


def _distance(size: Tensor, rounding: Tensor) -> tuple[Tensor, Tensor]:
    """Return the distance from zero of a divisor of that ``size``, and its smallest possible distance after rounding.

    The second is at least a tenth of the rounding. Neither is exactly zero; both are close to it if size and rounding are zero, and then so
    is the number that they divide.
    """
    near = torch.maximum(torch.sub(size, rounding, alpha=FARTHEST), rounding / 10)
    least = torch.finfo(size.dtype).tiny
    return torch.maximum(size, near).clamp_(min=least), near.clamp_(min=least)


def split_linear(
    x: Tensor,
    weight: Tensor,
    relevance: Tensor,
    forward: BilinearMap,
    backward: BilinearMap,
    inputs: splits.Inputs = "both",
    product: Tensor | None = None,
) -> Tensor:
    """Return the relevance at the input ``x`` of a linear map with this ``weight``, from the ``relevance`` of its output, divided as by
    :func:`explainers.autograd.relevance.split_linear`, with its estimated rounding error. ``forward(x, weight)`` applies the map,
    ``backward(s, weight)`` its transpose. The sums have terms of one sign, so nothing cancels: the errors of a row spread over the inputs
    as relevance does, and add up as independent ones do.
    """
    out = splits.split_linear(x, weight, value_of(relevance), forward, backward, inputs, product)
    if not isinstance(relevance, RelevanceWithError):
        return out
    return RelevanceWithError(out, _spread(relevance, out, 2.0 if inputs == "each" else 1.0))


def split_image_linear(
    pixels: Tensor,
    weight: Tensor,
    relevance: Tensor,
    forward: BilinearMap,
    backward: BilinearMap,
    inside: Tensor | None = None,
    together: bool = False,
) -> Tensor:
    """Return the relevance at the ``pixels`` that a linear map with this ``weight`` reads, from ``relevance``, the relevance of its output,
    divided as by :func:`explainers.autograd.relevance.split_image_linear`.

    ``forward(x, weight)`` applies the map, ``backward(s, weight)`` its transpose; ``inside`` is 0 at zeros that pad the pixels and 1
    elsewhere; ``together``: all pixels are of one image. The result carries an estimate of its rounding error if ``relevance`` carries one.
    """
    if not isinstance(relevance, RelevanceWithError):
        return splits.split_image_linear(pixels, weight, relevance, forward, backward, inside, together)
    out = splits.split_image_linear(pixels, weight, relevance.value, forward, backward, inside, together)
    return RelevanceWithError(out, _spread(relevance, out))


def _spread(relevance: RelevanceWithError, out: Tensor, times: float = 1.0) -> Tensor:
    """Return the estimated rounding errors of ``out``, the relevance at the input of a linear map: the error of the ``relevance`` at its
    output, spread in proportion to the size of ``out``, plus the rounding of ``out`` itself. It is spread within rows if the map works row
    by row, else within samples. ``times`` multiplies the error.
    """
    rows = relevance.shape[:-1] == out.shape[:-1]
    dims = (-1,) if rows else tuple(range(1, out.dim()))
    mass = relevance.error.norm(dim=-1, keepdim=True) if rows else _sample_sum(relevance.error, out)
    size = out.abs()
    whole = size.sum(dims, keepdim=True).add_(splits.STABILISER)  # where it is zero, so is the size
    return size.mul_((mass if times == 1 else times * mass) / whole + _unit(out))


def _sample_sum(error: Tensor, like: Tensor) -> Tensor:
    """Sum an error over each sample and return it as (B, 1, ...), with as many dimensions as ``like``; if the samples do not lie along the
    first dimension, return the sum of everything.
    """
    return error.flatten(1).sum(1).view(-1, *[1] * (like.dim() - 1)) if len(error) == len(like) else error.sum()


def split_sum(a: Tensor, b: Tensor, relevance: Tensor, normalise: bool, accumulated: float = ACCUMULATED_ROUNDING) -> tuple[Tensor, Tensor]:
    """Return the relevance at both operands ``a`` and ``b`` of a sum, from the ``relevance`` of the sum, divided as by
    :func:`explainers.autograd.relevance.split_sum`, with its estimated rounding error; ``accumulated`` is the rounding of the operands in
    units of the last place. Rounding of a and b by e_a and e_b moves a/(a + b) by (|b| e_a + |a| e_b) / (a + b)^2.
    """
    if not isinstance(relevance, RelevanceWithError):
        return splits.split_sum(a, b, relevance, normalise)
    r, error = relevance.value, relevance.error
    parts = splits.split_sum(a, b, r, normalise)
    operands = torch.stack(torch.broadcast_tensors(a, b))  # what follows is of both at once: launches cost more than what they compute
    sizes, total = operands.abs(), a + b
    roundings = _scale_of_size(sizes).mul_(_unit(a, accumulated))
    least, doubt = _distance(total.abs(), roundings[0] + roundings[1])
    moved = (sizes[1] * roundings[0]).addcmul_(sizes[0], roundings[1]).mul_(r.abs()).div_(least).div_(doubt)
    if normalise:
        errors = _normalised(operands / torch.copysign(least, total), r, moved, error)
    else:
        errors = sizes.div_(least).mul_(error).add_(moved)
    return RelevanceWithError(parts[0], errors[0]), RelevanceWithError(parts[1], errors[1])


def _normalised(shares: Tensor, r: Tensor, moved: Tensor, error: Tensor) -> Tensor:
    """Return the errors of both operands (2, ...) after the relevance of each was scaled to its share of the total T: r_a sign(S_a) T / D,
    with S_a and S_b the sums of r_a = share_a r and r_b, and D = |S_a| + |S_b|.

    Where S_a and S_b have one sign, D is |T| and nothing is changed. Otherwise an element's own error also moves D; for an element that is
    most of its sum the two cancel. ``moved`` adds to r_a what it takes from r_b; ``error`` is that of ``r``, the relevance of the sum;
    ``shares`` (2, ...) are those of the operands.
    """
    dims = tuple(range(1, r.dim()))
    each = tuple(range(2, shares.dim()))
    parts = shares * r
    sums = parts.sum(each, keepdim=True)
    whole = sums.abs().sum(0)
    opposite = sums[0] * sums[1] < 0
    carried = (shares * error).abs_()
    off = torch.hypot(moved, carried).square_().sum(each, keepdim=True).sqrt_()
    is_unsure = 2 * off > sums.abs()  # the sign of its sum is not known
    if is_queued(opposite) or bool(opposite.any()):
        apart = shares[0] - shares[1]
        squares = (apart * error).square_().addcmul_(moved, moved, value=4)  # by element, of what moves D
        rest = (squares.sum(dims, keepdim=True) - squares).clamp_(min=0).sqrt_()
        of_whole = parts * torch.where(opposite, splits.divide(sums.sign(), whole), 0.0)  # the part of D that an element is
        others = torch.stack((apart, -apart))
        errors = (shares - of_whole * others).abs_().mul_(error)
        errors.addcmul_((1 - 2 * of_whole).abs_(), moved).addcmul_(of_whole.abs_(), rest)
    else:
        errors = carried.add_(moved)
    scale = splits.divide(r.sum(dims, keepdim=True).abs_(), whole)
    return errors.addcmul_(parts.abs_(), 2.0 * is_unsure).mul_(scale)


def split_product(
    a: Tensor, b: Tensor, product: Tensor, relevance: Tensor, accumulated: float = ACCUMULATED_ROUNDING
) -> tuple[Tensor, Tensor]:
    """Return the relevance at both factors ``a`` and ``b`` of a matrix product, from ``relevance``, the relevance of ``product``, divided
    as by :func:`explainers.autograd.relevance.split_product`, with its estimated rounding error. If the terms of the product nearly cancel,
    dividing by it is as uncertain as the product.
    """
    if not isinstance(relevance, RelevanceWithError):
        return splits.split_product(a, b, product, relevance)
    r = relevance.value
    r_a, r_b = splits.split_product(a, b, product, r)
    error = _over_product(relevance, product, accumulated).mul_(0.5)
    size_a, size_b = a.abs(), b.abs()
    return RelevanceWithError(r_a, (error @ size_b.mT).mul_(size_a)), RelevanceWithError(r_b, (size_a.mT @ error).mul_(size_b))


def _over_product(relevance: RelevanceWithError, product: Tensor, accumulated: float) -> Tensor:
    """Return the estimated rounding error of relevance divided by a matrix product, element by element; ``accumulated`` is the rounding
    that the product has gathered, in units of the last place.
    """
    size = product.abs()
    rounding = _scale_of_size(size).mul_(_unit(product, accumulated))
    size, doubt = _distance(size, rounding)
    return rounding.mul_(relevance.value.abs()).div_(doubt).add_(relevance.error).div_(size)


def split_linear_attention(
    query: Tensor, key: Tensor, value: Tensor, kv: Tensor, product: Tensor, relevance: Tensor, accumulated: float = ACCUMULATED_ROUNDING
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the relevance at queries, keys and values of linear attention, from ``relevance``, the relevance of its ``product``, divided
    as by :func:`explainers.autograd.relevance.split_linear_attention`, with the estimated rounding error if ``relevance`` has one. Of the
    operations only the division by the product adds to it.
    """
    parts = splits.split_linear_attention(query, key, value, kv, product, value_of(relevance))
    if not isinstance(relevance, RelevanceWithError):
        return parts
    error = _over_product(relevance, product, accumulated)
    sizes = query.abs(), key.abs(), value.abs()
    at_kv = sizes[0].mT @ error
    errors = (error @ (sizes[1] @ sizes[2]).mT, at_kv @ sizes[2].mT, sizes[1].mT @ at_kv)
    return tuple(RelevanceWithError(part, size * e) for part, size, e in zip(parts, sizes, errors, strict=True))  # type: ignore[return-value]


def split_pool(x: Tensor, relevance: Tensor, forward: Callable[[Tensor], Tensor], backward: Callable[[Tensor], Tensor]) -> Tensor:
    """Return the relevance at the numbers ``x`` that are pooled, from the ``relevance`` of the result, divided as by
    :func:`explainers.autograd.relevance.split_pool`, with its estimated rounding error. ``forward`` pools, and ``backward`` is its
    transpose. The terms have one sign, unless rounding decides which.
    """
    if not isinstance(relevance, RelevanceWithError):
        return splits.split_pool(x, relevance, forward, backward)
    out = splits.split_pool(x, relevance.value, forward, backward)
    undecided = forward(x).abs() < _unit(x) * forward(x.abs())
    error = relevance.error + relevance.value.abs() * undecided
    return RelevanceWithError(out, splits.split_pool(x, error, forward, backward).abs() + _unit(x) * out.abs())


def split_total(x: Tensor, relevance: Tensor, forward: Callable[[Tensor], Tensor], backward: Callable[[Tensor], Tensor]) -> Tensor:
    """Return the relevance at the numbers ``x`` that are added up, from the ``relevance`` of the sums, divided as by
    :func:`explainers.autograd.relevance.split_total`, with its estimated rounding error. ``forward`` adds, and ``backward`` is its
    transpose.
    """
    if not isinstance(relevance, RelevanceWithError):
        return splits.split_total(x, relevance, forward, backward)
    error = _over_product(relevance, forward(x), ACCUMULATED_ROUNDING)
    return RelevanceWithError(splits.split_total(x, relevance.value, forward, backward), x.abs() * backward(error))
