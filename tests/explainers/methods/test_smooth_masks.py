"""RISE on the grid of its paper."""

from __future__ import annotations

import torch
from scipy.ndimage import zoom

from explainers.methods.smooth_masks import smooth_masks
from tests.explainers.support.pair import TARGET
from tests.explainers.support.wrapped import inputs, scores, wrapped


def test_smooth_masks_are_a_zoom_that_is_cut() -> None:
    """With scipy: the cells are stretched by linear interpolation, and the cut begins where the shift says."""
    coarse = (torch.rand(3, 5, 5, generator=torch.Generator().manual_seed(0)) < 0.5).double()
    shifts = torch.tensor([[0, 0], [3, 5], [4, 2]])
    found = smooth_masks(coarse, shifts, (24, 30))
    for mask, grid, (y, x) in zip(found, coarse.numpy(), shifts.tolist(), strict=True):
        large = zoom(grid, (6 * 5 / 5, 6 * 6 / 5), order=1, mode="nearest", grid_mode=True)
        torch.testing.assert_close(mask, torch.tensor(large[y : y + 24, x : x + 30]), rtol=0, atol=1e-12)


def test_rise_on_the_papers_grid_is_the_mean_of_masks_weighted_by_answers() -> None:
    model, tensors = wrapped("vit"), inputs("vit", 1)
    pixels, samples, keep, cells = tensors["pixel_values"], 40, 0.4, 4
    height, width = pixels.shape[-2:]
    (ours,) = scores("vit", f"rise?samples={samples}&keep={keep}&cells={cells}&at=pixels")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        masks = []
        for count in (32, 8):
            coarse = (torch.rand(count, cells, cells) < keep).float()
            shifts = torch.stack([torch.randint(0, -(-side // cells), (count,)) for side in (height, width)], 1)
            masks.append(smooth_masks(coarse, shifts, (height, width)))
    every = torch.cat(masks).to(pixels)
    with torch.no_grad():
        answers = model.forward({"pixel_values": pixels * every[:, None]})[:, TARGET]
    at_pixels = ((answers - answers.mean())[:, None, None] * every).mean(0) / keep
    expected = at_pixels.view(4, height // 4, 3, width // 3).mean((1, 3)).flatten()
    torch.testing.assert_close(ours[1:], expected.double(), rtol=1e-4, atol=1e-6)
