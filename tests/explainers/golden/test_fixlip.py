"""Interactions by regression over coalitions against FIxLIP's own code, and the measures of interactions."""

from __future__ import annotations

from functools import cache
from itertools import combinations

import pytest
import torch
from torch import Tensor

from explainers.analysis.interactions.coalitions import (
    Fit,
    all_coalitions,
    exact_weights,
    fit_interactions,
    products,
    split_budget,
)
from explainers.analysis.interactions.measures import extreme_sets, insertion_and_deletion, r_squared, rank_agreement
from explainers.models.removal.patches import paint_patches
from tests.explainers.support.golden_rows import case_of

PATCHES, WORDS = 9, 4
PLAYERS = PATCHES + WORDS
TOLERANCE = 1e-8
SHAPLEY_TOLERANCE = 1e-4  # its weights span twelve orders of magnitude
ALL = list(combinations(range(PLAYERS), 2))
ACROSS = [(i, j) for i in range(PATCHES) for j in range(PATCHES, PLAYERS)]


@cache
def published() -> dict[str, Tensor]:
    return case_of("fixlip").published


def value(coalitions: Tensor) -> Tensor:
    """The published value, less that of nothing."""
    digits = 2 ** torch.arange(PLAYERS - 1, -1, -1)
    numbers = (coalitions.long() * digits).sum(1)
    return published()["all_values_image_x_text"].flatten()[numbers] - published()["empty_value"]


def agrees(fit: Fit, name: str, tolerance: float = TOLERANCE) -> None:
    assert fit.constant == pytest.approx(float(published()[f"{name}|constant"]), abs=tolerance)
    torch.testing.assert_close(fit.first, published()[f"{name}|first"], rtol=0, atol=tolerance)
    torch.testing.assert_close(fit.second.triu(), published()[f"{name}|second"].triu(), rtol=0, atol=tolerance)


@pytest.mark.parametrize("p", [0.3, 0.5, 0.7])
@pytest.mark.parametrize(("order", "pairs"), [(1, []), (2, ALL)])
def test_weighted_banzhaf_over_all_coalitions(p: float, order: int, pairs: list[tuple[int, int]]) -> None:
    whole = all_coalitions(PLAYERS)
    fit = fit_interactions(whole, exact_weights(whole, "banzhaf", p), value(whole), pairs)
    agrees(fit, f"exact_banzhaf_p{p}_order{order}")
    if order == 2:
        torch.testing.assert_close(fit.totals(p), published()[f"exact_banzhaf_p{p}_order2|first_order_total"], rtol=0, atol=TOLERANCE)


def test_pairs_of_a_patch_and_a_word_alone() -> None:
    whole = all_coalitions(PLAYERS)
    agrees(fit_interactions(whole, exact_weights(whole, "banzhaf", 0.5), value(whole), ACROSS), "exact_banzhaf_p0.5_crossmodal_pairs_only")


def test_the_shapley_variant() -> None:
    whole = all_coalitions(PLAYERS)
    agrees(fit_interactions(whole, exact_weights(whole, "shapley", 0.5), value(whole), ALL), "exact_shapley_order2", SHAPLEY_TOLERANCE)


def test_drawn_coalitions() -> None:
    of = published()
    name = "sampled_p0.3_budget300"
    coalitions = of[f"{name}|coalitions"].bool()
    agrees(fit_interactions(coalitions, of[f"{name}|weights"], value(coalitions), ALL), name)
    name = "crossmodal_p0.5"
    images, texts = (of[f"{name}|coalitions_{side}"].bool() for side in ("image", "text"))
    assert list(split_budget(PATCHES, WORDS, 1024)) == of["split_of_budget_1024"].long().tolist() == [len(images), len(texts)]
    weights = (of[f"{name}|weights_image"][:, None] * of[f"{name}|weights_text"]).flatten()
    both = products(images, texts)
    agrees(fit_interactions(both, weights, value(both), ALL), name)


def test_insertion_and_deletion_of_interactions() -> None:
    of = published()
    name = "exact_banzhaf_p0.5_order2"
    second = of[f"{name}|second"].triu(1)
    fit = Fit(float(of[f"{name}|constant"]), of[f"{name}|first"], second + second.T)
    for sets, ours in zip(("mif", "lif"), extreme_sets(fit), strict=True):
        assert torch.equal(ours[:-1].long(), of[f"aid|coalitions_{sets}"].long())
    score, most, least = insertion_and_deletion(fit, lambda sets: value(sets) + of["empty_value"])
    assert score == pytest.approx(float(of["aid|score"]), abs=TOLERANCE)
    torch.testing.assert_close(most, of["aid|deletion_most_important_first"], rtol=0, atol=TOLERANCE)
    torch.testing.assert_close(least, of["aid|deletion_least_important_first"], rtol=0, atol=TOLERANCE)
    single = Fit(0.0, of[f"{name}|first_order_total"], torch.zeros(PLAYERS, PLAYERS, dtype=torch.float64))
    score, most, _ = insertion_and_deletion(single, lambda sets: value(sets) + of["empty_value"])
    assert score == pytest.approx(float(of["aid_first_order|score"]), abs=TOLERANCE)
    torch.testing.assert_close(most, of["aid_first_order|mif"], rtol=0, atol=TOLERANCE)
    coalitions = of["faithfulness|coalitions"].bool()
    foretold, truth = fit.values(coalitions), value(coalitions)
    assert r_squared(truth, foretold) == pytest.approx(float(of["faithfulness|r2"]), abs=TOLERANCE)
    assert rank_agreement(truth, foretold) == pytest.approx(float(of["faithfulness|spearman_correlation"]), abs=TOLERANCE)


def test_values_of_the_model() -> None:
    """A patch that is out is painted in the mean colour, 0; a word that is out is masked."""
    case = case_of("fixlip")
    coalitions = all_coalitions(PLAYERS)[:: 2**PLAYERS // 64 + 1]
    mask = torch.ones(len(coalitions), WORDS + 2, dtype=torch.long)
    mask[:, 1:-1] = coalitions[:, PATCHES:].long()
    pixels = paint_patches(case.inputs["pixel_values"].expand(len(coalitions), -1, -1, -1), coalitions[:, :PATCHES], (3, 3))
    for i in range(len(coalitions)):
        tensors = {**case.inputs, "pixel_values": pixels[i : i + 1], "attention_mask": mask[i : i + 1]}
        with torch.no_grad():
            answer = float(case.model.forward(tensors)) - float(published()["empty_value"])
        assert answer == pytest.approx(float(value(coalitions[i : i + 1])), abs=TOLERANCE)
