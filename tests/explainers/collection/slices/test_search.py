"""Slices that are planted in made-up maps and texts, and rows in which there are none."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import comb
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from explainers.collection.slices.records import SliceKind
from explainers.collection.slices.search import SearchedRows, at_least, corrected_again, find

GRID = (4, 4)
CORNER = 15  # the lower right patch


def pictures(seed: int, corner: np.ndarray[Any, Any], right: np.ndarray[Any, Any], answer: np.ndarray[Any, Any]) -> SearchedRows:
    """Rows whose maps are noise; those in ``corner`` have two thirds of their evidence at the lower right patch."""
    shares = np.random.default_rng(seed).dirichlet(np.ones(16), len(corner))
    shares[corner] /= 3
    shares[corner, CORNER] += 2 / 3
    suspect = shares[:, 5] < 1 / 16
    indices = np.arange(len(corner)) * 2  # rows may be left out
    return SearchedRows(
        index=indices, answer=answer, right=right, suspect=suspect, kind="right_off_object", grid=GRID, shares=shares, maps=shares
    )


def drawn(seed: int, count: int = 200) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Whether each row is right, and its answer, at random."""
    rng = np.random.default_rng([seed, 1])
    return rng.random(count) < 0.7, rng.choice(["ant", "bee", "cat"], count)


def test_a_corner_of_wrong_rows_is_found() -> None:
    right, answer = drawn(0)
    corner = ~right & (np.arange(200) % 2 == 0)
    found, tried = find(pictures(0, corner, right, answer))
    first = found[0]
    assert tried >= len(found)
    assert (first.kind, first.patches.tolist()) == ("wrong", [CORNER])
    assert first.rows.sum() == pytest.approx(corner.sum(), abs=1)
    unseen = first.unseen
    assert unseen.sum() == 100
    assert first.share.of == (~right & unseen).sum()
    assert first.share.count == (first.rows & unseen).sum()
    assert first.others.of == (right & unseen).sum()


def test_a_corner_of_one_answer_is_found_among_its_rows_off_the_object() -> None:
    right, answer = drawn(1)
    corner = (answer == "bee") & (np.arange(200) % 3 == 0)  # too few for a place that most rows share
    found, _ = find(pictures(1, corner, right, answer))
    assert {(each.kind, each.answer) for each in found} >= {("right_off_object", "bee")}
    assert all(each.answer == "bee" and each.patches.tolist() == [CORNER] for each in found)


def at_the_border(seed: int, corner: np.ndarray[Any, Any]) -> SearchedRows:
    """All rows right, none of them suspect, pictures without objects."""
    _, answer = drawn(seed)
    rows = pictures(seed, corner, np.ones(200, bool), answer)
    return replace(rows, kind="right_at_border", suspect=np.zeros(200, bool))


@pytest.mark.parametrize("kind", ["right_at_border", "right_off_object"])
@pytest.mark.parametrize(("one_in", "is_found"), [(0, True), (4, True), (1.5, False)])
def test_a_place_that_most_right_rows_of_an_answer_share_is_found_on_objects_and_away_from_the_border(
    one_in: float, is_found: bool, kind: SliceKind
) -> None:
    """All bees have their evidence there, or three in four, or one in three; none of it is off the object or at the border."""
    _, answer = drawn(1)
    index = np.arange(200)
    left_out = np.zeros(200, bool) if not one_in else index % 4 == 0 if one_in == 4 else index % 3 != 0
    corner = (answer == "bee") & ~left_out
    found, tried = find(replace(at_the_border(1, corner), kind=kind))
    assert [(each.kind, each.answer, each.patches.tolist()) for each in found] == ([("right", "bee", [CORNER])] if is_found else [])
    if is_found:
        (each,) = found
        assert tried == 1  # no other answer has a place that most of its rows share
        assert np.array_equal(each.rows, corner)
        assert each.others.of == (each.unseen & (answer != "bee")).sum()
        # by hand: a third of the way from what the others have there to all
        base = at_the_border(1, corner).shares[(answer != "bee") & ~each.unseen, CORNER].mean()
        assert each.threshold == pytest.approx(base + (1 - base) / 3)


def test_noise_shares_no_place() -> None:
    assert not any(find(at_the_border(seed, np.zeros(200, bool)), seed)[0] for seed in range(30))


def test_a_place_where_all_maps_lie_is_no_slice() -> None:
    right, answer = drawn(2)
    assert find(pictures(2, np.ones(200, bool), right, answer))[0] == []


def test_maps_of_noise_have_slices_no_more_often_than_the_level_says() -> None:
    seeds = range(60)
    alarms = sum(bool(find(pictures(seed, np.zeros(200, bool), *drawn(seed)), seed)[0]) for seed in seeds)
    assert alarms <= binom.ppf(0.999, len(seeds), 0.05)


def test_a_sharper_map_that_lies_anywhere_is_no_slice() -> None:
    right, answer = drawn(3)
    rows = pictures(3, np.zeros(200, bool), right, answer)
    where = np.random.default_rng(4).integers(0, 16, 200)
    rows.shares[~right] /= 3
    rows.shares[~right, where[~right]] += 2 / 3
    assert find(rows)[0] == []


def test_a_place_by_which_suspect_rows_were_chosen_is_no_slice() -> None:
    """Half of the rows lie in a corner, whatever their answer; it is why they are suspect, and no reason of one answer."""
    right, answer = drawn(7)
    corner = np.arange(200) % 2 == 0
    found, tried = find(replace(pictures(7, corner, right, answer), suspect=corner))
    assert (found, tried >= 3) == ([], True)


def test_a_place_where_all_wrong_rows_lie_is_no_slice_of_one_answer() -> None:
    right, answer = drawn(8)
    found, _ = find(pictures(8, ~right, right, answer))
    assert {(each.kind, each.answer) for each in found} == {("wrong", None)}


def test_a_kind_with_rows_in_the_searched_half_alone_is_not_tried() -> None:
    right, answer = np.ones(200, bool), np.array(["ant"] * 200)
    right[np.flatnonzero(~_unseen_half(200))[:6]] = False
    assert find(pictures(9, ~right, right, answer)) == ([], 0)


def _unseen_half(count: int) -> np.ndarray[Any, Any]:
    """Return the half of rows that :func:`find` does not search, which does not depend on what they hold."""
    right, answer = drawn(0, count)
    return find(pictures(0, ~right, right, answer))[0][0].unseen


def texts(words: list[frozenset[str]], right: np.ndarray[Any, Any], answer: np.ndarray[Any, Any]) -> SearchedRows:
    nothing = np.zeros((len(words), 0))
    return SearchedRows(
        index=np.arange(len(words)),
        answer=answer,
        right=right,
        suspect=np.ones(len(words), bool),
        kind="right",
        grid=None,
        shares=nothing,
        maps=nothing,
        words=words,
    )


def test_a_word_of_wrong_rows_is_found_with_the_p_of_a_table_of_four() -> None:
    right = np.arange(160) % 4 != 0
    words = [frozenset({"tuesday"} if not right[i] and i % 8 == 0 else {f"word{i % 5}"}) for i in range(160)]
    found, tried = find(texts(words, right, np.array(["good"] * 160)))
    (first,) = found
    assert (first.kind, first.word, first.rows.sum()) == ("wrong", "tuesday", 20)
    unseen = first.unseen
    of, kept = int((~right & unseen).sum()), int(sum("tuesday" in words[i] for i in np.flatnonzero(unseen)))
    total = int(unseen.sum())
    chance = comb(of, kept) / comb(total, kept)  # all that have the word are wrong
    assert first.p == pytest.approx(chance)
    assert first.corrected == pytest.approx(chance * tried)  # Holm: the smallest of all
    assert (first.share.count, first.share.of, first.others.count) == (kept, of, 0)


def test_words_that_lie_anywhere_are_no_slice() -> None:
    right, answer = drawn(5)
    words = [frozenset({f"word{i % 4}"}) for i in np.random.default_rng(6).permutation(200)]
    assert find(texts(words, right, answer))[0] == []


def test_slices_that_are_tested_further_are_corrected_for_all_that_were_tried() -> None:
    assert corrected_again([0.02, 0.001], 5) == pytest.approx([4 * 0.02, 5 * 0.001])
    assert corrected_again([], 5) == []


def test_the_chance_of_events_with_unequal_chances() -> None:
    chances = [0.1, 0.5, 0.7, 0.2]
    for least in range(5):
        expected = sum(
            np.prod([p if happens else 1 - p for p, happens in zip(chances, outcome, strict=True)])
            for outcome in product([True, False], repeat=4)
            if sum(outcome) >= least
        )
        assert at_least(least, np.array(chances)) == pytest.approx(expected)
