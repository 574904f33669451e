"""Estimates over inputs with their 95 % intervals: a mean by Student's t, a share by Wilson's interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from explainers.json_records import Record, describe

LEVEL = 0.95


def half_width(error: float, count: int) -> float:
    """Return half of the width of the 95 % interval of the mean of ``count`` values, two or more, by Student's t, from its standard
    ``error``.
    """
    from scipy.stats import t  # takes a second to import

    return float(t.ppf((1 + LEVEL) / 2, count - 1)) * error


@dataclass(frozen=True)
class Estimate(Record):
    """A mean or a share over a number of inputs: its ``value``, the number of inputs (``count``), and the ends of its 95 % confidence
    interval (``low``, ``high``).
    """

    value: float
    low: Annotated[float, describe("Lower end of the 95 % interval.")]
    high: Annotated[float, describe("Upper end of the 95 % interval.")]
    count: Annotated[int, describe("How many inputs it is over.")]

    @classmethod
    def of(cls, values: Sequence[float] | NDArray[np.float64]) -> Estimate:
        """Estimate the mean of ``values`` with its 95 % interval by Student's t; values that are not finite are left out, and fewer than
        two give NaN.
        """
        array = np.asarray(values, dtype=np.float64)
        array = array[np.isfinite(array)]
        if len(array) < 2:
            return cls(math.nan, math.nan, math.nan, len(array))
        half = half_width(float(array.std(ddof=1)) / math.sqrt(len(array)), len(array))
        return cls(float(array.mean()), float(array.mean() - half), float(array.mean() + half), len(array))

    @classmethod
    def of_share(cls, hits: int, count: int) -> Estimate:
        """Estimate the share ``hits / count`` with Wilson's 95 % interval, which stays between 0 and 1."""
        from scipy.stats import norm

        z = float(norm.ppf((1 + LEVEL) / 2))
        share, scale = hits / count, 1 + z * z / count
        middle = (share + z * z / (2 * count)) / scale
        half = z / scale * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
        return cls(share, max(0.0, middle - half) if hits else 0.0, min(1.0, middle + half) if hits < count else 1.0, count)

    def __str__(self) -> str:
        return f"{self.value:.3f} ({self.low:.3f} to {self.high:.3f})"
