"""Which two maps are most and least alike."""

from __future__ import annotations

import pytest
from scipy.stats import spearmanr

from tests.support.node import compute

PAIRS = "async (maps) => (await script('plates/mappairs.js')).extremePairs(Object.keys(maps), (name) => maps[name])"


def test_most_and_least_alike_are_those_of_the_rank_correlations() -> None:
    maps = {"a": [1, 2, 3, 4, 5], "b": [2, 1, 3, 4, 5], "c": [5, 4, 3, 2, 1], "flat": [1, 1, 1, 1, 1]}
    found = compute(PAIRS, maps)
    assert found["most"]["pair"] == ["a", "b"]
    assert found["most"]["value"] == pytest.approx(spearmanr(maps["a"], maps["b"]).statistic)
    assert found["least"]["pair"] == ["a", "c"]
    assert found["least"]["value"] == pytest.approx(-1)
    assert compute(PAIRS, {"x": [1, 2]}) is None
