"""Maps of a few patches whose figures are worked out by hand."""

from __future__ import annotations

import pytest
import torch

from explainers import ExplainerError
from explainers.metrics.localisation import average_precision, density, energy, grid_pointing

MAP = torch.tensor([[3.0, 1.0], [-5.0, 0.0]])
COVER = torch.tensor([[0.5, 1.0], [1.0, 0.0]])


def test_energy_is_the_share_of_positive_scores_on_the_object() -> None:
    assert energy(MAP, COVER) == pytest.approx((0.5 * 3 + 1) / 4)
    assert energy(-MAP.abs(), COVER) == 0


def test_density_is_per_covered_patch() -> None:
    assert density(MAP, COVER) == pytest.approx((0.5 * 3 + 1) / 2.5)
    with pytest.raises(ExplainerError, match="no part of the image"):
        density(MAP, torch.zeros(2, 2))


def test_grid_pointing_is_the_share_in_the_right_cell() -> None:
    scores = torch.tensor([[1.0, 2.0, 0.0, -9.0], [0.0, 1.0, 4.0, 0.0]])
    assert grid_pointing(scores, (0, 0), (1, 2)) == pytest.approx(4 / 8)
    assert grid_pointing(scores, (1, 1)) == pytest.approx(4 / 8)
    assert grid_pointing(scores, (0, 1)) == 0
    assert sum(grid_pointing(scores, (row, column)) for row in (0, 1) for column in (0, 1)) == pytest.approx(1)
    assert grid_pointing(-scores.abs(), (0, 0)) == 0


def test_grid_pointing_needs_whole_patches_and_a_cell() -> None:
    with pytest.raises(ExplainerError, match="does not divide into"):
        grid_pointing(torch.ones(3, 4), (0, 0))
    with pytest.raises(ExplainerError, match="no cell"):
        grid_pointing(torch.ones(4, 4), (2, 0))


def test_average_precision_of_a_ranking_known_by_hand() -> None:
    scores = torch.tensor([[4.0, 3.0], [2.0, 1.0]])
    mask = torch.tensor([[True, False], [True, False]])
    # ranked: hit, miss, hit, miss; the two hits add a half of recall each, at precisions 1/1 and 2/3
    assert average_precision(scores, mask) == pytest.approx(0.5 * 1 + 0.5 * 2 / 3)
    assert average_precision(-scores, mask) == pytest.approx(0.5 * 1 / 2 + 0.5 * 2 / 4)
    assert average_precision(torch.ones(2, 2), mask) == pytest.approx(0.5)  # says nothing: the share that is covered


def test_average_precision_enlarges_the_map() -> None:
    scores, mask = torch.zeros(4, 4), torch.zeros(16, 16, dtype=torch.bool)
    scores[1, 2], mask[4:8, 8:12] = 1, True
    assert average_precision(scores, mask) > 0.95
    assert average_precision(scores, ~mask) < average_precision(torch.ones(4, 4), ~mask) == pytest.approx(240 / 256)


def test_average_precision_needs_a_mask_and_numbers() -> None:
    with pytest.raises(ExplainerError, match="mask is empty"):
        average_precision(MAP, torch.zeros(2, 2, dtype=torch.bool))
    with pytest.raises(ExplainerError, match="no numbers"):
        average_precision(torch.full((2, 2), float("nan")), torch.ones(2, 2, dtype=torch.bool))
