"""How the pages write numbers, said once more in Python, so that what is on the page can be compared with what the API returned."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal
from math import ceil, floor, log10
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

MINUS = "\u2212"


def shown(value: float, digits: int = 3) -> str:
    """``value`` with ``digits`` significant digits."""
    size = abs(value)
    if size == 0:
        text = "0"
    elif size < 1e-4:
        mantissa, exponent = f"{size:.{digits - 1}e}".split("e")
        text = f"{mantissa}e{MINUS}{abs(int(exponent))}"
    else:
        places = max(0, digits - 1 - floor(log10(size)))
        text = str(Decimal(size).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP))
        if "." in text and len(text.replace(".", "").lstrip("0")) > digits:  # 0.0999... became 0.1000
            text = text[:-1].rstrip(".")
    return MINUS + text if value < 0 else text


def shown_score(value: float, signed: bool) -> str:
    return ("+" if signed and value > 0 else "") + shown(value)


def shown_range(attribution: dict[str, Any]) -> str:
    low, high = attribution["range"]
    return f"{shown(low, 2)} … {shown(high, 2)}"


def percent(p: float) -> str:
    if 0 < p < 0.0005:
        return "<0.1\u2009%"
    if 0.9995 < p < 1:
        return ">99.9\u2009%"
    return f"{Decimal(100 * p).quantize(Decimal('0.1'), ROUND_HALF_UP)}\u2009%"


def colour_ends(values: ArrayLike, signed: bool) -> tuple[float, float]:
    """The scores at the two ends of the colours: -+ the 99th percentile of |score|, or the 1st and 99th percentile of an unsigned map, and
    of a signed one of at least ten scores that all lie on one side of zero, none nearer to it than a quarter of the largest.
    """
    if signed and np.size(values) >= 10 and (np.min(values) > 0 or np.max(values) < 0):
        signed = bool(np.quantile(np.abs(values), 0.01) < 0.25 * np.quantile(np.abs(values), 0.99))
    scores = np.abs(values) if signed else np.asarray(values)
    low = 0.0 if signed else float(np.quantile(scores, 0.01))
    usual = float(np.quantile(scores, 0.99))
    high = usual if usual > low else float(scores.max())
    return (-high if signed else low), high


def end_texts(values: ArrayLike, signed: bool, ends: tuple[float, float] | None = None) -> list[str]:
    """The texts at the two ends of a bar of colours; of ends that the values go beyond, as numbers show them, with a sign that says so."""
    low, high = colour_ends(values, signed) if ends is None else ends
    least, most = min(low, float(np.min(values))), max(high, float(np.max(values)))
    return [
        ("" if shown(least, 2) == shown(low, 2) else "\u2264\u2009") + shown(low, 2),
        ("" if shown(most, 2) == shown(high, 2) else "\u2265\u2009") + shown(high, 2),
    ]


def probability_end(deletion: dict[str, Any]) -> float:
    """Where the axis of the deletion test's curves ends: at 1, or, if no probability is above one half, at the next twentieth."""
    high: float = max(max(curve["probability"]) for curve in [*deletion["curves"], deletion["random"]])
    return 1 if high > 0.5 else ceil(20 * high) / 20
