"""The rectangle of a picture that each of its tokens in a text covers: tiles of tokens, and one map joined from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from explainers.json_records import Record, describe

#: The sides x0, y0, x1, y1 of a rectangle, in shares of the width and the height of a picture; it may reach beyond the picture.
Box = tuple[float, float, float, float]
WHOLE: Box = (0.0, 0.0, 1.0, 1.0)


@dataclass(frozen=True)
class PictureTile(Record):
    """Tokens that cover a part of a picture as a grid, row by row: the first of them, the step from row to row, rows and columns, and the
    part of the picture.
    """

    first: Annotated[int, describe("The first of its tokens.")]
    step: Annotated[int, describe("The number of tokens from the beginning of a row to that of the next.")]
    rows: int
    columns: int
    box: Annotated[Box, describe("x0, y0, x1, y1 in shares of the part that the model saw; it may reach beyond it.")]

    @property
    def tokens(self) -> Tensor:
        """The indices of the tokens among those of the text, (rows, columns)."""
        return self.first + self.step * torch.arange(self.rows)[:, None] + torch.arange(self.columns)

    def moved(self, shift: int) -> PictureTile:
        """Return this tile with its tokens ``shift`` later in the text."""
        return PictureTile(self.first + shift, self.step, self.rows, self.columns, self.box)

    def centres(self) -> Tensor:
        """Return the centre of the rectangle of each token, x and y in shares of the picture: (rows, columns, 2)."""
        x0, y0, x1, y1 = self.box
        across = x0 + (x1 - x0) * (torch.arange(self.columns) + 0.5) / self.columns
        down = y0 + (y1 - y0) * (torch.arange(self.rows) + 0.5) / self.rows
        return torch.stack([across.expand(self.rows, -1), down[:, None].expand(-1, self.columns)], -1)


def finest_grid(tiles: Sequence[PictureTile]) -> tuple[int, int]:
    """Return (rows, columns) of a grid over the whole picture whose cells are as small as the smallest rectangles of ``tiles``."""
    rows = max(tile.rows / (tile.box[3] - tile.box[1]) for tile in tiles)
    columns = max(tile.columns / (tile.box[2] - tile.box[0]) for tile in tiles)
    return max(1, round(rows)), max(1, round(columns))


def join_tiles(scores: Tensor, tiles: Sequence[PictureTile], grid: tuple[int, int]) -> Tensor:
    """Return one map (rows, columns) on the ``grid`` over a picture from the ``scores`` (S,) of all tokens of a text, among them those of
    ``tiles``.

    The score of each token is spread evenly over the part of its rectangle that lies in the picture, so that their sum does not change;
    where rectangles of several tiles overlap, as those of a small copy of the whole picture do, their scores add up.
    """
    total = scores.new_zeros(grid)
    for tile in tiles:
        x0, y0, x1, y1 = tile.box
        down, across = (_shares(*side).to(scores) for side in ((y0, y1, tile.rows, grid[0]), (x0, x1, tile.columns, grid[1])))
        total = total + down.T @ scores[tile.tokens.to(scores.device)] @ across
    return total


def _shares(start: float, stop: float, cells: int, fine: int) -> Tensor:
    """Return (cells, fine): the share of each of ``cells`` equal pieces of the interval from ``start`` to ``stop`` that lies in each of
    ``fine`` equal pieces of the interval from 0 to 1. Rows sum to 1; a piece that lies outside belongs to the nearest piece.
    """
    ends = start + (stop - start) * torch.arange(cells + 1, dtype=torch.float64) / cells
    others = torch.arange(fine + 1, dtype=torch.float64) / fine
    shares = (torch.minimum(ends[1:, None], others[1:]) - torch.maximum(ends[:-1, None], others[:-1])).clamp(min=0)
    outside = shares.sum(1) < 1e-9
    nearest = (((ends[:-1] + ends[1:]) / 2 * fine).long().clamp(0, fine - 1))[outside]
    shares[outside, nearest] = 1
    return shares / shares.sum(1, keepdim=True)
