"""Means and shares of many rows with intervals, and a test, from sums and counts alone, so that rows need not be kept."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

from explainers.analysis.depth.estimate import Estimate, half_width
from explainers.json_records import Record, describe


@dataclass(frozen=True)
class Share(Record):
    """How many of some inputs something is true of."""

    count: int
    of: int
    value: Annotated[float | None, describe("The share; null of no inputs.")]
    low: Annotated[float | None, describe("The lower end of its 95 % interval (Wilson, 1927).")]
    high: Annotated[float | None, describe("The upper end.")]


@dataclass(frozen=True)
class Mean(Record):
    """A mean over inputs that have a value."""

    inputs: int
    value: Annotated[float | None, describe("The mean; null of no inputs.")]
    low: Annotated[float | None, describe("The lower end of its 95 % interval (Student's t); null of fewer than two inputs.")]
    high: Annotated[float | None, describe("The upper end.")]


def share(count: int, of: int) -> Share:
    """Return ``count`` of ``of`` inputs as a share with Wilson's interval, which also has a width where the share is 0 or 1."""
    if not of:
        return Share(0, 0, None, None, None)
    estimate = Estimate.of_share(count, of)
    return Share(count, of, estimate.value, estimate.low, estimate.high)


def sign_test(rises: int, changes: int) -> float:
    """Return the two-sided p that a value rises in as many inputs as it falls, by a sign test: it rose in ``rises`` of ``changes``."""
    if not changes:
        return 1.0
    from scipy.stats import binomtest  # takes a second to import

    return float(binomtest(rises, changes).pvalue)


class Sums:
    """The sums of values that come one after the other."""

    def __init__(self) -> None:
        self.inputs, self._mean, self._squares = 0, 0.0, 0.0

    def add(self, value: float) -> None:
        """Count one more value (Welford, 1962)."""
        self.inputs += 1
        step = value - self._mean
        self._mean += step / self.inputs
        self._squares += step * (value - self._mean)

    def mean(self) -> Mean:
        """Return the mean of the values with Student's interval."""
        if self.inputs < 2:
            return Mean(self.inputs, self._mean if self.inputs else None, None, None)
        half = half_width(self._error, self.inputs)
        return Mean(self.inputs, self._mean, self._mean - half, self._mean + half)

    def p(self) -> float:
        """Return the one-sided p that the mean of all inputs is 0 or less (Student's t); 1 of fewer than two inputs."""
        if self.inputs < 2:
            return 1.0
        if not self._error:
            return float(self._mean <= 0)
        from scipy.stats import t  # takes a second to import

        return float(t.sf(self._mean / self._error, self.inputs - 1))

    @property
    def _error(self) -> float:
        return math.sqrt(self._squares / (self.inputs - 1) / self.inputs)
