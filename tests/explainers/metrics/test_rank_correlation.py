"""Rank correlations of maps, against scipy's and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import spearmanr

from explainers.metrics.rank_correlation import rank_correlations


def test_rank_correlations_are_those_of_scipy() -> None:
    drawn = np.random.default_rng(3)
    scores = drawn.normal(size=(7, 50))
    scores[1] = np.round(scores[1])  # with ties
    scores[2] = np.exp(3 * scores[0])  # the same order
    scores[3] = -(scores[0] ** 3)  # the opposite one
    found = rank_correlations(scores)
    np.testing.assert_allclose(found, spearmanr(scores, axis=1).statistic, atol=1e-12)
    assert found[0, 2] == pytest.approx(1)
    assert found[0, 3] == pytest.approx(-1)


def test_rank_correlation_with_ties_by_hand() -> None:
    # ranks 1, 2.5, 2.5, 4 and 1, 2, 3, 4: r = 4.5 / sqrt(4.5 * 5)
    found = rank_correlations(np.array([[0.0, 5.0, 5.0, 9.0], [-1.0, 0.0, 2.0, 3.0]]))
    assert found[0, 1] == pytest.approx(4.5 / np.sqrt(4.5 * 5))
