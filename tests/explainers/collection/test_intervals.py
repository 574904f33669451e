"""Shares and means with intervals, against formulas and scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from explainers.collection.intervals import Sums, share, sign_test


def test_a_share_has_wilsons_interval() -> None:
    z, p, n = 1.959963984540054, 0.1, 40
    middle, half = (p + z * z / (2 * n)) / (1 + z * z / n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    found = share(4, 40)
    assert (found.count, found.of, found.value) == (4, 40, 0.1)
    assert found.low == pytest.approx(middle - half)
    assert found.high == pytest.approx(middle + half)


def test_a_share_of_none_has_a_width_and_one_of_no_inputs_has_no_value() -> None:
    none = share(0, 30)
    assert (none.value, none.low) == (0, 0)
    assert none.high == pytest.approx(0.1135, abs=1e-4)  # z² / (n + z²)
    assert share(0, 0).value is share(0, 0).low is share(0, 0).high is None


def test_a_mean_has_students_interval() -> None:
    values = np.random.default_rng(0).normal(0.3, 1, 17)
    sums = Sums()
    for value in values:
        sums.add(float(value))
    test = stats.ttest_1samp(values, 0)
    ends = test.confidence_interval(0.95)
    mean = sums.mean()
    assert (mean.inputs, mean.value) == (17, pytest.approx(values.mean()))
    assert (mean.low, mean.high) == (pytest.approx(ends.low), pytest.approx(ends.high))


def test_few_values_have_no_interval() -> None:
    sums = Sums()
    assert sums.mean().value is None
    sums.add(0.5)
    assert sums.mean().value == 0.5
    assert sums.mean().low is None


def test_the_sign_test_counts_coins() -> None:
    assert sign_test(10, 10) == pytest.approx(2 / 2**10)
    assert sign_test(1, 10) == pytest.approx(2 * (1 + 10) / 2**10)
    assert sign_test(5, 10) == sign_test(0, 0) == 1


def test_p_of_a_mean_is_that_of_the_t_test_of_scipy() -> None:
    values = np.random.default_rng(3).normal(0.3, 1, 12)
    sums = Sums()
    assert sums.p() == 1
    for value in values.tolist():
        sums.add(value)
    assert sums.p() == pytest.approx(stats.ttest_1samp(values, 0, alternative="greater").pvalue)


@pytest.mark.parametrize(("value", "p"), [(0.5, 0.0), (0.0, 1.0), (-0.5, 1.0)])
def test_p_of_equal_values_is_known_without_a_spread(value: float, p: float) -> None:
    sums = Sums()
    for _ in range(3):
        sums.add(value)
    assert sums.p() == p
