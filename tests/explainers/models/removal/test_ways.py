"""The ways in which tokens are taken away: one list, which the engine, runs and calls read."""

from __future__ import annotations

from typing import get_args

import pytest
import torch

from explainers.errors import ExplainerError
from explainers.models.removal.patches import black_picture, patch_removal
from explainers.models.removal.ways import OF_PATCHES, OF_WORDS, REMOVAL_WAYS, How, HowOfPages, check_how
from tests.explainers.support.explained import image_model, picture


def test_each_way_is_of_images_or_of_texts_and_has_words() -> None:
    assert set(REMOVAL_WAYS) == set(get_args(How)) == {*OF_PATCHES, *OF_WORDS}
    assert set(get_args(HowOfPages)) <= set(OF_PATCHES)
    assert all(way.words for way in REMOVAL_WAYS.values())


def test_a_way_of_nothing_is_answered_with_all() -> None:
    assert check_how("black", OF_PATCHES, "patches") == "black"
    with pytest.raises(ExplainerError, match="tokens are removed, zeroed, painted, black, masked or unknown"):
        check_how("blurred", tuple(REMOVAL_WAYS), "tokens")


@pytest.mark.parametrize("how", OF_PATCHES)
def test_patches_go_in_every_way_that_is_listed(how: How) -> None:
    """Black ones against pixels that are set by hand."""
    model = image_model()
    tensors = model.prepare(picture()).tensors
    grid = model.layout_of(tensors).grid
    assert grid is not None
    keep = torch.arange(grid[0] * grid[1]).reshape(1, -1) % 3 > 0
    removal = patch_removal(model, tensors, grid, how)
    assert removal.how == how
    logits = removal.logits(keep)
    with torch.no_grad():
        assert not torch.allclose(logits, model.forward(tensors).float())
        if how == "black":
            pixels = tensors["pixel_values"]
            is_kept = keep.view(grid).repeat_interleave(pixels.shape[-2] // grid[0], 0).repeat_interleave(pixels.shape[-1] // grid[1], 1)
            by_hand = pixels * is_kept + black_picture(model, tensors) * ~is_kept
            torch.testing.assert_close(logits, model.forward({"pixel_values": by_hand}).float())
