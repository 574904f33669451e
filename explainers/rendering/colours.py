"""From scores to colours, as the pages draw them by default (``static/core/colour.js``; a browser test holds the two together)."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

FOR = ((232, 130, 108), (205, 62, 38), (168, 35, 19))  # from faint to full evidence for the target
AGAINST = ((111, 163, 221), (46, 104, 178), (28, 69, 135))

#: one for each prompt that regions belong to: the colours of Okabe and Ito (2008), and ink for an eighth
REGIONS = ((230, 159, 0), (86, 180, 233), (0, 158, 115), (240, 228, 66), (0, 114, 178), (213, 94, 0), (204, 121, 167), (28, 26, 21))

Ends = tuple[float, float]


@cache
def strength() -> NDArray[np.float64]:
    """Seventeen stops of matplotlib's magma, without its ends, where nothing can be told from black or white: red, green, blue, (17, 3)."""
    from matplotlib import colormaps  # which not everybody needs who imports explainers

    return np.round(255 * np.asarray(colormaps["magma"](np.linspace(0.04, 0.97, 17)))[:, :3])


def limits(scores: ArrayLike, signed: bool) -> Ends:
    """The scores at the two ends of the colours: -+ the 99th percentile of |score| of a signed map, the 1st and the 99th percentile of
    an unsigned one. Where so few scores differ from the rest that this leaves nothing, the largest takes the place of the percentile.
    """
    values = np.abs(np.asarray(scores, np.float64)) if signed else np.asarray(scores, np.float64)
    if values.size == 0:
        return 0.0, 0.0
    low = 0.0 if signed else float(np.quantile(values, 0.01))
    usual = float(np.quantile(values, 0.99))
    high = usual if usual > low else float(values.max())
    return -high if signed else low, high


def normalised(scores: ArrayLike, ends: Ends, signed: bool) -> NDArray[np.float64]:
    """Where scores lie between the ends: -1 to 1 if signed, 0 to 1 if not; 0 where the ends are the same."""
    values, (low, high) = np.asarray(scores, np.float64), ends
    if high <= low:
        return np.zeros_like(values)
    return np.clip(values / high, -1, 1) if signed else np.clip((values - low) / (high - low), 0, 1)


def colours(values: NDArray[np.float64], signed: bool) -> NDArray[np.float64]:
    """Normalised values to red, green, blue (0..255) and cover (0..1), (..., 4). What counts for nothing lets the picture through."""
    if not signed:
        return np.concatenate([_along(strength(), values), 0.12 + 0.88 * values[..., None] ** 0.7], -1)
    size = np.abs(values)
    rgb = np.where(values[..., None] > 0, _along(FOR, size), _along(AGAINST, size))
    return np.concatenate([rgb, size[..., None] ** 0.85], -1)


def _along(stops: ArrayLike, t: NDArray[np.float64]) -> NDArray[np.float64]:
    """The colour at ``t`` (0..1) of a row of stops, linear between neighbours."""
    table = np.asarray(stops, np.float64)
    at = np.linspace(0, 1, len(table))
    return np.stack([np.interp(t, at, table[:, channel]) for channel in range(3)], -1)
