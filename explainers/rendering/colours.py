"""Conversion of scores to colours, as the pages draw them by default (``static/core/colour.js``; a browser test holds the two together)."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

FOR_COLOURS = ((232, 130, 108), (205, 62, 38), (168, 35, 19))  # from faint to full evidence for the target
AGAINST_COLOURS = ((111, 163, 221), (46, 104, 178), (28, 69, 135))

#: one for each prompt that regions belong to: the colours of Okabe and Ito (2008), and ink for an eighth
REGIONS = ((230, 159, 0), (86, 180, 233), (0, 158, 115), (240, 228, 66), (0, 114, 178), (213, 94, 0), (204, 121, 167), (28, 26, 21))

#: Fewer scores than these, as of a short text, may well all lie on one side of zero and mean it.
FEW_SCORES = 10
#: Share of the largest magnitude; if all scores are larger than it, the colours for and against would show only their common sign.
MIN_FAR_FROM_ZERO_RATIO = 0.25

#: Share of all evidence: a first word with more than this is probably an attention sink.
MIN_SINK_SHARE = 0.5

Ends = tuple[float, float]


@cache
def strength() -> NDArray[np.float64]:
    """Return the colours of the scale of strength: seventeen stops (17, 3), red, green and blue, of matplotlib's magma without its nearly
    black and white ends.
    """
    from matplotlib import colormaps  # which not everybody needs who imports explainers

    return np.round(255 * np.asarray(colormaps["magma"](np.linspace(0.04, 0.97, 17)))[:, :3])


def one_sign(scores: ArrayLike) -> int:
    """Return the sign (1 or -1) that all scores share if they are all far from zero; else 0, and 0 for few scores.

    In the colours for and against, such scores would be a block of one colour.
    """
    values = np.asarray(scores, np.float64)
    if values.size < FEW_SCORES or values.min() <= 0 <= values.max():
        return 0
    low, high = np.quantile(np.abs(values), (0.01, 0.99))
    return int(np.sign(values.max())) if low >= MIN_FAR_FROM_ZERO_RATIO * high else 0


def has_sink(scores: ArrayLike) -> bool:
    """Return whether the score of a text's first word is far larger than all others together.

    This happens if a model always attends to its first token (Xiao et al., Efficient Streaming Language Models with Attention Sinks, 2024).
    """
    sizes = np.abs(np.asarray(scores, np.float64))
    return bool(sizes.size >= FEW_SCORES and sizes[0] > MIN_SINK_SHARE * sizes.sum())


def scale_ends(scores: ArrayLike, signed: bool) -> Ends:
    """Return the scores at the two ends of the colour scale.

    They are -+ the 99th percentile of |score| for a signed map, and the 1st and the 99th percentile for an unsigned one. A signed map whose
    scores are all far on one side of zero is drawn as strength, like an unsigned one. If so few scores differ from the rest that both ends
    are equal, the largest score replaces the percentile.
    """
    signed = signed and not one_sign(scores)
    values = np.abs(np.asarray(scores, np.float64)) if signed else np.asarray(scores, np.float64)
    if values.size == 0:
        return 0.0, 0.0
    low = 0.0 if signed else float(np.quantile(values, 0.01))
    usual = float(np.quantile(values, 0.99))
    high = usual if usual > low else float(values.max())
    return -high if signed else low, high


def is_two_sided(ends: Ends, signed: bool) -> bool:
    """Return whether a scale of colours with these ``ends`` has two sides, for and against: true if the method is ``signed``, unless all
    scores are far on one side.
    """
    return signed and ends[0] == -ends[1]


def one_sign_note(scores: ArrayLike, signed: bool) -> str:
    """Return a note for a map whose ``scores`` are drawn as strength although its method has signs (``signed``), because all are far on one
    side of zero; "" for any other map.
    """
    ends = scale_ends(scores, signed)
    if not signed or is_two_sided(ends, signed) or ends[0] == ends[1]:
        return ""
    return f"Nothing here speaks {'against' if ends[1] > 0 else 'for'}, so the map is drawn as strength: only the order counts."


def normalise(scores: ArrayLike, ends: Ends, signed: bool) -> NDArray[np.float64]:
    """Return ``scores`` (any shape) scaled linearly between ``ends`` (low, high): to -1 to 1 if the scale has two sides (some are
    ``signed`` and negative), to 0 to 1 if not; to 0 where the ends are the same.
    """
    values, (low, high) = np.asarray(scores, np.float64), ends
    if high <= low:
        return np.zeros_like(values)
    return np.clip(values / high, -1, 1) if is_two_sided(ends, signed) else np.clip((values - low) / (high - low), 0, 1)


def colours(values: NDArray[np.float64], signed: bool) -> NDArray[np.float64]:
    """Convert normalised scores, ``values`` (...), to red, green and blue (0..255) and opacity (0..1), (..., 4). They lie between 0 and 1,
    or between -1 and 1 if ``signed``; those near 0 are transparent.
    """
    if not signed:
        return np.concatenate([_along(strength(), values), 0.12 + 0.88 * values[..., None] ** 0.7], -1)
    size = np.abs(values)
    rgb = np.where(values[..., None] > 0, _along(FOR_COLOURS, size), _along(AGAINST_COLOURS, size))
    return np.concatenate([rgb, size[..., None] ** 0.85], -1)


def _along(stops: ArrayLike, t: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the colour at ``t`` (0..1) of a row of stops, linear between neighbours."""
    table = np.asarray(stops, np.float64)
    at = np.linspace(0, 1, len(table))
    return np.stack([np.interp(t, at, table[:, channel]) for channel in range(3)], -1)
