"""Kernel SHAP against Shapley values by their definition, and the parts that it hides together."""

from __future__ import annotations

from itertools import combinations
from math import comb, factorial

import pytest
import torch
from torch import Tensor

import explainers
from explainers import ExplainerError
from explainers.methods.implementations.kernel_shap import draw_coalitions, even_runs, fit_shapley, slic_segments
from explainers.models.grids import halve_grid
from explainers.models.removal.patches import paint_patches
from tests.explainers.support.pair import TARGET
from tests.explainers.support.wrapped import inputs, wrapped

GRID = (4, 3)


def shapley_values(values: dict[frozenset[int], float], parts: int) -> Tensor:
    """The mean over all orders of what a part adds to those before it."""
    return torch.tensor(
        [
            sum(
                factorial(len(rest)) * factorial(parts - 1 - len(rest)) / factorial(parts) * (values[rest | {one}] - value)
                for rest, value in values.items()
                if one not in rest
            )
            for one in range(parts)
        ],
        dtype=torch.float64,
    )


def all_values(parts: int, part_of: Tensor) -> dict[frozenset[int], float]:
    """The logit of a tiny ViT for every set of parts that is shown."""
    model, tensors = wrapped("vit"), inputs("vit", 1)
    sets = [frozenset(chosen) for size in range(parts + 1) for chosen in combinations(range(parts), size)]
    keep = torch.stack([torch.tensor([float(int(part) in chosen) for part in part_of]) for chosen in sets])
    with torch.no_grad():
        pixels = paint_patches(tensors["pixel_values"].expand(len(keep), -1, -1, -1), keep, GRID)
        answers = model.forward({"pixel_values": pixels})[:, TARGET]
    return dict(zip(sets, answers.tolist(), strict=True))


@pytest.mark.parametrize("features", [4, 6])
def test_it_is_exact_where_all_coalitions_are_asked(features: int) -> None:
    part_of = halve_grid(GRID, features)
    parts = int(part_of.max()) + 1
    expected = shapley_values(all_values(parts, part_of), parts)[part_of] / part_of.bincount()[part_of]
    one, other = (
        explainers.explain(wrapped("vit"), inputs("vit", 1), TARGET, f"kernel_shap?features={features}", seed=seed).maps[0]
        for seed in (0, 1)
    )
    torch.testing.assert_close(one.scores[1:].double(), expected, rtol=0, atol=1e-6)
    assert torch.equal(one.scores, other.scores)
    assert one.seed_correlation == 1.0
    assert f"All {2**parts} coalitions of {parts} parts were asked: these Shapley values are exact." in one.notes


def test_a_draw_comes_close_and_adds_up() -> None:
    """12 patches and 600 of 4094 coalitions: sizes that fit are enumerated, the others drawn."""
    values = all_values(12, torch.arange(12))
    expected = shapley_values(values, 12)
    found = explainers.explain(wrapped("vit"), inputs("vit", 1), TARGET, "kernel_shap?samples=600").maps[0].scores[1:].double()
    assert float(found.sum()) == pytest.approx(values[frozenset(range(12))] - values[frozenset()], abs=1e-5)
    assert float(torch.corrcoef(torch.stack([found, expected]))[0, 1]) > 0.99


def test_coalitions_are_enumerated_from_the_outside_in_and_weights_add_up_to_the_kernel() -> None:
    torch.manual_seed(0)
    coalitions, weights, is_drawn = draw_coalitions(10, 400)
    sizes = coalitions.sum(1)
    for size in range(1, 10):
        has = sizes[~is_drawn] == size
        assert int(has.sum()) in (0, comb(10, size))
        if has.any():
            assert float(weights[~is_drawn][has].sum()) == pytest.approx(9 / (size * (10 - size)))
    assert {int(size) for size in sizes[~is_drawn]} == {1, 2, 8, 9}
    assert float(weights.sum()) == pytest.approx(sum(9 / (k * (10 - k)) for k in range(1, 10)))
    assert len(coalitions) <= 400
    drawn = coalitions[is_drawn]
    assert torch.equal(drawn[::2], ~drawn[1::2])
    everything, _, none_drawn = draw_coalitions(5, 30)
    assert len(everything.unique(dim=0)) == 30
    assert not bool(none_drawn.any())


def test_a_sum_of_parts_is_found_from_any_coalitions_that_determine_it() -> None:
    worth = torch.tensor([0.5, -2.0, 3.0, 1.0], dtype=torch.float64)
    coalitions = torch.eye(4, dtype=torch.bool)[:3]
    found = fit_shapley(coalitions, torch.ones(3), coalitions.double() @ worth + 7, 7.0, float(worth.sum()) + 7)
    torch.testing.assert_close(found, worth)
    assert fit_shapley(torch.zeros(0, 1, dtype=torch.bool), torch.zeros(0), torch.zeros(0), 1.0, 3.0).tolist() == [2.0]


def test_parts() -> None:
    assert halve_grid((14, 14), 49).view(14, 14)[::2, ::2].flatten().tolist() == list(range(49))
    assert halve_grid((14, 14), 8).bincount().tolist() == [28, 21] * 4  # halved in turn, to 2 rows of 4
    assert halve_grid((2, 3), 100).tolist() == list(range(6))
    assert even_runs(5, 2).tolist() == [0, 0, 0, 1, 1]
    assert even_runs(3, 9).tolist() == [0, 1, 2]


def test_superpixels_follow_the_picture() -> None:
    pytest.importorskip("skimage")
    pixels = torch.zeros(3, 32, 32)
    pixels[:, :, 12:] = 1
    segments = slic_segments(pixels, (8, 8), 6).view(8, 8)
    assert int(segments.max()) < 6
    assert not set(segments[:, :3].flatten().tolist()) & set(segments[:, 3:].flatten().tolist())  # none lies across the edge
    found = explainers.explain(wrapped("vit"), inputs("vit", 1), TARGET, "kernel_shap?segments=slic&features=6").maps[0]
    assert len(found.scores[1:].unique()) <= 6


def test_without_scikit_image_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "skimage.segmentation", None)
    with pytest.raises(ExplainerError, match=r"needs the package scikit-image.*'\.\[segments\]', or choose segments=grid"):
        explainers.explain(wrapped("vit"), inputs("vit", 1), TARGET, "kernel_shap?segments=slic")
