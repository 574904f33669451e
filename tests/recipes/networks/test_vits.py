"""Vision Transformers read features as they read pixels, and a small picture lies in a corner of the positions."""

from __future__ import annotations

# isort: split
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from recipes import train_photos_vit
from recipes.data import pictures
from recipes.data.pictures import SIDE, Pictures
from recipes.networks import trunk, vits
from recipes.networks.trunk import STAGES, Teacher, teacher_trunk
from tests.recipes.support.made_up_data import photo

SHAPE = {**train_photos_vit.SHAPE, "depth": 1, "trunk_stages": STAGES}


@pytest.fixture(scope="module")
def teacher(untrained: None, photo_data: Path) -> Teacher:
    """A teacher of random weights, with a fitted basis."""
    teacher, make = Teacher(STAGES), Pictures(photo_data, 2)
    teacher.fit_basis([make(np.random.default_rng([0, 1, number])) for number in range(2)])
    return teacher


def test_the_student_has_the_trunk_of_the_teacher(teacher: Teacher) -> None:
    vit = vits.create(train_photos_vit.ARCHITECTURE, ["a"] * 1000, SHAPE).eval()
    vit.patch_embed.backbone.load_state_dict(teacher_trunk(7))
    images = torch.from_numpy(np.stack([pictures.crop_centre(photo(seed), SIDE) for seed in range(2)]))
    with torch.inference_mode():
        found = vit.patch_embed.backbone(trunk.normalise(images)).flatten(2).transpose(1, 2)
        assert F.cosine_similarity(found, teacher.see(images).tokens.float(), -1).mean() > 0.98
        tokens = vit.patch_embed.backbone(trunk.normalise(images)).flatten(2).transpose(1, 2)
        kept = torch.tensor([[3, 7, 100], [0, 1, 2]])
        torch.testing.assert_close(vits.encode_features(vit, tokens, kept), vits.encode(vit, trunk.normalise(images), kept))
        torch.testing.assert_close(vits.encode_features(vit, tokens), vit.forward_features(trunk.normalise(images)))


def test_a_small_picture_lies_in_a_corner_of_the_positions() -> None:
    torch.manual_seed(0)
    vit = vits.create(train_photos_vit.ARCHITECTURE, ["a"], SHAPE).eval()
    tokens = torch.randn(1, 196, 320)
    places = (torch.arange(3, 11)[:, None] * 14 + torch.arange(5, 13)).flatten()
    with torch.inference_mode():
        torch.testing.assert_close(
            vits.encode_features(vit, tokens[:, places], None, (3, 5)), vits.encode_features(vit, tokens, places[None])
        )
