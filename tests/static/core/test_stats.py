"""Correlations and common units, held against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.node import compute_all

CORRELATION = "([a, b]) => script('core/stats.js').then(({ correlation }) => correlation(a, b))"
ON_ONE_UNIT = "([scores, signed, content]) => script('core/stats.js').then(({ onOneUnit }) => onOneUnit(scores, signed, content))"


def test_correlation_is_that_of_numpy() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 50)) + 1e3
    with_another, with_its_mirror, with_a_constant = compute_all(
        CORRELATION, [[a.tolist(), other] for other in (b.tolist(), (5 - 2 * a).tolist(), [0.1] * 50)]
    )
    assert with_another == pytest.approx(float(np.corrcoef(a, b)[0, 1]), abs=1e-9)
    assert with_its_mirror == pytest.approx(-1)
    assert with_a_constant is None


def test_scores_of_two_classes_get_one_unit() -> None:
    cases = [[[1, 3, 4], False, [True, True, False]], [[1, -3, 4], True, None], [[0, 0], False, None]]
    assert compute_all(ON_ONE_UNIT, cases) == [[0.25, 0.75, 1], [1, -3, 4], [0, 0]]
