"""Orders that know nothing of the model."""

from __future__ import annotations

from typing import Any

import torch

from explainers.analysis.claims.rivals import rival_of
from tests.explainers.support.explained import image_model, text_model
from tests.support.molecule_models import NITROBENZENE, tiny_model


def test_the_patch_with_the_edge_comes_first() -> None:
    pixels = torch.zeros(1, 3, 8, 8)
    pixels[:, :, 4:8, 6:8] = 1  # a line through the middle of the patch at the bottom right
    found = rival_of({"pixel_values": pixels}, image_shown(), (2, 2), [(i,) for i in range(4)])
    assert found is not None
    assert found.order[0] == 3
    assert found.words == "patches with the strongest edges"


def test_the_longest_word_comes_first() -> None:
    shown: Any = text_model().prepare("not a good movie .").inputs[0]
    found = rival_of({}, shown, None, [(0,), (1,), (2,), (3,), (4,)])
    assert found is not None
    assert found.order == (3, 2, 0, 1, 4)  # movie, good, not, a, the full stop


def test_a_molecule_has_none() -> None:
    shown: Any = tiny_model().prepare(NITROBENZENE).inputs[0]
    assert rival_of({}, shown, None, []) is None


def image_shown() -> Any:
    from PIL import Image

    return image_model().prepare(Image.new("RGB", (40, 30))).inputs[0]
