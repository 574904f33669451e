"""What a training step asks of photos-vit: targets of pasted pictures, masked patches, one head for two matrices."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from recipes import photos_objective
from recipes.data.pictures import SIDE
from recipes.data.teacher_views import CHANNELS, CLASSES, LOCAL_DIRECTIONS, Teachers, Views
from recipes.networks.vits import create
from recipes.train_photos_vit import ARCHITECTURE
from tests.recipes.support.made_up_views import made_up_views

SHAPE = {"img_size": SIDE, "embed_dim": 16, "depth": 2, "num_heads": 2}


def test_pasted_pictures_are_wanted_what_an_averaging_teacher_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a teacher whose logits are the mean of its local answers, the logits of the pasted picture are the mean of its local answers."""
    torch.manual_seed(0)
    readout = torch.randn(CLASSES, LOCAL_DIRECTIONS) / LOCAL_DIRECTIONS**0.5
    local = torch.randn(3, 196, LOCAL_DIRECTIONS).half()
    views = Views(torch.randn(3, 196, CHANNELS).half(), local, (local.float().mean(1) @ readout.T).half())
    pasted = photos_objective.paste(views, np.random.default_rng(1), readout)
    torch.testing.assert_close(pasted.logits.float(), pasted.local.float().mean(1) @ readout.T, atol=5e-3, rtol=1e-2)
    for number in range(3):
        own, other = ((pasted.features[number] == views.features[row]).all(1) for row in (number, number - 1))
        assert (own ^ other).all()  # every patch is of one of the two, features and local answers alike
        assert other.any()
        assert ((pasted.local[number] == local[number - 1]).all(1) == other).all()


def test_patches_are_kept_once_each() -> None:
    counts = set()
    for seed in range(30):
        kept = photos_objective.choose_patches(np.random.default_rng(seed), 4, 196)
        if kept is not None:
            assert all(len(set(row)) == len(row) for row in kept.tolist())
        counts.add(None if kept is None else kept.shape[1])
    assert counts == {None, 59, 78, 98, 147}


def test_the_divergence_is_that_of_the_probabilities() -> None:
    logits, wanted = torch.randn(4, 9), torch.randn(4, 9)
    p, q = wanted.double().softmax(1), logits.double().softmax(1)
    assert float(photos_objective.divergence(logits, wanted)) == pytest.approx(float((p * (p / q).log()).sum(1).mean()), rel=1e-5)


def test_one_head_gives_what_the_features_and_the_classifier_give() -> None:
    torch.manual_seed(0)
    vit = create(ARCHITECTURE, ["a"] * 7, {**SHAPE, "depth": 1, "trunk_stages": 5})
    student = photos_objective.Student(vit.eval(), torch.randn(7, 5), torch.randn(7))
    tokens = torch.randn(3, SHAPE["embed_dim"])
    wanted = student.answer(tokens)
    vit.load_state_dict(student.vit_weights(student.state_dict()))
    torch.testing.assert_close(vit.head(tokens), wanted)


def test_masked_patches_hold_the_mean_of_all_features(untrained: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where every patch is masked, the answer does not depend on the picture."""
    monkeypatch.setattr(photos_objective, "MASK_SHARE", 1.0)
    monkeypatch.setattr(photos_objective, "MASKED", 1.1)
    monkeypatch.setattr(photos_objective, "PASTE_SHARE", 0.0)
    monkeypatch.setattr(photos_objective, "KEPT_SHARES", (1.0,))
    teachers = Teachers()
    vit = create(ARCHITECTURE, ["a"] * CLASSES, {**SHAPE, "trunk_stages": 5})
    student = photos_objective.Student(vit.eval(), teachers.lite0.readout, teachers.lite0.bias)
    objective = photos_objective.Objective(student, teachers, 5, torch.ones(CHANNELS), 0)
    first, second = (made_up_views(2, SIDE, seed) for seed in (0, 1))
    second = second._replace(local=first.local, logits=first.logits)
    with torch.no_grad():
        losses = [float(objective(views, 0)[0]) for views in (first, second)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)


def test_rectangles_are_rectangles() -> None:
    found = photos_objective.rectangles(np.random.default_rng(0), 50, 14).view(50, 14, 14)
    for one in found:
        rows, columns = one.any(1), one.any(0)
        assert float(one.sum()) == int(rows.sum()) * int(columns.sum())
        assert min(int(rows.sum()), int(columns.sum())) >= 5
