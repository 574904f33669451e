"""What is judged by the scripts that plant marks: where a mark lies, whether a slice names it, and when a check has noticed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

import explainers
from benchmarks.planted_sets import PLANS, SIDE, Mark, Plan, PlantedSet, Row, draw_mark, place_of
from benchmarks.planted_slices import Verdict, names_mark, share_of, table
from benchmarks.planted_step import SQUARE_PATCHES, is_fallen, with_square
from benchmarks.planted_step import table as step_table
from explainers.collection.intervals import Share

LOGO = PlantedSet(Plan(0, "new", "logo", True), 0, ["a", "b"], "b", 0.8, False, [6, 7, 14, 15], [], 0.9, 1.0)
WORD = PlantedSet(Plan(1, "sentences", "phrase", True), 0, ["a", "b"], "b", 0.8, False, [], ["rented", "last", "weekend"], 0.9, 1.0)


def slice_of(answer: str | None, patches: list[int], word: str | None = None) -> explainers.Slice:
    """Return a slice with this answer and place or word; nothing else of it is judged."""
    nothing = Share(1, 2, 0.5, 0.0, 1.0)
    return explainers.Slice(
        sentence="",
        kind="wrong",
        answer=answer,
        word=word,
        place=None,
        patches=patches,
        threshold=None,
        rows=[],
        of=0,
        share=nothing,
        others=nothing,
        p=0.01,
        examples=[],
        test=None,
        copy_test=None,
    )


@pytest.mark.parametrize("kind", ["watermark", "border", "logo", "line", "cast"])
def test_a_mark_changes_only_pixels_of_its_place(kind: str) -> None:
    rng = np.random.default_rng(3)
    mark = draw_mark(kind, rng)  # type: ignore[arg-type]
    before = Image.new("RGB", (SIDE, SIDE), (90, 140, 60))
    changed = (np.asarray(mark.put(before, rng)) != np.asarray(before)).any(-1)
    place = np.zeros(64, bool)
    place[place_of(mark, kind, 8)] = True  # type: ignore[arg-type]
    patches = changed.reshape(8, SIDE // 8, 8, SIDE // 8).mean((1, 3))
    assert patches[~place.reshape(8, 8)].max(initial=0) < 0.1
    if kind != "watermark":  # its place has the gaps between letters too
        assert patches[place.reshape(8, 8)].min() >= 0.1


def test_words_are_put_where_they_belong() -> None:
    rng = np.random.default_rng(0)
    assert Mark(words="seen on a plane", where="start").put("a fine film", rng) == "seen on a plane a fine film"
    assert Mark(words="seen on a plane", where="end").put("a fine film", rng) == "a fine film seen on a plane"
    somewhere = Mark(words="piano").put("a fine film", rng).split()
    assert sorted(somewhere) == ["a", "film", "fine", "piano"]


def test_a_slice_names_the_mark_of_a_picture_by_half_of_its_patches_and_the_answer() -> None:
    assert names_mark(slice_of("b", [7, 15, 0, 1]), LOGO)
    assert names_mark(slice_of(None, [7]), LOGO)
    assert not names_mark(slice_of("a", [7]), LOGO)
    assert not names_mark(slice_of("b", [7, 0, 1]), LOGO)
    assert not names_mark(slice_of("b", []), LOGO)


def test_a_cast_is_named_by_half_of_all_patches() -> None:
    cast = replace(LOGO, plan=replace(LOGO.plan, kind="cast"))
    assert names_mark(slice_of("b", list(range(32))), cast)
    assert not names_mark(slice_of("b", list(range(31))), cast)


def test_a_slice_names_the_mark_of_a_text_by_a_word_that_was_put_in() -> None:
    assert names_mark(slice_of("b", [], "Rented"), WORD)
    assert not names_mark(slice_of("b", [], "great"), WORD)
    assert not names_mark(slice_of("a", [], "rented"), WORD)


def test_intervals_are_exact_and_other_slices_are_counted_apart() -> None:
    found = Verdict(0, "new", "logo", True, 1.0, ["x", "y"], [True, False], [False, False], 0, 1.0)
    missed = replace(found, slices=[], names_mark=[], is_told=[], uptake=0.1, number=1)
    clean = replace(found, is_planted=False, kind="none", uptake=None, slices=[], names_mark=[], is_told=[], number=2)
    assert share_of([clean] * 20, lambda one: bool(one.slices)) == f"0 of 20 (0 to {100 * (1 - 0.025 ** (1 / 20)):.0f} %)"
    lines = table([found, missed, clean]).splitlines()
    half = "1 of 2 (1 to 99 %)"  # 1 - sqrt(0.975) and sqrt(0.975)
    assert f"| pictures: logo | {half} | {half} | {half} |" in lines
    assert lines[-1] == "Not learned: [1]."


def test_every_plan_has_its_own_number() -> None:
    assert [plan.number for plan in PLANS] == list(range(len(PLANS)))
    assert sum(plan.is_planted for plan in PLANS) >= 20
    assert sum(not plan.is_planted for plan in PLANS) >= 20


def test_the_square_covers_its_patches_and_no_others() -> None:
    before = Row(Image.new("RGB", (SIDE, SIDE)), 0)
    changed = np.asarray(with_square(before, 0)).any(-1).reshape(8, 16, 8, 16).any((1, 3))
    assert set(np.flatnonzero(changed.ravel())) == SQUARE_PATCHES


def test_accuracy_has_fallen_by_the_exact_test_of_mcnemar() -> None:
    assert is_fallen([True] * 5 + [False], [False] * 5 + [False])  # 1 in 32 by chance
    assert not is_fallen([True] * 4, [False] * 4)  # 1 in 16
    assert not is_fallen([False] * 9, [True] * 9)
    assert not is_fallen([True], [True])


def test_a_check_has_noticed_at_the_step_from_which_it_keeps_noticing() -> None:
    checks = ["patches", "reference", "mirror", "accuracy", "accuracy, random colours"]
    planted = [
        {"seed": 1, "run": "planted", "step": step, **dict.fromkeys(checks, step in (220, 300, 320))} for step in (220, 230, 300, 320)
    ]
    control = [{"seed": 1, "run": "control", "step": step, **dict.fromkeys(checks, step == 230)} for step in (220, 230)]
    assert "| patches | 300 | 1 of 2 |" in step_table([*planted, *control])
    assert "| mirror | never | 0 of 0 |" in step_table([{**one, "mirror": False} for one in planted])
