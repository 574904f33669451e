"""Pure functions that split relevance: the formulas of deep Taylor decomposition and of the LRP baseline.

Source: Chefer, Gur, Wolf, CVPR 2021, arXiv 2012.09838, eq. 4, 5, 9 and 10, and the behaviour of the authors' published
code where it differs.
Sums run over one sample, never over the batch (dimension 0), so that a sample's map does not depend on its neighbours.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from explainers.autograd.queued import is_queued

Inputs = Literal["both", "positive", "each"]
#: A sum of the positive pairs that is less than this part of that of all pairs is added up by itself.
LEAST_PART = 0.02
STABILISER = 1e-9  # added with a plus sign whatever the denominator's, as in the published code, whose numbers we reproduce


def divide(numerator: Tensor, denominator: Tensor) -> Tensor:
    """Return ``numerator / (denominator + STABILISER)``, and 0 where the denominator is 0. Shapes broadcast."""
    stable = denominator + STABILISER
    return torch.where(denominator == 0, 0.0, numerator / torch.where(stable == 0, STABILISER, stable))


def split_linear(
    x: Tensor,
    weight: Tensor,
    relevance: Tensor,
    forward: Callable[[Tensor, Tensor], Tensor],
    backward: Callable[[Tensor, Tensor], Tensor],
    inputs: Inputs = "both",
    product: Tensor | None = None,
) -> Tensor:
    """Distribute ``relevance``, the relevance of the output of a linear map of ``x`` by ``weight``, to its input, without the bias, and
    return the relevance at ``x`` (eq. 5; eq. 4 with ``inputs="positive"``).

    ``forward(x, weight)`` applies the map, ``backward(signal, weight)`` its transpose. Only pairs whose product is positive take part:
    positive inputs with positive weights, negative with negative. ``inputs`` "positive" leaves the second group out; "each" normalises the
    two separately, each taking all the relevance (so that the total doubles: what the published LRP baseline computes). ``product`` is
    ``forward(x, weight)``, if known: three matrix products are then enough instead of four.
    """
    if product is not None and inputs == "both" and (out := _split_by_halves(x, weight, relevance, forward, backward, product)) is not None:
        return out
    x_plus, w_plus = x.clamp(min=0), weight.clamp(min=0)
    z_plus = forward(x_plus, w_plus)
    if inputs == "positive":
        return x_plus * backward(divide(relevance, z_plus), w_plus)
    x_minus, w_minus = x.clamp(max=0), weight.clamp(max=0)
    z_minus = forward(x_minus, w_minus)
    if inputs == "each":
        s_plus, s_minus = divide(relevance, z_plus), divide(relevance, z_minus)
    else:
        s_plus = s_minus = divide(relevance, z_plus + z_minus)
    return x_plus * backward(s_plus, w_plus) + x_minus * backward(s_minus, w_minus)


def _split_by_halves(
    x: Tensor,
    weight: Tensor,
    relevance: Tensor,
    forward: Callable[[Tensor, Tensor], Tensor],
    backward: Callable[[Tensor, Tensor], Tensor],
    product: Tensor,
) -> Tensor | None:
    """Compute :func:`split_linear` from ``product`` = xW and |x||W|, as the sum of the positive pairs is half of the sum of these two;
    return the relevance at ``x``. None if some output has no positive pairs, or so few that rounding would spoil the difference; and for
    tensors on a GPU, whose numbers would have to be waited for.
    """
    if is_queued(x):
        return None
    size, absolute = x.abs(), weight.abs()
    whole = forward(size, absolute)
    if float(torch.add(product, whole, alpha=1 - 2 * LEAST_PART).amin()) <= 0:
        return None
    s = relevance / whole.add_(product).add_(2 * STABILISER)  # half of relevance / positive pairs
    return backward(s, weight).mul_(x).addcmul_(size, backward(s, absolute))


def split_image_linear(
    pixels: Tensor,
    weight: Tensor,
    relevance: Tensor,
    forward: Callable[[Tensor, Tensor], Tensor],
    backward: Callable[[Tensor, Tensor], Tensor],
    inside: Tensor | None = None,
    together: bool = False,
) -> Tensor:
    """Return the relevance at ``pixels`` of a linear map by ``weight``, from ``relevance`` at its output, by the z^B rule, with the
    smallest and largest value of each image as bounds.

    ``pixels`` (B, ...). R_j = sum_i (x_j w_ij - l w_ij^+ - h w_ij^-) R_i / sum_j' (the same). ``inside``, of their shape: 0 at the zeros
    that pad them, whose bounds are zero as well, as inside a convolution with padding; 1 elsewhere. None: nothing pads them. ``together``:
    all pixels are of one image, in rows.
    """
    dims = tuple(range(0 if together else 1, pixels.dim()))
    low = pixels.amin(dims, keepdim=True).expand_as(pixels)
    high = pixels.amax(dims, keepdim=True).expand_as(pixels)
    if inside is not None:
        low, high = low * inside, high * inside
    w_plus, w_minus = weight.clamp(min=0), weight.clamp(max=0)
    total = forward(pixels, weight) - forward(low, w_plus) - forward(high, w_minus)
    s = divide(relevance, total)
    return pixels * backward(s, weight) - low * backward(s, w_plus) - high * backward(s, w_minus)


def split_sum(a: Tensor, b: Tensor, relevance: Tensor, normalise: bool) -> tuple[Tensor, Tensor]:
    """Distribute ``relevance``, the relevance of the sum ``a + b``, to both operands in proportion to their values, and return two tensors
    in the sum's shape. With ``normalise`` they are then normalised for each sample (eq. 9-10).
    """
    s = divide(relevance, a + b)
    r_a, r_b = a * s, b * s
    if not normalise:
        return r_a, r_b
    dims = tuple(range(1, relevance.dim()))
    sums, total = torch.stack([r.sum(dims, keepdim=True) for r in (r_a, r_b)]), relevance.sum(dims, keepdim=True)
    shares = divide(sums.abs(), sums.abs().sum(0)) * total
    factor_a, factor_b = divide(shares, sums)
    return r_a * factor_a, r_b * factor_b


def split_product(a: Tensor, b: Tensor, product: Tensor, relevance: Tensor) -> tuple[Tensor, Tensor]:
    """Distribute ``relevance``, the relevance of the matrix product ``product`` = ``a @ b``, to both factors, and return two tensors: in
    proportion to the terms of each factor, half of the total to each (to which eq. 9-10 reduce).
    """
    s = divide(relevance, product) / 2
    return a * (s @ b.mT), b * (a.mT @ s)


def split_linear_attention(
    query: Tensor, key: Tensor, value: Tensor, kv: Tensor, product: Tensor, relevance: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Distribute ``relevance``, the relevance of ``product`` = Q (K V) with ``kv`` = K V, to queries, keys and values in proportion to
    their terms, and return three tensors, as :func:`split_product` applied twice to (Q K) V does: the weights Q K cancel out of the second.
    """
    s = divide(relevance, product)
    at_kv = query.mT @ s
    return query * (s @ kv.mT), key * (at_kv @ value.mT), value * (key.mT @ at_kv)


def split_pool(x: Tensor, relevance: Tensor, forward: Callable[[Tensor], Tensor], backward: Callable[[Tensor], Tensor]) -> Tensor:
    """Distribute ``relevance``, the relevance of the sums or means ``forward(x)``, to their terms in ``x`` that have the sign of the sum,
    and return the relevance at ``x``; ``backward`` is the transpose of ``forward``.

    All weights being positive, eq. 5 would give everything to the positive terms, and lose the relevance of a sum that has none.
    """
    x_plus, x_minus = x.clamp(min=0), x.clamp(max=0)
    negative = forward(x) < 0
    s = divide(relevance, torch.where(negative, forward(x_minus), forward(x_plus)))
    return x_plus * backward(s * ~negative) + x_minus * backward(s * negative)


def split_total(x: Tensor, relevance: Tensor, forward: Callable[[Tensor], Tensor], backward: Callable[[Tensor], Tensor]) -> Tensor:
    """Distribute ``relevance``, the relevance of the sums ``forward(x)``, to their terms in ``x`` in proportion to their values, and return
    the relevance at ``x``; ``backward`` is the transpose of ``forward``.
    """
    return x * backward(divide(relevance, forward(x)))
