"""Views are kept and drawn again as the teachers saw them."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import torch

from recipes.data import teacher_views
from recipes.data.pictures import SIDE, SMALL_SIDE
from recipes.data.teacher_views import CHANNELS, CLASSES, LOCAL_DIRECTIONS, Batches, Teachers, Views, ViewStore
from tests.recipes.support.made_up_data import photo
from tests.recipes.support.made_up_views import PLACES, made_up_views


def test_views_are_found_again_as_they_were_kept(tmp_path: Path) -> None:
    store = ViewStore(tmp_path, 5)
    large, small = made_up_views(2, SIDE), made_up_views(2, SMALL_SIDE, 1)
    store.add(large)
    store.add(small)
    store.add(made_up_views(2, SIDE, 2))
    again = ViewStore(tmp_path, 5)
    assert again.counts == {SIDE: 4, SMALL_SIDE: 2}
    drawn = again.draw(np.random.default_rng(0), SMALL_SIDE, 20)
    for part, kept in zip(drawn, small, strict=True):
        rows = {row.numpy().tobytes() for row in kept}
        assert {row.numpy().tobytes() for row in part} == rows


def test_a_full_store_keeps_what_it_has(tmp_path: Path) -> None:
    store = ViewStore(tmp_path, 3)
    for seed in range(3):
        store.add(made_up_views(2, SIDE, seed))
    assert store.counts[SIDE] == 3
    first = {row.numpy().tobytes() for seed in range(2) for row in made_up_views(2, SIDE, seed).logits}
    assert {row.numpy().tobytes() for row in store.draw(np.random.default_rng(0), SIDE, 30).logits} < first


def test_every_sixth_batch_is_new_and_the_others_are_drawn(tmp_path: Path) -> None:
    sides = itertools.cycle([SIDE, SMALL_SIDE])
    made = []

    def make(rng: np.random.Generator) -> Views:
        made.append(made_up_views(2, next(sides), len(made)))
        return made[-1]

    batches = Batches(ViewStore(tmp_path, 100), make, 0, 2, 6)
    for step in range(13):
        batches(step)
    assert len(made) == 4  # steps 0 and 1, until both sizes can be drawn, then 6 and 12
    known = {row.numpy().tobytes() for views in made for row in views.logits}
    assert all(row.numpy().tobytes() in known for row in batches(13).logits)


def test_two_teachers_answer_and_small_pictures_spread_alike(untrained: None) -> None:
    teachers = Teachers()
    for side, scale in ((SIDE, 1.0), (SMALL_SIDE, teacher_views.SMALL_LOGIT_SCALE)):
        images = torch.from_numpy(np.stack([np.asarray(photo(seed, side, side)) for seed in range(2)]))
        views = teachers.see(images)
        assert [tuple(part.shape) for part in views] == [(2, PLACES[side], CHANNELS), (2, PLACES[side], LOCAL_DIRECTIONS), (2, CLASSES)]
        first, second = teachers.lite0.see(images).logits.float(), teachers.answer(images)
        wanted = (first - first.mean(1, keepdim=True) + second - second.mean(1, keepdim=True)) / 2
        torch.testing.assert_close(views.logits.float(), scale * wanted, atol=2e-3, rtol=2e-3)
