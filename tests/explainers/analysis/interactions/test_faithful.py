"""Interactions fitted to coalitions of words and patches, on a tiny CLIP, against the same by hand; and how faithful interactions are."""

from __future__ import annotations

import json
from functools import cache
from itertools import combinations, product
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import explainers
from explainers import ExplainerError
from explainers.analysis.interactions.coalitions import all_coalitions, fit_interactions
from explainers.analysis.interactions.faithful import Game
from tests.explainers.support.explained import clip_model, image_model, picture

PROMPT = "a bad movie"
WORDS, PARTS = 3, 4


@cache
def fitted(**options: Any) -> explainers.FaithfulInteraction:
    return explainers.faithful_interaction(clip_model(), picture(), PROMPT, budget=2 ** (WORDS + PARTS), parts=PARTS, **options)


@cache
def game() -> Game:
    return Game(clip_model(), picture(), PROMPT, PARTS, lambda: None)


def by_hand(keep: Tensor) -> float:
    """The cosine with pixels of 0 in the place of parts that are out, and masked words."""
    model = clip_model()
    assert model.prompt_inputs is not None
    texts = dict(model.prompt_inputs([PROMPT]).tensors)
    pixels = model.seen_from("image").tensors(picture())["pixel_values"].clone()
    rows, columns = game().picture.grid or (0, 0)
    height, width = (side // count for side, count in zip(pixels.shape[-2:], (rows, columns), strict=True))
    for patch in range(rows * columns):
        if not keep[WORDS + game().part_of[patch]]:
            y, x = divmod(patch, columns)
            pixels[..., y * height : (y + 1) * height, x * width : (x + 1) * width] = 0
    for word in range(WORDS):
        if not keep[word]:
            texts["attention_mask"] = texts["attention_mask"].masked_fill(game().words.units[word][None].bool(), 0)
    with torch.no_grad():
        image, text = (
            F.normalize(torch.as_tensor(getattr(found, "pooler_output", found)), dim=-1)
            for found in (model.module.get_image_features(pixel_values=pixels), model.module.get_text_features(**texts))
        )
    return float(image @ text.T)


def test_what_is_out_is_painted_or_masked() -> None:
    assert game().players == (WORDS, PARTS)
    keep = all_coalitions(WORDS + PARTS)[::9]
    torch.testing.assert_close(game().cosines(keep), torch.tensor([by_hand(row) for row in keep], dtype=torch.float64), rtol=0, atol=1e-9)


@pytest.mark.parametrize("variant", ["banzhaf", "shapley"])
def test_terms_are_those_of_a_fit_to_every_coalition(variant: Any) -> None:
    """With a budget for all of them nothing is drawn."""
    whole = all_coalitions(WORDS + PARTS)
    values = game().cosines(whole)
    sizes = whole.sum(1)
    if variant == "banzhaf":
        weights = torch.full((len(whole),), 1 / len(whole), dtype=torch.float64)
    else:
        weights = torch.tensor([1 / [1, 5, 10, 10, 5, 1][int(size) - 1] if 0 < size < 7 else 1e7 for size in sizes], dtype=torch.float64)
        weights[(sizes > 0) & (sizes < 7)] /= sum([7, 21 / 5, 35 / 10, 35 / 10, 21 / 5, 7])
    pairs = [(word, WORDS + part) for word, part in product(range(WORDS), range(PARTS))]
    expected = fit_interactions(whole, weights, values - values[0], pairs)
    found = fitted(variant=variant)
    tolerance = 1e-7 if variant == "banzhaf" else 1e-5
    of_parts = found.pairs.double() @ F.one_hot(game().part_of, PARTS).double()
    torch.testing.assert_close(of_parts, expected.second[:WORDS, WORDS:], rtol=0, atol=tolerance)
    torch.testing.assert_close(found.first_order[0].double(), expected.first[:WORDS], rtol=0, atol=tolerance)
    torch.testing.assert_close(found.maps[0].double(), expected.totals(0.5)[:WORDS], rtol=0, atol=tolerance)
    assert found.constant == pytest.approx(expected.constant, abs=tolerance)
    assert found.cosine == pytest.approx(float(values[-1]))
    assert found.empty == pytest.approx(float(values[0]))
    assert found.coalitions == (8, 16)
    if variant == "shapley":  # nearly meets the ends
        assert found.constant + float(found.first_order[0].sum() + found.first_order[1].sum() + found.pairs.sum()) == pytest.approx(
            found.cosine - found.empty, abs=1e-4
        )


def test_all_pairs_and_first_order_alone_are_those_of_their_fits() -> None:
    whole = all_coalitions(WORDS + PARTS)
    values, weights = game().cosines(whole), torch.full((len(whole),), 1 / len(whole), dtype=torch.float64)
    values = values - float(game().cosines(torch.zeros(1, WORDS + PARTS, dtype=torch.bool)))
    for order, fitted_pairs in ((2, list(combinations(range(WORDS + PARTS), 2))), (1, [])):
        fit = fit_interactions(whole, weights, values, fitted_pairs)
        found = fitted(order=order, pairs="all")
        totals = fit.totals(0.5)
        torch.testing.assert_close(found.maps[0].double(), totals[:WORDS], rtol=0, atol=1e-6)
        if order == 1:
            assert found.within is None
            assert not bool(found.pairs.any())
        else:
            assert found.within is not None
            torch.testing.assert_close(found.within[0].double(), fit.second[:WORDS, :WORDS], rtol=0, atol=1e-6)
            torch.testing.assert_close(found.within[1].double(), fit.second[WORDS:, WORDS:], rtol=0, atol=1e-6)


@pytest.mark.parametrize("how", [{"order": 3}, {"pairs": "some"}])
def test_orders_and_pairs_that_are_none_are_refused(how: dict[str, Any]) -> None:
    with pytest.raises(ExplainerError):
        fitted(**how)


def test_it_can_be_printed_and_saved(tmp_path: Any) -> None:
    found = fitted()
    assert "8 prompts and 16 pictures with parts left out" in str(found)
    found.save(tmp_path / "found.json")
    stored = json.loads((tmp_path / "found.json").read_text("utf-8"))
    assert stored["coalitions"] == [8, 16]
    assert stored["variant"] == "banzhaf"
    assert len(stored["first_order"][1]) == len(game().part_of)
    rows, columns = found.grids[1] or (0, 0)
    assert len(stored["pairs"]) == WORDS
    assert len(stored["pairs"][0]) == rows * columns


def test_measures_hold_interactions_against_the_model() -> None:
    """The fit predicts coalitions better than the pairs of Jacobians of a random model, and every order lies between its ends."""
    libra = explainers.interaction(clip_model(), picture(), PROMPT)
    ours, theirs = explainers.measure_interactions(clip_model(), picture(), PROMPT, [fitted(), libra], parts=PARTS)
    assert ours.r2 > theirs.r2
    assert ours.spearman > theirs.spearman
    assert ours.r2 == pytest.approx(fitted().faithfulness, abs=0.2)
    assert ours.insertion_deletion > theirs.insertion_deletion
    with pytest.raises(ExplainerError, match="another prompt or another picture"):
        explainers.measure_interactions(clip_model(), picture(), "movie", [libra], parts=PARTS)


def test_what_cannot_be_done_is_said() -> None:
    for options, match in (
        ({"variant": "owen"}, "choose one of banzhaf, shapley"),
        ({"p": 1.0}, "between 0 and 1"),
        ({"budget": 4}, "from 16 to 32768"),
        ({"parts": 0}, "at least 1"),
    ):
        with pytest.raises(ExplainerError, match=match):
            explainers.faithful_interaction(clip_model(), picture(), PROMPT, **options)  # type: ignore[arg-type]
    with pytest.raises(ExplainerError, match="choose a CLIP model"):
        explainers.faithful_interaction(image_model(), picture(), PROMPT)
    with pytest.raises(explainers.Cancelled):
        explainers.faithful_interaction(clip_model(), picture(), PROMPT, cancelled=lambda: True)
