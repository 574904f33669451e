"""Sanity metrics on maps whose answer is known, and against SciPy."""

from __future__ import annotations

import pytest
import torch
from scipy.stats import kendalltau, spearmanr

from explainers.metrics import completeness, sanity

FIRST = torch.tensor([[0.1, 0.5, 0.3, 0.9], [1.0, 2.0, 3.0, 4.0]])
SECOND = torch.tensor([[0.2, 0.4, 0.6, 0.8], [4.0, 3.0, 2.0, 1.0]])


def test_correlations_are_scipys() -> None:
    for row in range(2):
        assert sanity.class_correlation(FIRST, SECOND)[row].item() == pytest.approx(spearmanr(FIRST[row], SECOND[row]).statistic)
        assert sanity.class_tau(FIRST, SECOND)[row].item() == pytest.approx(kendalltau(FIRST[row], SECOND[row]).statistic)


def test_randomisation_averages_magnitudes_over_layers() -> None:
    layers = torch.stack([FIRST, -FIRST, torch.zeros_like(FIRST)], 1)
    assert sanity.randomisation(FIRST, layers).tolist() == pytest.approx([2 / 3, 2 / 3])
    for number in range(layers.shape[1]):
        alone = sanity.randomisation(FIRST, layers[:, [number]])
        assert sanity.randomisation_end(FIRST, layers[:, number]).tolist() == pytest.approx(alone.tolist())


def test_sensitivity_is_the_largest_relative_change() -> None:
    scores = torch.tensor([[3.0, 4.0], [0.0, 0.0]])
    moved = torch.stack([scores + torch.tensor([1.0, 0.0]), scores + torch.tensor([0.0, 2.0])], 1)
    found = sanity.sensitivity(scores, moved)
    assert found[0].item() == pytest.approx(2 / 5)
    assert found[1].isnan()


def test_agreement_leaves_the_map_itself_out() -> None:
    maps = torch.tensor([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0], [3.0, 2.0, 1.0]])
    assert sanity.mean_agreement(maps).tolist() == pytest.approx([0.0, 0.0, -1.0])
    assert sanity.mean_agreement(maps[:1]).isnan().all()


def test_completeness_is_the_error_that_a_method_states() -> None:
    assert completeness.completeness(torch.tensor([0.5])).item() == 0.5
