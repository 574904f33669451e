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

BilinearMap = Callable[[Tensor, Tensor], Tensor]

#: Rounding of an activation, in units of the last place, where it was not measured: what its own sum and all before it have gathered.
ACCUMULATED_ROUNDING = 16.0

#: How many times its rounding a number may be off.
FARTHEST = 4.0

#: A sum of the positive pairs that is less than this part of that of all pairs is added up by itself.
LEAST_PART = 0.02

_SUMS = frozenset((torch.ops.aten.add, torch.ops.aten.sub, torch.ops.aten.stack, torch.ops.aten.cat))


class RelevanceWithError(Tensor):
    """A relevance, ``value``, and the estimate of its rounding error, ``error`` (not negative), of one shape."""

    value: Tensor
    error: Tensor

    @staticmethod
    def __new__(cls, value: Tensor, error: Tensor) -> RelevanceWithError:
        """The two as one tensor that has the shape, type and device of the value."""
        if value.stride() != error.stride():
            value, error = value.contiguous(), error.contiguous()
        made: RelevanceWithError = Tensor._make_wrapper_subclass(
            cls, value.shape, strides=value.stride(), dtype=value.dtype, device=value.device
        )
        made.value, made.error = value, error
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        """A function that is linear in the relevance: of both, its signs left out."""
        kwargs = kwargs or {}
        summed = func.overloadpacket in _SUMS

        def of(value: Any) -> Any:
            return value.value if isinstance(value, RelevanceWithError) else value

        def error_of(value: Any) -> Any:
            if isinstance(value, RelevanceWithError):
                return value.error
            return torch.zeros_like(value) if summed and isinstance(value, Tensor) else value

        values, errors = func(*tree_map(of, args), **tree_map(of, kwargs)), func(*tree_map(error_of, args), **tree_map(error_of, kwargs))
        if isinstance(values, tuple | list):
            return type(values)(_pair(v, e) for v, e in zip(values, errors, strict=True))
        return _pair(values, errors)


def _pair(value: Any, error: Any) -> Any:
    return RelevanceWithError(value, error.abs()) if isinstance(value, Tensor) and value.is_floating_point() else value


def exact(seed: Tensor) -> RelevanceWithError:
    """A signal that is exact."""
    return RelevanceWithError(seed, torch.zeros_like(seed))


def value_of(signal: Tensor) -> Tensor:
    """The relevance alone."""
    return signal.value if isinstance(signal, RelevanceWithError) else signal


def error_of(signal: Tensor) -> Tensor:
    """The estimate, zero where none was carried."""
    return signal.error if isinstance(signal, RelevanceWithError) else torch.zeros_like(signal)


def _unit(x: Tensor, accumulated: float = ACCUMULATED_ROUNDING) -> float:
    """The rounding of an activation, relative to it."""
    return accumulated * torch.finfo(x.dtype).eps / 2


def scale_of(x: Tensor) -> Tensor:
    """The size that rounding of each number of an activation is relative to: its row counts too, for it was a sum of such numbers."""
    size = x.abs()
    return size + size.mean(-1, keepdim=True)


def _distance(divisor: Tensor, rounding: Tensor) -> tuple[Tensor, Tensor]:
    """How far from zero a divisor is, and how far it is at least once rounding has moved it: that is not known below a tenth of it."""
    size = divisor.abs()
    near = torch.maximum(size - FARTHEST * rounding, rounding / 10)
    size = torch.maximum(size, near)
    return torch.where(size == 0, 1.0, size), torch.where(near == 0, 1.0, near)


def split_linear(
    x: Tensor,
    weight: Tensor,
    relevance: Tensor,
    forward: BilinearMap,
    backward: BilinearMap,
    inputs: splits.Inputs = "both",
    product: Tensor | None = None,
) -> Tensor:
    """:func:`explainers.autograd.relevance.split_linear`. Its sums have terms of one sign, so nothing cancels: the errors of a row spread
    over the inputs as relevance does, and add up as independent ones do. ``product`` is forward(x, weight), where it is known.
    """
    if not isinstance(relevance, RelevanceWithError):
        return splits.split_linear(x, weight, relevance, forward, backward, inputs)
    out = None if product is None or inputs != "both" else _split_by_halves(x, weight, relevance.value, forward, backward, product)
    if out is None:
        out = splits.split_linear(x, weight, relevance.value, forward, backward, inputs)
    return RelevanceWithError(out, _spread(relevance, out, 2.0 if inputs == "each" else 1.0))


def _split_by_halves(
    x: Tensor, weight: Tensor, relevance: Tensor, forward: BilinearMap, backward: BilinearMap, product: Tensor
) -> Tensor | None:
    """The same from xW and |x||W|, of which the positive pairs are half the sum: three products in place of four. None where for some
    output the positive pairs are so small a part that the difference would lose them, or there are none.
    """
    size, absolute = x.abs(), weight.abs()
    whole = forward(size, absolute)
    if bool(torch.add(product, whole, alpha=1 - 2 * LEAST_PART).amin() <= 0):
        return None
    s = relevance / whole.add_(product).mul_(0.5).add_(splits.STABILISER)
    return backward(s, weight).mul_(x).addcmul_(size, backward(s, absolute)).mul_(0.5)


def split_image_linear(pixels: Tensor, weight: Tensor, relevance: Tensor, forward: BilinearMap, backward: BilinearMap) -> Tensor:
    """:func:`explainers.autograd.relevance.split_image_linear`."""
    if not isinstance(relevance, RelevanceWithError):
        return splits.split_image_linear(pixels, weight, relevance, forward, backward)
    out = splits.split_image_linear(pixels, weight, relevance.value, forward, backward)
    return RelevanceWithError(out, _spread(relevance, out))


def _spread(relevance: RelevanceWithError, out: Tensor, times: float = 1.0) -> Tensor:
    """The errors of what arrived, spread over what a linear map passes on: by rows where it maps rows to rows, else by samples."""
    rows = relevance.shape[:-1] == out.shape[:-1]
    dims = (-1,) if rows else tuple(range(1, out.dim()))
    mass = times * (relevance.error.norm(dim=-1, keepdim=True) if rows else _sample_sum(relevance.error, out))
    size = out.abs()
    return size * (splits.divide(mass, size.sum(dims, keepdim=True)) + _unit(out))


def _sample_sum(error: Tensor, like: Tensor) -> Tensor:
    """(B, 1, ...), or where the samples do not lie along the first dimension one number for all."""
    return error.flatten(1).sum(1).view(-1, *[1] * (like.dim() - 1)) if len(error) == len(like) else error.sum()


def split_sum(a: Tensor, b: Tensor, relevance: Tensor, normalise: bool, accumulated: float = ACCUMULATED_ROUNDING) -> tuple[Tensor, Tensor]:
    """:func:`explainers.autograd.relevance.split_sum`. Rounding by e_a and e_b moves a/(a + b) by (|b| e_a + |a| e_b) / (a + b)^2."""
    if not isinstance(relevance, RelevanceWithError):
        return splits.split_sum(a, b, relevance, normalise)
    r = relevance.value
    r_a, r_b = splits.split_sum(a, b, r, normalise)
    unit, size_a, size_b = _unit(a, accumulated), a.abs(), b.abs()
    e_a, e_b = unit * scale_of(a), unit * scale_of(b)
    total = a + b
    least, doubt = _distance(total, e_a + e_b)
    moved = r.abs() * (size_b * e_a + size_a * e_b) / (least * doubt)
    if not normalise:
        carried = relevance.error / least
        return RelevanceWithError(r_a, size_a * carried + moved), RelevanceWithError(r_b, size_b * carried + moved)
    divisor = torch.where(total < 0, -least, least)
    error_a, error_b = _normalised(a / divisor, b / divisor, r, moved, relevance.error)
    return RelevanceWithError(r_a, error_a), RelevanceWithError(r_b, error_b)


def _normalised(share_a: Tensor, share_b: Tensor, r: Tensor, moved: Tensor, error: Tensor) -> tuple[Tensor, Tensor]:
    """The errors once each operand's relevance was brought to its share of the total T: r_a sign(S_a) T / D, with S_a and S_b the sums of
    r_a = share_a r and r_b, and D = |S_a| + |S_b|.

    Where S_a and S_b have one sign, D is |T| and nothing is changed. Else an element's own error moves D too: where it is most of its sum
    the two cancel. ``moved`` adds to r_a what it takes from r_b; ``error`` is that of r.
    """
    dims = tuple(range(1, r.dim()))
    r_a, r_b = share_a * r, share_b * r
    sum_a, sum_b, total = (t.sum(dims, keepdim=True) for t in (r_a, r_b, r))
    whole = sum_a.abs() + sum_b.abs()
    scale = splits.divide(total.abs(), whole)
    opposite = sum_a * sum_b < 0
    of_whole = torch.hypot(2 * moved, (share_a - share_b) * error)  # by element, what moves D
    squares = of_whole.square()
    rest = (squares.sum(dims, keepdim=True) - squares).clamp(min=0).sqrt()

    def of(share: Tensor, other: Tensor, element: Tensor, element_sum: Tensor) -> Tensor:
        part = torch.where(opposite, splits.divide(element * element_sum.sign(), whole), 0.0)  # of D, this element
        moved_by = (1 - 2 * part).abs() * moved + (share - part * (share - other)).abs() * error + part.abs() * rest
        off = torch.linalg.vector_norm(torch.hypot(moved, share * error), dim=dims, keepdim=True)
        turned = torch.where(2 * off > element_sum.abs(), torch.full_like(element_sum, 2.0), 0.0)  # the sign of its sum is not known
        return scale * (moved_by + turned * element.abs())

    return of(share_a, share_b, r_a, sum_a), of(share_b, share_a, r_b, sum_b)


def split_product(
    a: Tensor, b: Tensor, product: Tensor, relevance: Tensor, accumulated: float = ACCUMULATED_ROUNDING
) -> tuple[Tensor, Tensor]:
    """:func:`explainers.autograd.relevance.split_product`. What is divided by a product that all but cancels is as uncertain as that."""
    if not isinstance(relevance, RelevanceWithError):
        return splits.split_product(a, b, product, relevance)
    r = relevance.value
    r_a, r_b = splits.split_product(a, b, product, r)
    rounding = _unit(product, accumulated) * scale_of(product)
    size, doubt = _distance(product, rounding)
    error = (relevance.error + r.abs() * rounding / doubt) / size
    size_a, size_b = a.abs(), b.abs()
    return RelevanceWithError(r_a, size_a * (error @ size_b.mT) / 2), RelevanceWithError(r_b, size_b * (size_a.mT @ error) / 2)


def split_linear_attention(
    query: Tensor, key: Tensor, value: Tensor, kv: Tensor, product: Tensor, relevance: Tensor, accumulated: float = ACCUMULATED_ROUNDING
) -> tuple[Tensor, Tensor, Tensor]:
    """:func:`explainers.autograd.relevance.split_linear_attention`. Only what is divided by the product is uncertain."""
    parts = splits.split_linear_attention(query, key, value, kv, product, value_of(relevance))
    if not isinstance(relevance, RelevanceWithError):
        return parts
    rounding = _unit(product, accumulated) * scale_of(product)
    size, doubt = _distance(product, rounding)
    error = (relevance.error + relevance.value.abs() * rounding / doubt) / size
    sizes = query.abs(), key.abs(), value.abs()
    at_kv = sizes[0].mT @ error
    errors = (error @ (sizes[1] @ sizes[2]).mT, at_kv @ sizes[2].mT, sizes[1].mT @ at_kv)
    return tuple(RelevanceWithError(part, size * e) for part, size, e in zip(parts, sizes, errors, strict=True))  # type: ignore[return-value]


def split_pool(x: Tensor, relevance: Tensor, forward: Callable[[Tensor], Tensor], backward: Callable[[Tensor], Tensor]) -> Tensor:
    """:func:`explainers.autograd.relevance.split_pool`. Its terms are of one sign, unless rounding decides which that is."""
    if not isinstance(relevance, RelevanceWithError):
        return splits.split_pool(x, relevance, forward, backward)
    out = splits.split_pool(x, relevance.value, forward, backward)
    undecided = forward(x).abs() < _unit(x) * forward(x.abs())
    error = relevance.error + relevance.value.abs() * undecided
    return RelevanceWithError(out, splits.split_pool(x, error, forward, backward).abs() + _unit(x) * out.abs())
