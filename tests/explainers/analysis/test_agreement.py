"""Which methods agree: on scores by hand, and on an explanation, against scipy; and the order that puts like beside like."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.stats import spearmanr

import explainers
from explainers.analysis.agreement import agreement_of, cluster
from explainers.errors import ExplainerError
from explainers.metrics.rank_correlation import rank_correlations


def test_a_map_with_one_score_orders_nothing() -> None:
    found = agreement_of({"flat": torch.full((9,), 0.3), "a": torch.arange(9.0), "b": -torch.arange(9.0)}, "zebra")
    at = found.methods.index("flat")
    assert np.isnan(found.correlations[at]).all()
    rows = found.to_json()["correlations"]
    assert rows[at] == [None] * 3
    a, b = found.methods.index("a"), found.methods.index("b")
    assert rows[a][b] == pytest.approx(-1)
    assert rows[a][a] == pytest.approx(1)


def test_like_stands_beside_like() -> None:
    drawn = np.random.default_rng(0)
    seeds = drawn.normal(size=(3, 200))
    groups = np.array([0, 1, 2, 0, 1, 2, 0, 1, 2])
    order = cluster(rank_correlations(seeds[groups] + 0.2 * drawn.normal(size=(9, 200))))
    assert sorted(order) == list(range(9))
    changes = np.count_nonzero(np.diff(groups[order]))
    assert changes == 2  # each group in one run
    assert cluster(np.ones((1, 1))) == [0]
    assert cluster(np.ones((2, 2))) == [0, 1]


def test_of_an_explanation() -> None:
    model = explainers.load("scenes-vit")
    image = Image.fromarray(np.random.default_rng(1).integers(0, 255, (64, 64, 3), dtype=np.uint8))
    methods = ["raw_attention", "rollout", "fullgrad_plus:libra"]
    result = explainers.explain(model, image, ["zebra", "elephant"], methods)
    for label in (None, "elephant"):
        found = explainers.agreement(result, label)
        assert found.target == (label or "zebra")
        assert sorted(found.methods) == sorted(methods)
        for i, one in enumerate(found.methods):
            for k, other in enumerate(found.methods):
                maps = [result[spec, found.target] for spec in (one, other)]
                expected = spearmanr(*(m.scores[m.content].numpy() for m in maps)).statistic
                assert found.correlations[i, k] == pytest.approx(expected, abs=1e-9)
    assert found.tokens == 196
    with pytest.raises(ExplainerError, match="'horse' was not explained; explained were zebra, elephant"):
        explainers.agreement(result, "horse")
