"""Estimates and intervals against NumPy and SciPy, and pairs whose verdict is known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest, bootstrap, kendalltau, ttest_rel

from explainers.evaluation.known_truth.metrics_on_truth import kendall
from explainers.evaluation.statistics import columns_of, estimate, holm, weights_of, weights_of_rows, without_rounding
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


def test_equal_means_are_ties_whatever_the_order_of_their_sums() -> None:
    """Kept as SciPy keeps the ties of exact fractions, where NumPy's means of the same numbers differ in their last bits."""
    draw = np.random.default_rng(0)
    ninths = draw.integers(0, 10, (24, 60))  # of accuracies over nine steps
    means = (ninths / 9).mean(0)
    exact = ninths.sum(0)
    assert len(set(means.tolist())) > len(set(exact.tolist()))  # so it is: ties are broken
    kept = without_rounding(means)
    assert len(set(kept.tolist())) == len(set(exact.tolist()))
    truth = draw.normal(size=60)
    assert kendall(kept[None], truth[None])[0] == pytest.approx(kendalltau(exact, truth).statistic)
    assert without_rounding(np.array([np.nan, 0.0, -3.0, 1e-9, 1e300])).tolist()[1:3] == [0, -3]
    assert without_rounding(means) == pytest.approx(means, rel=1e-11)


@pytest.mark.parametrize("inputs", [1, 3, 6, 12])
def test_few_inputs_say_no_more_than_a_sign_test(inputs: int) -> None:
    """However far methods lie apart; SciPy's test of so many signs is the separate calculation."""
    values = np.stack([np.linspace(0.8, 0.9, inputs), np.linspace(0.1, 0.2, inputs)], 1)[..., None]
    found = estimate(MEAN, values, weights_of(inputs))
    least = binomtest(inputs, inputs).pvalue
    assert found.p_of_pairs[0, 1] == pytest.approx(max(least, 2 / 2001))
    assert found.find_ties("higher") == [True, least >= 0.05]
    assert np.diag(found.p_of_pairs).tolist() == [1, 1]


def test_classes_of_one_input_count_as_one_vote() -> None:
    rows = [{"index": index, "mif": value} for index in range(3) for value in (0.9, 0.1) * 5]  # five classes of each, two methods
    found = estimate(MEAN, columns_of(MEAN, rows, ["a", "b"]), weights_of_rows(rows, ["a", "b"]))
    assert found.counts.tolist() == [15, 15]
    assert found.p_of_pairs[0, 1] == 0.25


def test_holm_by_its_definition() -> None:
    p_values = np.array([[0.01, 0.04], [np.nan, 0.03], [0.005, 0.9]])
    found = holm(p_values)
    tests = sorted(p for p in p_values.flat if np.isfinite(p))
    for place in np.ndindex(p_values.shape):
        if np.isnan(p_values[place]):
            assert np.isnan(found[place])
            continue
        # the smallest level at which this test and all before it are rejected, the k-th at level / (tests left)
        number = tests.index(p_values[place])
        assert found[place] == pytest.approx(min(1, max(tests[k] * (len(tests) - k) for k in range(number + 1))))
    assert found[0].tolist() == pytest.approx([0.04, 0.09])
