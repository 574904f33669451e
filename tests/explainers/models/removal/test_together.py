"""Patches that are taken from many pictures in one pass, against one picture at a time."""

from __future__ import annotations

import pytest
import torch

from explainers.models.removal.patches import patch_removal
from explainers.models.removal.together import answers_without_patches
from explainers.models.removal.ways import How
from tests.explainers.support.wrapped import inputs, wrapped


@pytest.mark.parametrize("how", ["removed", "zeroed", "painted"])
@pytest.mark.parametrize("family", ["vit", "hf-clip"])
def test_each_picture_loses_its_own_patches(family: str, how: How) -> None:
    model, tensors = wrapped(family), inputs(family, batch=3)
    grid = model.layout_of(tensors).grid
    assert grid is not None
    order = torch.stack([torch.randperm(grid[0] * grid[1], generator=torch.Generator().manual_seed(seed)) for seed in range(3)])
    keep = order > 2
    together = answers_without_patches(model, tensors, keep, grid, how)
    for i in range(3):
        alone = {name: tensor[i : i + 1] if model.is_sample(name) else tensor for name, tensor in tensors.items()}
        expected = patch_removal(model, alone, grid, how).logits(keep[i : i + 1])[0]
        torch.testing.assert_close(together[i], expected, rtol=1e-4, atol=1e-5)
