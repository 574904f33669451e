"""Features moved within a batch are answered as the teacher would answer them; pasted parts are rectangles."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from recipes.data import pictures
from recipes.data.pictures import SIDE, Pictures
from recipes.networks.feature_shift import Mover, rectangles
from recipes.networks.trunk import FAST_DTYPE, STAGES, Teacher
from tests.recipes.support.made_up_data import photo


@pytest.fixture(scope="module")
def teacher(untrained: None, photo_data: Path) -> Teacher:
    """A teacher of random weights, with a fitted basis."""
    teacher, make = Teacher(STAGES), Pictures(photo_data, 2)
    teacher.fit_basis([make(np.random.default_rng([0, 1, number])) for number in range(2)])
    return teacher


def test_moved_features_are_answered_as_the_teacher_would(teacher: Teacher, photo_data: Path) -> None:
    torch.manual_seed(0)
    seen = teacher.see(torch.from_numpy(np.stack([pictures.crop_centre(photo(seed), SIDE) for seed in range(4)])))
    found = Mover(teacher, [seen])(seen, np.random.default_rng(0), 2)
    moved = (found.tokens != seen.tokens).any(2).any(1)
    assert moved.tolist()[2:] == [False, False]  # of the first two alone
    assert int(moved.sum()) == 1
    row = int(moved.nonzero())

    def answer(tokens: torch.Tensor) -> torch.Tensor:
        last = teacher.head(tokens.to(FAST_DTYPE).T.reshape(1, 320, 14, 14)).float().mean((2, 3))
        return last @ teacher.classifier.weight.T

    with torch.inference_mode():
        change = (answer(found.tokens[row]) - answer(seen.tokens[row]))[0]
    ours = (found.logits - seen.logits)[row].float()
    assert F.cosine_similarity(ours, change, dim=0) > 0.95
    assert found.logits[row].isfinite().all()


def test_rectangles_are_rectangles() -> None:
    found = rectangles(np.random.default_rng(0), 50, 14).view(50, 14, 14)
    for one in found:
        rows, columns = one.any(1), one.any(0)
        assert float(one.sum()) == int(rows.sum()) * int(columns.sum())
        assert min(int(rows.sum()), int(columns.sum())) >= 5
