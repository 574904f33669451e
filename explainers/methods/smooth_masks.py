"""RISE on the grid of its paper: masks as smooth as pixels, and the map that they give (Petsiuk et al., BMVC 2018, arXiv 1806.07421)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from explainers.methods.seed_correlations import group_of
from explainers.records.trace import Trace

MASKS_AT_ONCE = 32


def pixel_size(trace: Trace) -> tuple[int, int]:
    """Return height and width, in pixels, of the pictures that the model saw in the pass of a trace."""
    sizes: list[tuple[int, int]] = []

    def look(name: str, tensor: Tensor) -> Tensor:
        if name == "pixel_values":
            sizes.append((tensor.shape[-2], tensor.shape[-1]))
        return tensor

    trace.answer(0, 1, look)
    return sizes[0]


def smooth_masks(coarse: Tensor, shifts: Tensor, size: tuple[int, int]) -> Tensor:
    """Return masks (K, height, width): ``coarse`` (K, cells, cells) stretched bilinearly over cells + 1 cells of pixels, and cut to
    ``size`` from the corner at ``shifts`` (K, 2).
    """
    cells = coarse.shape[-1]
    large = [(cells + 1) * -(-side // cells) for side in size]
    fine = F.interpolate(coarse[:, None], size=large, mode="bilinear", align_corners=False)[:, 0]
    return torch.stack([mask[y : y + size[0], x : x + size[1]] for mask, (y, x) in zip(fine, shifts.tolist(), strict=True)])


def map_of_pixel_masks(
    f: Callable[[Tensor], Tensor], grid: tuple[int, int], size: tuple[int, int], samples: int, keep: float, cells: int
) -> list[Tensor]:
    """Return RISE's scores (rows, columns) of the patches on ``grid``, from ``samples`` smooth random masks of (height, width) ``size`` in
    pixels; then the scores computed without each group of samples.

    ``f`` returns the explained number for given masks; ``keep`` is the share that a mask shows, ``cells`` the side of its coarse grid.
    Masks are made a few at a time.
    """
    groups = group_of(samples)
    count = int(groups.max()) + 1
    weighted, kept, total = torch.zeros(count, *size), torch.zeros(count, *size), torch.zeros(count)
    for group in groups.split(MASKS_AT_ONCE):
        coarse = (torch.rand(len(group), cells, cells) < keep).float()
        shifts = torch.stack([torch.randint(0, -(-side // cells), (len(group),)) for side in size], 1)
        masks = smooth_masks(coarse, shifts, size)
        answers = f(masks.flatten(1)).float().cpu()
        weighted.index_add_(0, group, answers[:, None, None] * masks)
        kept.index_add_(0, group, masks)
        total.index_add_(0, group, answers)
    sizes = groups.bincount().float()

    def scores(is_chosen: Tensor) -> Tensor:
        number = sizes[is_chosen].sum()
        at_pixels = (weighted[is_chosen].sum(0) - total[is_chosen].sum() / number * kept[is_chosen].sum(0)) / number / keep
        return F.adaptive_avg_pool2d(at_pixels[None], grid)[0]

    each = torch.arange(count)
    return [scores(each >= 0), *(scores(each != group) for group in each)]
