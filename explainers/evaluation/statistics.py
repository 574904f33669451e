"""What rows say about methods: estimates with intervals, and whether two methods can be told apart.

One mechanism serves every metric, averaged over inputs or made of sums over the data set: the inputs are drawn anew with replacement many
times, the same draws for all methods (a paired bootstrap, Efron and Tibshirani, 1993), and the metric is computed of each draw.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explainers.metrics import Metric

BOOTSTRAP_DRAWS = 2000
LEVEL = 0.95
ALPHA = 0.05
Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Estimates:
    """A metric of M methods.

    values  (M,) of all inputs; errors  (M,) standard errors; low, high  (M,) ends of the 95 % interval; counts  (M,) inputs with a value
    p_of_pairs  (M, M) two-sided p of the paired bootstrap that two methods are alike; not a number where one has no value
    """

    values: Numbers
    errors: Numbers
    low: Numbers
    high: Numbers
    counts: NDArray[np.int64]
    p_of_pairs: Numbers

    def find_ties(self, direction: str | None) -> list[bool]:
        """Which methods cannot be told from the best: see :func:`find_ties`."""
        return find_ties(self.values, self.p_of_pairs, direction)


def rank_methods(report: dict[str, Any], metric: dict[str, Any]) -> list[str]:
    """The methods that have a value, best first; by falling value where neither end is better."""
    results = report["results"][metric["name"]]
    sign = 1 if metric["direction"] == "lower" else -1
    return sorted((spec for spec in results if results[spec]["value"] is not None), key=lambda spec: sign * results[spec]["value"])


def find_ties(values: Numbers, p_of_pairs: Numbers, direction: str | None) -> list[bool]:
    """Which of M methods cannot be told from the best: where Holm's correction of the p against it leaves at least 5 %. The best is one
    of them; none is where neither end of the metric is better.
    """
    measured_methods = np.flatnonzero(np.isfinite(values))
    if direction is None or not len(measured_methods):
        return [False] * len(values)
    sign = 1 if direction == "higher" else -1
    best = int(measured_methods[np.argmax(sign * values[measured_methods])])
    other_methods = sorted((i for i in measured_methods.tolist() if i != best), key=lambda i: float(p_of_pairs[best, i]))
    worse_methods: set[int] = set()
    for rank, other in enumerate(other_methods):
        if p_of_pairs[best, other] * (len(other_methods) - rank) >= ALPHA:
            break
        worse_methods.add(other)
    return [i in measured_methods and i not in worse_methods for i in range(len(values))]


def weights_of(inputs: int, seed: int = 0) -> Numbers:
    """How often each input is drawn, (draws, inputs)."""
    draw = np.random.default_rng(seed)
    return draw.multinomial(inputs, np.full(inputs, 1 / inputs), size=BOOTSTRAP_DRAWS).astype(np.float64)


def weights_of_rows(rows: list[dict[str, Any]], methods: list[str], seed: int = 0) -> Numbers:
    """How often each explained class of each input is drawn, (draws, explained): the classes of one input are drawn together."""
    numbers: dict[int, int] = {}
    columns = [numbers.setdefault(row["index"], len(numbers)) for row in rows[:: len(methods)]]
    return weights_of(len(numbers), seed)[:, columns]


def weighted_values(metric: Metric, values: Numbers, weights: Numbers) -> Numbers:
    """A metric (draws, M) with columns ``values`` (inputs, M, columns), of inputs that are drawn as often as ``weights`` (draws, inputs)
    says; not a number where no input that is drawn has one.
    """
    is_measured: NDArray[np.bool_] = np.asarray(np.isfinite(values).all(-1))
    number = weights @ is_measured
    sums = np.einsum("ri,imp->rmp", weights, np.where(is_measured[..., None], values, 0.0), optimize=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        of_draws: Numbers = sums[..., 0] / number if metric.combine is None else metric.combine(sums)
    return np.where(number > 0, of_draws, np.nan)


def estimate(metric: Metric, values: Numbers, weights: Numbers) -> Estimates:
    """The estimates of a metric whose columns are ``values`` (inputs, M, columns), not a number where an input has none."""
    value, draws = weighted_values(metric, values, np.ones((1, len(values))))[0], weighted_values(metric, values, weights)
    tail = (1 - LEVEL) / 2
    has_value = np.isfinite(value)
    is_measured = np.isfinite(values).all(-1)
    low, high, errors = (np.full(len(value), np.nan) for _ in range(3))
    if has_value.any():
        low[has_value], high[has_value] = np.nanquantile(draws[:, has_value], [tail, 1 - tail], axis=0)
        errors[has_value] = np.nanstd(draws[:, has_value], axis=0)
    return Estimates(value, errors, low, high, is_measured.sum(0).astype(np.int64), _paired_p(draws, has_value))


def _paired_p(draws: Numbers, has_value: NDArray[np.bool_]) -> Numbers:
    """Two-sided p (M, M) that the difference of two methods is zero, of their draws (draws, M)."""
    count = draws.shape[1]
    chances = np.full((count, count), np.nan)
    for i in np.flatnonzero(has_value):
        with np.errstate(invalid="ignore"):
            difference = draws - draws[:, [i]]
        above, below = (difference >= 0).sum(0), (difference <= 0).sum(0)
        share = (np.minimum(above, below) + 1) / (len(draws) + 1)
        chances[i] = np.where(has_value, np.minimum(1.0, 2 * share), np.nan)
        chances[i, i] = 1.0
    return chances


def columns_of(metric: Metric, rows: list[dict[str, Any]], methods: list[str]) -> Numbers:
    """The columns of a metric (inputs, M, columns) of rows in the order of the inputs, each with all methods in their order. An input of
    which several classes are explained counts as so many.
    """
    inputs = len(rows) // len(methods)
    numbers = [[np.nan if row[column] is None else row[column] for column in metric.columns] for row in rows]
    return np.array(numbers, np.float64).reshape(inputs, len(methods), len(metric.columns))
