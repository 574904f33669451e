"""Ranks and their tests against SciPy where there are many blocks, and against every order where there are two."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest
from scipy.stats import friedmanchisquare, studentized_range

from explainers.evaluation.tables.ranks import compare_ranks, ranks_of

DRAW = np.random.default_rng(3)


def test_ranks_share_places() -> None:
    values = np.array([[0.9, 0.5, 0.9, 0.1], [1, 2, 3, 4]])
    assert ranks_of(values, "higher").tolist() == [[1.5, 3, 1.5, 4], [4, 3, 2, 1]]
    assert ranks_of(values, "lower").tolist() == [[3.5, 2, 3.5, 1], [1, 2, 3, 4]]


def test_many_blocks_are_tested_as_the_formulas_test_them() -> None:
    blocks, methods = 40, 5
    values = DRAW.normal(size=(blocks, methods)) + np.array([0, 0.1, 0.15, 0.5, 1])
    found = compare_ranks(ranks_of(values, "lower"))
    assert found.ranks == pytest.approx(ranks_of(values, "lower").mean(0))
    assert found.p == pytest.approx(friedmanchisquare(*values.T).pvalue, abs=0.01)
    distances = (found.ranks - found.ranks.min()) / np.sqrt(methods * (methods + 1) / (6 * blocks))
    nemenyi = studentized_range.sf(distances * np.sqrt(2), methods, np.inf)
    assert found.p_of_best == pytest.approx(nemenyi, abs=0.04)
    assert found.tied.tolist() == (nemenyi >= 0.05).tolist()
    assert not found.tied[4]
    assert found.can_tell


def test_two_blocks_are_tested_by_all_their_orders() -> None:
    """And they are too few: even methods that agree on every place could do so by chance."""
    ranks = np.array([[1.0, 2, 3, 4], [1, 2, 4, 3]])
    sums = [np.add(first, second) for first, second in product(permutations(ranks[0]), permutations(ranks[1]))]
    found = compare_ranks(ranks)
    assert found.p == pytest.approx(np.mean([drawn.var() >= ranks.sum(0).var() - 1e-9 for drawn in sums]), abs=0.03)
    for method, p in enumerate(found.p_of_best):
        distance = ranks[:, method].sum() - ranks.sum(0).min()
        assert p == pytest.approx(np.mean([np.ptp(drawn) >= distance - 1e-9 for drawn in sums]), abs=0.03)
    assert found.tied.all()
    assert not found.can_tell
