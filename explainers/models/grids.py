"""Patches of several sizes: what the larger ones of an image were given, on the grid of the smallest; and patches joined to parts."""

from __future__ import annotations

import math
from functools import cache

import torch
from torch import Tensor

from explainers.models.layout import Layout

Grid = tuple[int, int]


@cache
def shares(coarse: Grid, fine: Grid) -> Tensor:
    """Return (coarse patches, fine patches): the part of each coarse patch's area that lies in each fine patch, for two grids over the same
    image. Rows sum to 1.
    """
    down, across = (_overlaps(many, few) for many, few in zip(coarse, fine, strict=True))
    return torch.kron(down, across)


def _overlaps(coarse: int, fine: int) -> Tensor:
    """Return (coarse, fine): the part of each of ``coarse`` equal pieces of a side that lies in each of ``fine`` equal pieces."""
    ends, others = (torch.arange(count + 1, dtype=torch.float64) / count for count in (coarse, fine))
    low = torch.maximum(ends[:-1, None], others[None, :-1])
    high = torch.minimum(ends[1:, None], others[None, 1:])
    return (high - low).clamp(min=0) * coarse


def on_grid(values: Tensor, layout: Layout) -> Tensor:
    """Distribute the ``values`` (B, S) of larger patches over the patches of the grid in ``layout``, in proportion to the shared area, and
    return all values (B, S), those of the larger patches 0. The sum does not change.
    """
    if not layout.coarser or layout.grid is None:
        return values
    first = layout.prefix
    end = after = first + layout.grid[0] * layout.grid[1]
    fine = values[:, first:end].double()
    for coarse in layout.coarser:
        count = coarse[0] * coarse[1]
        fine = fine + values[:, after : after + count].double() @ shares(coarse, layout.grid).to(values.device)
        after += count
    return torch.cat([values[:, :first], fine.to(values.dtype), torch.zeros_like(values[:, end:])], 1)


def halve_grid(grid: tuple[int, int], most: int) -> Tensor:
    """Divide a ``grid`` of patches (rows, columns) into at most ``most`` segments, and return the segment of each patch, (rows * columns,):
    the longer side is halved until there are no more.
    """
    sides = list(grid)
    while math.prod(sides) > most and max(sides) > 1:
        longer = 0 if sides[0] >= sides[1] else 1
        sides[longer] = -(-sides[longer] // 2)
    rows, columns = (torch.arange(side) * cells // side for side, cells in zip(grid, sides, strict=True))
    return (rows[:, None] * sides[1] + columns).flatten()
