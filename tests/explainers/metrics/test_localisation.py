"""Maps of a few patches whose figures are worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch
from sklearn.metrics import average_precision_score, jaccard_score

from explainers import ExplainerError
from explainers.metrics import METRICS, localisation
from explainers.metrics.localisation import average_precision, density, energy, grid_pointing

MAP = torch.tensor([[3.0, 1.0], [-5.0, 0.0]])
COVER = torch.tensor([[0.5, 1.0], [1.0, 0.0]])


def test_energy_is_the_share_of_positive_scores_on_the_object() -> None:
    assert energy(MAP, COVER) == pytest.approx((0.5 * 3 + 1) / 4)


def test_a_map_without_a_positive_score_has_no_value() -> None:
    """0 would say that its evidence lies elsewhere."""
    maps, mask, _ = halves()
    assert math.isnan(energy(-MAP.abs(), COVER))
    for empty in (torch.zeros(2, 2), -torch.rand(2, 2)):
        both = torch.stack([empty, maps[1]])
        assert localisation.energy_inside(both, mask).isnan().tolist() == [True, False]
        assert localisation.energy_ratio(both, mask).isnan().tolist() == [True, False]
        assert localisation.mosaic_pointing(both, torch.tensor([[0, 1], [0, 1]])).isnan().tolist() == [True, False]
        assert localisation.own_object(both, mask, ~mask[:, None]).isnan().tolist() == [True, False]


def test_density_is_per_covered_patch() -> None:
    assert density(MAP, COVER) == pytest.approx((0.5 * 3 + 1) / 2.5)
    with pytest.raises(ExplainerError, match="no part of the image"):
        density(MAP, torch.zeros(2, 2))


def test_energy_over_the_share_that_the_object_covers() -> None:
    maps, mask, _ = halves()
    assert localisation.energy_ratio(maps, mask).tolist() == [2, 0]
    assert localisation.energy_ratio(torch.ones(2, 2, 2), mask).tolist() == [1, 1]


def test_the_explained_object_is_lit_more_than_every_other() -> None:
    maps = torch.tensor([[[2.0, -9.0], [1.0, 1.0]], [[1.0, 3.0], [0.0, 0.0]], [[1.0, 1.0], [0.0, 1.0]]])
    upper_left, upper_right, lower = torch.zeros(3, 4, 4, dtype=torch.bool)
    upper_left[:2, :2], upper_right[:2, 2:], lower[2:] = True, True, True
    others = torch.stack([upper_right, lower])
    # per covered patch: 2 against 0 and (1 + 1) / 2; 1 against 3 and 0; 1 against 1, which is not more
    found = localisation.own_object(maps, upper_left.expand(3, -1, -1), others.expand(3, -1, -1, -1))
    assert found.tolist() == [1, 0, 0]


def test_grid_pointing_is_the_share_in_the_right_cell() -> None:
    scores = torch.tensor([[1.0, 2.0, 0.0, -9.0], [0.0, 1.0, 4.0, 0.0]])
    assert grid_pointing(scores, (0, 0), (1, 2)) == pytest.approx(4 / 8)
    assert grid_pointing(scores, (1, 1)) == pytest.approx(4 / 8)
    assert grid_pointing(scores, (0, 1)) == 0
    assert sum(grid_pointing(scores, (row, column)) for row in (0, 1) for column in (0, 1)) == pytest.approx(1)
    assert math.isnan(grid_pointing(-scores.abs(), (0, 0)))


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


def halves() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Two maps of the same mask, the left half: one lit there, one lit on the right."""
    maps = torch.tensor([[[1.0, 0.0], [1.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]]])
    mask = torch.zeros(2, 8, 8, dtype=torch.bool)
    mask[:, :, :4] = True
    return maps, mask, torch.ones_like(mask)


def test_segmentation_as_chefer_et_al_score_it() -> None:
    maps, mask, labelled = halves()
    assert localisation.pixel_accuracy(maps, mask, labelled).tolist() == [[64, 64], [0, 64]]
    assert localisation.mean_iou(maps, mask, labelled).tolist() == [[32, 32, 32, 32], [0, 64, 0, 64]]
    combine = METRICS["miou"].combine
    assert combine is not None
    # over both images: 32 of 96 pixels of either kind
    assert float(combine(localisation.mean_iou(maps, mask, labelled).sum(0).numpy())) == pytest.approx(1 / 3)
    perfect, _ = localisation.mean_ap(maps, mask, labelled).tolist()
    assert perfect == pytest.approx(1.0)
    labelled[:, :, 4:] = False
    assert localisation.pixel_accuracy(maps, mask, labelled).tolist() == [[32, 32], [0, 32]]


def test_iou_is_scikit_learns() -> None:
    draw = torch.Generator().manual_seed(0)
    maps, mask = torch.rand(3, 8, 8, generator=draw), torch.rand(3, 8, 8, generator=draw) > 0.6
    found = maps > maps.mean((1, 2), keepdim=True)
    parts = localisation.mean_iou(maps, mask, torch.ones_like(mask))
    shares = jaccard_score(mask.flatten().numpy(), found.flatten().numpy(), average=None, labels=[1, 0])
    total = parts.sum(0)
    assert [float(total[0] / total[1]), float(total[2] / total[3])] == pytest.approx(shares.tolist())


def test_map_is_scikit_learns_over_both_channels() -> None:
    """Chefer et al. take the map and its complement as the scores of object and ground, and average over both alike."""
    draw = torch.Generator().manual_seed(3)
    maps, mask = torch.randn(2, 8, 8, generator=draw), torch.rand(2, 8, 8, generator=draw) > 0.7
    labelled = torch.rand(2, 8, 8, generator=draw) > 0.2
    for row, value in enumerate(localisation.mean_ap(maps, mask, labelled).tolist()):
        scores = ((maps[row] - maps[row].min()) / (maps[row].max() - maps[row].min()))[labelled[row]].double()
        truth = mask[row][labelled[row]].double()
        wanted = average_precision_score(torch.stack([1 - truth, truth], 1), torch.stack([1 - scores, scores], 1), average="micro")
        assert value == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize("score", [0.0, 0.1, -1 / 3])
def test_a_map_with_one_score_throughout_gives_neither_object_nor_ground_a_score(score: float) -> None:
    """Whatever the object covers, it was called background with certainty: 0.86 of an object on a seventh of the picture."""
    mask = torch.zeros(1, 56, 56, dtype=torch.bool)
    mask[:, 8:29, 8:29] = True
    maps, labelled = torch.full((1, 7, 7), score), torch.ones_like(mask)
    assert localisation.mean_ap(maps, mask, labelled).item() == pytest.approx(0.5)
    assert localisation.pixel_accuracy(maps, mask, labelled).tolist() == [[56 * 56 - 21 * 21, 56 * 56]]
    assert localisation.pointing(maps, mask).item() == 0


def test_pointing_hits_the_object_or_lies_near_it() -> None:
    maps, mask, _ = halves()
    assert localisation.pointing(maps, mask).tolist() == [1, 0]
    assert localisation.pointing(maps, mask, tolerance=5).tolist() == [1, 1]
    assert localisation.pointing(torch.ones(2, 2, 2), mask).tolist() == [0, 0]


def test_batches_are_what_single_maps_give() -> None:
    maps, mask, _ = halves()
    assert localisation.segmentation_ap(maps, mask).tolist() == [average_precision(maps[i], mask[i]) for i in range(2)]
    assert localisation.energy_inside(maps, mask).tolist() == [1, 0]
    assert localisation.mosaic_pointing(maps, torch.tensor([[0, 0], [0, 0]])).tolist() == [0.5, 0]


def test_scores_of_patches_against_those_that_are_covered() -> None:
    """The object covers the left column of patches; a quarter of a patch does not count."""
    mask = torch.zeros(4, 4, dtype=torch.bool)
    mask[:, :2], mask[0, 2] = True, True
    maps = torch.tensor([[[3.0, 2.0], [1.0, 0.0]], [[0.0, 2.0], [1.0, 3.0]], [[1.0, 1.0], [1.0, 1.0]]])
    masks = mask.expand(3, -1, -1)
    # covered patches are 1st and 3rd; last and 3rd; all alike
    assert localisation.patch_ap(maps, masks).tolist() == pytest.approx([(1 + 2 / 3) / 2, (1 / 3 + 2 / 4) / 2, 1 / 2])
    assert localisation.patch_auc(maps, masks).tolist() == pytest.approx([3 / 4, 0, 1 / 2])
    assert localisation.patch_ap(maps, torch.zeros_like(masks)).isnan().all()
    assert localisation.patch_auc(maps, torch.ones_like(masks)).isnan().all()
