"""Scenes with a mark: where it is, and what it says of the thing."""

from __future__ import annotations

import itertools

import numpy as np

from explainers.embedded.synthetic.marked_scenes import KINDS, MARK_SIDE, PATCH, SIDE, mark_pixels, marked_scene


def test_a_mark_fills_whole_patches_in_a_corner_and_is_that_of_its_kind() -> None:
    corners = set()
    for seed in range(12):
        scene = marked_scene(np.random.default_rng(seed), "other")
        assert scene.mark is not None
        assert scene.mark != scene.thing
        rows, columns = np.flatnonzero(scene.mark_mask.any(1)), np.flatnonzero(scene.mark_mask.any(0))
        assert len(rows) == len(columns) == MARK_SIDE == 2 * PATCH
        assert {rows[0], columns[0]} <= {0, SIDE - MARK_SIDE}
        corners.add((rows[0], columns[0]))
        pixels = np.asarray(scene.image)[scene.mark_mask].reshape(MARK_SIDE, MARK_SIDE, 3)
        assert (pixels == mark_pixels(scene.mark)).all()
        assert not (scene.thing_mask & scene.mark_mask).any()
        assert scene.thing_mask.any()
    assert len(corners) == 4


def test_a_mark_agrees_where_it_should_and_may_be_missing() -> None:
    same, without = (marked_scene(np.random.default_rng(3), says) for says in ("same", "nothing"))
    assert same.mark == same.thing
    assert without.mark is None
    assert not without.mark_mask.any()


def test_no_two_marks_are_alike() -> None:
    for first, second in itertools.combinations(range(len(KINDS)), 2):
        assert (mark_pixels(first) != mark_pixels(second)).any()
