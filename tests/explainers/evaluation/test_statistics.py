"""Estimates and intervals against NumPy and SciPy, and pairs whose verdict is known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import bootstrap, ttest_rel

from explainers.evaluation.statistics import columns_of, estimate, weights_of, weights_of_rows
from explainers.metrics import METRICS

DRAW = np.random.default_rng(5)
INPUTS = 60
FIRST = DRAW.normal(0.5, 0.2, INPUTS)
VALUES = np.stack([FIRST, FIRST + DRAW.normal(0.01, 0.2, INPUTS), FIRST - 0.3 + DRAW.normal(0, 0.05, INPUTS)], 1)[..., None]
MEAN = METRICS["mif"]


def test_means_and_their_intervals() -> None:
    found = estimate(MEAN, VALUES, weights_of(INPUTS))
    assert found.values == pytest.approx(VALUES[..., 0].mean(0))
    assert found.errors == pytest.approx(VALUES[..., 0].std(0) / np.sqrt(INPUTS), rel=0.1)
    for method in range(3):
        other = bootstrap((VALUES[:, method, 0],), np.mean, method="percentile", n_resamples=2000, rng=np.random.default_rng(1))
        ends = other.confidence_interval
        assert [found.low[method], found.high[method]] == pytest.approx([ends.low, ends.high], abs=0.01)


def test_pairs_are_told_apart_as_a_paired_test_tells_them() -> None:
    found = estimate(MEAN, VALUES, weights_of(INPUTS))
    assert found.p_of_pairs == pytest.approx(found.p_of_pairs.T)
    assert np.diag(found.p_of_pairs).tolist() == [1, 1, 1]
    close = ttest_rel(VALUES[:, 0, 0], VALUES[:, 1, 0]).pvalue
    assert found.p_of_pairs[0, 1] == pytest.approx(close, abs=0.05)
    assert found.p_of_pairs[0, 2] < 0.002
    assert found.find_ties("higher") == [True, True, False]
    assert found.find_ties("lower") == [False, False, True]
    assert found.find_ties(None) == [False, False, False]


def test_what_has_no_value_is_left_out() -> None:
    values = VALUES.copy()
    values[:30, 1] = np.nan
    values[:, 2] = np.nan
    found = estimate(MEAN, values, weights_of(INPUTS))
    assert found.counts.tolist() == [60, 30, 0]
    assert found.values[1] == pytest.approx(VALUES[30:, 1, 0].mean())
    assert np.isnan(found.values[2])
    assert np.isnan(found.p_of_pairs[2]).all()
    assert found.find_ties("higher")[2] is False


def test_classes_of_one_input_are_drawn_together() -> None:
    rows = [{"index": index, "mif": value} for index, value in ((8, 0.0), (3, 1.0), (3, 1.0), (5, 0.0), (5, 1.0))]
    weights = weights_of_rows(rows, ["a"])
    assert weights[:, [0, 1, 3]].tolist() == weights_of(3).tolist()
    assert weights[:, [1, 3]].tolist() == weights[:, [2, 4]].tolist()
    found = estimate(MEAN, columns_of(MEAN, rows, ["a"]), weights)
    assert found.values.tolist() == [3 / 5]
    assert found.counts.tolist() == [5]
    assert (found.low[0], found.high[0]) == (0, 1)


def test_a_metric_of_a_data_set_is_computed_of_its_sums() -> None:
    metric = METRICS["pixel_accuracy"]
    parts = np.array([[[1.0, 4.0]], [[3.0, 4.0]], [[8.0, 8.0]]])
    found = estimate(metric, parts, weights_of(3))
    assert found.values.tolist() == [12 / 16]
    assert found.low[0] == pytest.approx(1 / 4)
    assert found.high[0] == 1


def test_rows_become_columns() -> None:
    rows = [{"mif": value} for value in (1.0, None, 3.0, 4.0)]
    found = columns_of(MEAN, rows, ["a", "b"])
    assert found.shape == (2, 2, 1)
    assert found[1, :, 0].tolist() == [3, 4]
    assert np.isnan(found[0, 1, 0])
