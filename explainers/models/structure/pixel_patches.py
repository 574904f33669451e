"""The patches of a picture as tokens whose numbers are its pixels, for models in which no row of blocks sees the whole picture.

Detectors read several maps of one picture, each of another size, and some read them at points that they choose: no row of tokens inside
them accounts for the answer. :class:`PixelPatches` is a block of its own in front of such a model. It takes and gives the picture cut into
patches, (B, S, D), D being the pixels of a patch times their channels, and changes nothing; the picture is put together again after it.
What is read and replaced at this block is read and replaced in the picture itself, so a score lies exactly on the pixels that it is of.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from explainers.models.structure.block_kinds import BlockCall, OneStream, add_block_kind

#: The number of patches along the shorter side of a picture, and the least side of a patch in pixels.
PATCHES_ALONG, LEAST_SIDE = 20, 16


@add_block_kind
@dataclass(frozen=True)
class PatchesOfPixels(OneStream):
    """The kind of the one block :class:`PixelPatches`, whose tokens are patches of the picture before the model's first layer."""

    name: ClassVar[str] = "pixel_patches"
    no_attention: ClassVar[str | None] = (
        "its tokens are patches of pixels in front of the whole model, which reads maps of several sizes, or reads them at points that it "
        "chooses (deformable attention), so that there is no map of attention from patch to patch"
    )
    no_residual: ClassVar[str | None] = (
        "The tokens of {name} are patches of pixels in front of the whole model: no attention is added to them before its first layer."
    )
    no_positions: ClassVar[str | None] = "The tokens of {name} are patches of pixels, to which no position embedding is added."
    no_removal: ClassVar[str | None] = "{name} reads whole pictures, of which no patch can be left out"
    falls_short: ClassVar[tuple[str, str] | None] = (
        "detectors that read maps of several sizes, or sample points (RT-DETR, D-FINE, Deformable DETR, Grounding DINO, and those of any "
        "library with `boxes=`)",
        "Tokens are patches of pixels in front of the whole model, all of whose layers the rules go through. Whatever reads attention is "
        "refused, and what reads tokens between blocks reads the pixels: deformable attention reads a few points between the places of a "
        "map and has no map over tokens. The weights of these reads are constants under the rules, as those of attention are.",
    )

    @property
    def no_forward_decomposition(self) -> str | None:
        """The reason why single tokens cannot be propagated forward."""
        return "{name} picks places by what it sees in a picture, so that a single patch sent through it would pick others"

    @classmethod
    def find(cls, call: BlockCall) -> PatchesOfPixels | None:
        """Return this kind if a :class:`PixelPatches` was called, else None."""
        return cls() if isinstance(call.block, PixelPatches) else None


def grid_of(height: int, width: int) -> tuple[int, int]:
    """Return the grid (rows, columns) of patches of a picture of this ``height`` and ``width`` in pixels: nearly square patches, 20 along
    the shorter side, unless they would be smaller than 16 pixels.
    """
    side = max(LEAST_SIDE, min(height, width) / PATCHES_ALONG)
    return max(1, round(height / side)), max(1, round(width / side))


@dataclass(frozen=True)
class _Places:
    """Where the pixels of a picture stand in its row of tokens, (S, C, rows, columns) flattened, and the other way round.

    shape     the number of tokens and of the numbers in each
    of_tokens for each number of the tokens the index of its pixel in the flattened picture (C, height, width), or one past the last pixel
              where a patch has a row or a column of pixels less than the largest
    of_pixels for each pixel the index of its number among those of the tokens
    """

    shape: tuple[int, int]
    of_tokens: Tensor
    of_pixels: Tensor


@lru_cache(maxsize=8)
def _places(channels: int, height: int, width: int, device: torch.device) -> _Places:
    rows, columns = grid_of(height, width)
    (row, down), (column, across) = _cells(height, rows), _cells(width, columns)
    tall, wide = int(down.max()) + 1, int(across.max()) + 1
    token = row[:, None] * columns + column
    place = torch.arange(channels)[:, None, None] * tall * wide + down[:, None] * wide + across
    of_pixels = (token * channels * tall * wide + place).flatten()
    of_tokens = torch.full((rows * columns * channels * tall * wide,), channels * height * width)
    of_tokens[of_pixels] = torch.arange(len(of_pixels))
    return _Places((rows * columns, channels * tall * wide), of_tokens.to(device), of_pixels.to(device))


def _cells(length: int, count: int) -> tuple[Tensor, Tensor]:
    """Return for each pixel along a side of this ``length``, cut into ``count`` cells, the index of its cell and its place inside it. Cells
    lie as ``F.interpolate`` lays the nearest of ``count`` numbers over the side.
    """
    cell = torch.arange(length) * count // length
    first = torch.tensor([-(-index * length // count) for index in range(count)])
    return cell, torch.arange(length) - first[cell]


class PixelPatches(nn.Module):
    """A block that takes and gives the patches of a picture (B, S, D) unchanged; :meth:`show` passes pictures through it."""

    def forward(self, tokens: Tensor) -> Tensor:
        """Return ``tokens``."""
        return tokens

    def show(self, pixels: Tensor) -> Tensor:
        """Return ``pixels`` (B, C, height, width), cut into patches, passed through this block and put together again."""
        places = _places(*pixels.shape[1:], pixels.device)
        tokens = F.pad(pixels.flatten(1), (0, 1)).index_select(1, places.of_tokens).unflatten(1, places.shape)
        shown: Tensor = self(tokens)
        return shown.flatten(1).index_select(1, places.of_pixels).reshape(-1, *pixels.shape[1:])

    def in_front_of(self, forward: Callable[[Mapping[str, Tensor]], Any]) -> Callable[[Mapping[str, Tensor]], Any]:
        """Return ``forward``, a function of a dict of tensors, with ``pixel_values`` passed through this block first."""
        return lambda tensors: forward({**tensors, "pixel_values": self.show(tensors["pixel_values"])})
