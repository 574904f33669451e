"""The view of a model without outlier tokens: every method runs on it, its accounts are full, and the model is as it was."""

from __future__ import annotations

import copy
from functools import cache

import pytest
import torch
from torch import Tensor

import explainers
from explainers import ExplainerError, explain, find_register_neurons, without_outlier_tokens
from explainers.models.layout import Layout
from explainers.models.registers.moving import Moving, move_activations
from explainers.models.removal.patches import patch_removal
from tests.families import FAMILIES

PIXELS = torch.randn(1, 3, 32, 24, generator=torch.Generator().manual_seed(1))
LAYOUT = Layout(1, 0, (1, 2))


@cache
def model() -> explainers.Model:
    made = explainers.wrap(FAMILIES["vit"].build(), device="cpu")
    find_register_neurons(made, [{"pixel_values": PIXELS}], threshold=0.0, count=4)
    return made


@cache
def moved() -> explainers.Model:
    return without_outlier_tokens(model())


def test_values_are_moved_as_the_words_say() -> None:
    values = torch.tensor([[[9.0, 1], [0, 0], [-5, 2], [3, 4]]])  # a class token, an added one, two patches
    (rows,) = move_activations(values, [0], LAYOUT, Moving())
    assert rows.tolist() == [[9, 1], [9, 0], [0, 2], [0, 4]]  # the class token keeps its value
    (rows,) = move_activations(-values, [0], LAYOUT, Moving(scale=2, patches="mean"))
    assert rows.tolist() == [[-9, -1], [-18, 0], [1, -2], [1, -4]]
    (rows,) = move_activations(values, [0], Layout(1, 0, (1, 1), after=1), Moving())
    assert rows.tolist() == [[9, 1], [9, 0], [0, 2], [3, 4]]  # the last token is no patch
    both = torch.tensor([[[1.0, -7], [0, 0], [6, 2]]])
    assert move_activations(both, [0, 1], LAYOUT, Moving())[0].tolist() == [[1, -7], [6, -7], [0, 0]]
    assert move_activations(both, [0, 1], LAYOUT, Moving(largest="block"))[0].tolist() == [[1, -7], [-7, -7], [0, 0]]


def test_every_method_of_the_model_runs_without_outlier_tokens() -> None:
    specs = [variant.spec for variant in explainers.variants(moved()) if not variant.slow and variant.reason is None]
    assert "fullgrad_plus:libra" in specs
    result = explain(model(), {"pixel_values": PIXELS}, 0, specs, outlier_tokens="move")
    assert [attribution.method for attribution in result.maps] == specs
    rows, columns = model().layout_of({"pixel_values": PIXELS}).grid or (0, 0)
    for attribution in result.maps:
        assert len(attribution.scores) == 2 + rows * columns  # class token and added one
        assert int(attribution.content.sum()) == rows * columns
        share = float(attribution.scores[1].abs() / attribution.scores.abs().sum())
        assert not attribution.scores.any() or any(f"holds {share:.1%} of this map" in note for note in attribution.notes)
    kept = explain(model(), {"pixel_values": PIXELS}, 0, "random")
    assert not torch.equal(kept.logits, result.logits)
    assert not kept.maps[0].notes
    assert kept.outliers is not None
    assert kept.outliers.patches == tuple(range(rows * columns))  # the threshold of this test is 0


def test_its_account_is_full_under_libra() -> None:
    result = explain(moved(), {"pixel_values": PIXELS}, 0, "fullgrad:libra")
    assert result.completeness("libra") < 1e-4 < result.completeness("gradient")


def test_it_is_a_model_like_others() -> None:
    tensors = {"pixel_values": PIXELS}
    whole = moved().forward(tensors)
    grid = moved().layout_of(tensors).grid
    assert grid is not None
    removal = patch_removal(moved(), tensors, grid, "removed")
    patches = grid[0] * grid[1]
    torch.testing.assert_close(removal.logits(torch.ones(1, patches, dtype=torch.bool)), whole.detach(), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(copy.deepcopy(moved()).forward(tensors), whole)
    before = model().forward(tensors)
    with pytest.raises(RuntimeError):
        moved().forward({"pixel_values": PIXELS[:, :2]})
    torch.testing.assert_close(model().forward(tensors), before)  # no hook is left, also where it raised


def test_of_images_and_prompts_both_sides_are_of_the_same_images() -> None:
    clip = explainers.wrap(FAMILIES["hf-clip"].build(), device="cpu")
    pixels = torch.randn(1, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    find_register_neurons(clip, [{"pixel_values": pixels}], threshold=0.0, count=4)
    view = without_outlier_tokens(clip)
    tensors: dict[str, Tensor] = {"pixel_values": pixels, "input_ids": torch.tensor([[1, 2, 3]]), "attention_mask": torch.ones(1, 3).long()}
    whole = view.forward(tensors)
    torch.testing.assert_close(view.seen_from("text").forward(tensors), whole.T)
    assert not torch.allclose(clip.forward(tensors), whole)


def test_what_cannot_be_moved_is_said() -> None:
    with pytest.raises(ExplainerError, match="not known: find them once"):
        without_outlier_tokens(explainers.wrap(FAMILIES["vit"].build(), device="cpu"))
    with pytest.raises(ExplainerError, match="of other weights"):
        without_outlier_tokens(explainers.wrap(FAMILIES["vit"].build(seed=5), device="cpu"), model().register_neurons)
    with pytest.raises(ExplainerError, match="largest='all': choose one of neuron, block"):
        without_outlier_tokens(model(), largest="all")  # type: ignore[arg-type]
    with pytest.raises(ExplainerError, match="choose one of keep, move, move_published"):
        explain(model(), {"pixel_values": PIXELS}, 0, "random", outlier_tokens="gone")  # type: ignore[arg-type]
