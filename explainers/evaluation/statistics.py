"""What rows say about methods: estimates with intervals, and whether two methods differ measurably.

One mechanism serves every metric, averaged over inputs or made of sums over the data set: the inputs are drawn again with replacement many
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
COMPARED_BITS = 40
IDENTIFYING_DRAWS = 64  # number of draws whose counts identify an input
Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Estimates:
    """The estimates of a metric for M methods.

    values      (M,) values over all inputs
    errors      (M,) standard errors
    low, high   (M,) ends of the 95 % interval
    counts      (M,) numbers of inputs with a value
    p_of_pairs  (M, M) two-sided p of the paired bootstrap that two methods are alike, but at least the smallest p of a sign test over as
                many inputs (:func:`smallest_p`); NaN if one of them has no value
    """

    values: Numbers
    errors: Numbers
    low: Numbers
    high: Numbers
    counts: NDArray[np.int64]
    p_of_pairs: Numbers

    def find_ties(self, direction: str | None) -> list[bool]:
        """Return for each method whether it is tied with the best, see :func:`find_ties`. ``direction`` says whether higher or lower values
        are better.
        """
        return find_ties(self.values, self.p_of_pairs, direction)


def rank_methods(report: dict[str, Any], metric: dict[str, Any]) -> list[str]:
    """Return the specs of the methods that have a value for ``metric`` in ``report``, best first. If the metric has no better direction,
    the largest value is first.
    """
    results = report["results"][metric["name"]]
    sign = 1 if metric["direction"] == "lower" else -1
    return sorted((spec for spec in results if results[spec]["value"] is not None), key=lambda spec: sign * results[spec]["value"])


def find_ties(values: Numbers, p_of_pairs: Numbers, direction: str | None) -> list[bool]:
    """Return which of M methods are tied with the best, a list of M bools, from their ``values`` (M,) and from ``p_of_pairs`` (M, M), the p
    values of the hypothesis that two methods are alike. A method is tied if its p against the best is at least 5 % after Holm's correction.
    ``direction`` is "higher", "lower" or None. The best is one of them; none is tied if the metric has no better direction.
    """
    measured_methods = np.flatnonzero(np.isfinite(values))
    if direction is None or not len(measured_methods):
        return [False] * len(values)
    sign = 1 if direction == "higher" else -1
    best = int(measured_methods[np.argmax(sign * without_rounding(values[measured_methods]))])
    is_tied = np.isfinite(values)
    other_methods = measured_methods[measured_methods != best]
    is_tied[other_methods] = holm(p_of_pairs[best, other_methods]) >= ALPHA
    return [bool(tied) for tied in is_tied]


def holm(p_values: Numbers) -> Numbers:
    """Apply Holm's correction to the p values of several tests (any shape) and return them, at most 1. NaN stays NaN and does not count as
    a test.
    """
    adjusted = np.full(p_values.shape, np.nan)
    tests = np.flatnonzero(np.isfinite(p_values))
    order = tests[np.argsort(p_values.flat[tests], kind="stable")]
    steps = p_values.flat[order] * np.arange(len(order), 0, -1)
    adjusted.flat[order] = np.minimum(1.0, np.maximum.accumulate(steps))
    return adjusted


def without_rounding(values: Numbers) -> Numbers:
    """Round ``values`` (any shape) to ``COMPARED_BITS`` (40) leading bits, some twelve digits, for comparisons.

    A mean that is summed in two orders may differ in its last bits; after this rounding both are equal.
    """
    mantissa, exponent = np.frexp(values)
    rounded: Numbers = np.ldexp(np.round(np.ldexp(mantissa, COMPARED_BITS)), exponent - COMPARED_BITS)
    return rounded


def smallest_p(inputs: Numbers) -> Numbers:
    """Return the smallest two-sided p that this number of ``inputs`` allows, by a sign test.

    The chance that all inputs favour the same method is that of as many coins falling alike. A bootstrap of three inputs that agree has no
    draw against them, and would give 0.001 instead of 0.25.
    """
    p: Numbers = np.minimum(1.0, 2.0 ** (1.0 - inputs))
    return p


def weights_of(inputs: int, seed: int = 0) -> Numbers:
    """Return how often each of ``inputs`` inputs is drawn in each bootstrap draw, (draws, inputs); the same for the same seed."""
    draw = np.random.default_rng(seed)
    return draw.multinomial(inputs, np.full(inputs, 1 / inputs), size=BOOTSTRAP_DRAWS).astype(np.float64)


def weights_of_rows(rows: list[dict[str, Any]], methods: list[str], seed: int = 0) -> Numbers:
    """Return how often each explained class of each input is drawn in each bootstrap draw, (draws, explained); the classes of one input are
    drawn together. ``rows`` are a run's rows, one for each of ``methods`` after the other; ``seed`` determines the draws.
    """
    numbers: dict[int, int] = {}
    columns = [numbers.setdefault(row["index"], len(numbers)) for row in rows[:: len(methods)]]
    return weights_of(len(numbers), seed)[:, columns]


def weighted_values(metric: Metric, values: Numbers, weights: Numbers) -> Numbers:
    """Return a metric (draws, M) from its columns ``values`` (inputs, M, columns), with inputs drawn as often as ``weights`` (draws,
    inputs) says.

    The result is NaN if no drawn input has a value.
    """
    is_measured: NDArray[np.bool_] = np.asarray(np.isfinite(values).all(-1))
    number = weights @ is_measured
    sums = np.einsum("ri,imp->rmp", weights, np.where(is_measured[..., None], values, 0.0), optimize=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        of_draws: Numbers = sums[..., 0] / number if metric.combine is None else metric.combine(sums)
    return np.where(number > 0, of_draws, np.nan)


def estimate(metric: Metric, values: Numbers, weights: Numbers) -> Estimates:
    """Estimate ``metric`` for M methods, with intervals and the p that two methods are alike, from its columns ``values`` (inputs, M,
    columns), NaN for an input without a value. ``weights`` (draws, inputs) say how often each draw of the bootstrap counts each input.
    """
    value, draws = weighted_values(metric, values, np.ones((1, len(values))))[0], weighted_values(metric, values, weights)
    tail = (1 - LEVEL) / 2
    has_value = np.isfinite(value)
    is_measured: NDArray[np.bool_] = np.asarray(np.isfinite(values).all(-1))
    low, high, errors = (np.full(len(value), np.nan) for _ in range(3))
    if has_value.any():
        low[has_value], high[has_value] = np.nanquantile(draws[:, has_value], [tail, 1 - tail], axis=0)
        errors[has_value] = np.nanstd(draws[:, has_value], axis=0)
    p_of_pairs = np.maximum(_paired_p(without_rounding(draws), has_value), smallest_p(_inputs_of_pairs(is_measured, weights)))
    np.fill_diagonal(p_of_pairs, np.where(has_value, 1.0, np.nan))
    return Estimates(value, errors, low, high, is_measured.sum(0).astype(np.int64), p_of_pairs)


def _inputs_of_pairs(is_measured: NDArray[np.bool_], weights: Numbers) -> Numbers:
    """Return for how many inputs both methods of a pair have a value, (M, M), from ``is_measured`` (rows, M). Rows with the same
    ``weights``, the classes of one input, count as one.
    """
    _, first, of_input = np.unique(weights[:IDENTIFYING_DRAWS], axis=1, return_index=True, return_inverse=True)
    has_value = np.zeros((len(first), is_measured.shape[1]))
    np.maximum.at(has_value, of_input.ravel(), is_measured)
    pairs: Numbers = has_value.T @ has_value
    return pairs


def _paired_p(draws: Numbers, has_value: NDArray[np.bool_]) -> Numbers:
    """Return the two-sided p (M, M) that the difference of two methods is zero, from their bootstrap draws (draws, M). Methods without a
    value, False in ``has_value`` (M,), get NaN.
    """
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
    """Return the columns of a metric (inputs, M, columns) for M methods, from ``rows`` in the order of the inputs, each input with a row
    for every method in their order. An input of which several classes are explained counts several times.
    """
    inputs = len(rows) // len(methods)
    numbers = [[np.nan if row[column] is None else row[column] for column in metric.columns] for row in rows]
    return np.array(numbers, np.float64).reshape(inputs, len(methods), len(metric.columns))


def exact_interval(count: int, total: int, level: float = LEVEL) -> tuple[float, float]:
    """Return the exact interval (Clopper and Pearson) of a share of which ``count`` of ``total`` were seen; 0 to 1 if ``total`` is 0."""
    if not total:
        return 0.0, 1.0
    from scipy.stats import binomtest  # takes a second to import

    interval = binomtest(count, total).proportion_ci(level, method="exact")
    return float(interval.low), float(interval.high)
