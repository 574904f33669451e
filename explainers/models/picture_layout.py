"""Where in the picture the tokens of a vision-language model come from: computed from what its processor gives, and verified by changing
the picture.

Nothing here knows a family. A processor may cut a picture into tiles, add a small copy of the whole, pad, or pack the patches: which part
of the picture each pixel value shows is read off a picture whose colours are its coordinates. How tokens follow from the pixel values is
one of three layouts, and the one is taken under which each token changes with its own rectangle alone.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from explainers.errors import ExplainerError
from explainers.models.eval_mode import evaluating
from explainers.models.inputs.picture_tiles import WHOLE, Box, PictureTile
from explainers.models.libraries.vision_language import PICTURE_TENSORS, VIDEO_PIXELS, VIDEO_TENSORS, pixels_name

#: How strong the noise is by which rectangles are told apart, in deviations of the pixel values: weak, as layers are not linear. Where they
#: are too far from it even so, as towers that normalise patches are on a plain ground, the second is tried, which rounding blurs more.
_NOISES = (0.002, 0.0002)
#: How far, in its own rows and columns, a token may seem to lie from its rectangle, and how much of its change may come from elsewhere.
_MAX_DISTANCE, _MAX_ELSEWHERE = 0.3, 0.5
#: The share of the tokens of a tile that may seem to lie elsewhere: those at the edge of padding, of which the picture fills a thin strip.
#: Under a wrong layout most do.
_MAX_MISPLACED = 0.05
#: How little, in shares of the largest, a token changes that is said not to change (squared).
_MIN_CHANGE = 1e-6
#: How many tokens of a layout must change at all when the picture does: those of padding do not.
_MIN_CHANGED = 0.5
#: How many tokens at most lie between an edge of the picture and that of the tokens that are left without padding.
_MAX_UNPADDED = 1.5
#: How much, in shares of the most, a pixel value must change from black to white to say which part of the picture it shows: at the edge of
#: padding, where little of the picture is mixed in, few steps of colour are left.
_MIN_CONTRAST = 0.25
#: How far from an edge of the picture, in shares of its side, that of a tile is taken to be the same: rounding and resizing move it.
_SAME_EDGE = 0.01


@dataclass(frozen=True)
class PixelPlaces:
    """The part of the picture that each pixel value shows: ``across`` and ``down`` in shares of its width and height, NaN where it shows
    none, as padding; in the shape of the pixel values without channels: (tiles, height, width), of packed patches (1, patches, 1).
    """

    across: Tensor
    down: Tensor

    @property
    def boxes(self) -> list[Box]:
        """The rectangle of the picture that each tile shows, as if its padding showed more of the picture."""
        sides = [(_ends(across.nanmean(0)), _ends(down.nanmean(1))) for across, down in zip(self.across, self.down, strict=True)]
        return [(x0, y0, x1, y1) for (x0, x1), (y0, y1) in sides]


def _ends(places: Tensor) -> tuple[float, float]:
    """Return the place of the first and the last edge of a row of pixels, from the places of their centres, some NaN, by a straight line
    through all but the outermost, at which resizing bends it.
    """
    known = (~places.isnan()).nonzero().flatten()
    inner = known[len(known) // 8 : len(known) - len(known) // 8] if len(known) > 8 else known
    if len(inner) < 2:
        return 0.0, 1.0
    index, values = inner.double() + 0.5, places[inner].double()
    slope = float(((index - index.mean()) * (values - values.mean())).sum() / (index - index.mean()).square().sum())
    start = float(values.mean()) - slope * float(index.mean())
    first, last = (next((edge for edge in (0.0, 1.0) if abs(end - edge) < _SAME_EDGE), end) for end in (start, start + slope * len(places)))
    return first, last


def pixel_places(prepare: Callable[[Image.Image], Tensor], size: tuple[int, int]) -> PixelPlaces:
    """Return the part of a picture of this ``size`` (width, height) that each pixel value shows, which ``prepare`` makes of a picture: a
    tensor (..., 3, height, width), or (patches, 3 * numbers) of packed patches.

    Three pictures are prepared: black, white, and one whose red grows from left to right and whose green grows from top to bottom. Raises
    ExplainerError if the three have other shapes than each other.
    """
    width, height = size
    coded = np.zeros((height, width, 3))
    coded[..., 0] = 255 * (np.arange(width) + 0.5) / width
    coded[..., 1] = 255 * ((np.arange(height) + 0.5) / height)[:, None]
    pictures = (np.zeros((height, width, 3)), np.full((height, width, 3), 255.0), coded)
    black, white, shown = (_channels_of(prepare(Image.fromarray(each.round().astype(np.uint8)))) for each in pictures)
    if not black.shape == white.shape == shown.shape:
        raise ExplainerError("the processor cuts a picture by its contents, so that which part of it a token shows is not known")
    contrast = (white - black).abs()
    share = (shown - black) / (white - black)  # NaN where nothing of the picture is shown
    share = share.where(contrast > _MIN_CONTRAST * contrast.max(), torch.nan)
    return PixelPlaces(share[:, 0], share[:, 1])


def _channels_of(pixels: Tensor) -> Tensor:
    """Return pixel values as (tiles, 3, height, width); packed patches as (1, 3, patches, 1), each the mean of its pixels."""
    pixels = pixels.double()
    if pixels.dim() == 2:
        packed: Tensor = pixels.unflatten(1, (3, -1)).mean(-1)
        return packed.T[None, :, :, None]
    return pixels.reshape(-1, *pixels.shape[-3:])


def possible_layouts(
    tensors: Mapping[str, Tensor], token: int, boxes: Sequence[Box], size: tuple[int, int], patch: int | None
) -> Iterator[tuple[PictureTile, ...]]:
    """Yield each layout of tiles that the picture's tokens in ``tensors``, the input of one prompt with one picture, may have.

    token  the id that stands for each token of a picture
    boxes  the part of the picture that each tile of pixels shows
    size   width and height of the picture
    patch  the side in pixels of the patches of the vision tower; None if unknown

    The layouts are: packed patches, merged to squares (``image_grid_thw``); a grid of each tile, one after the other; a grid of the first
    tile, which shows the whole picture, then one grid joined from all others without their padding, with a token at the end of each row.
    """
    places = (tensors["input_ids"][0] == token).nonzero().flatten().tolist()
    count, pixels = len(places), tensors["pixel_values"]
    if not count:
        return
    if (packed := tensors.get("image_grid_thw")) is not None:
        _, rows, columns = packed[0].tolist()
        merged = math.isqrt(rows * columns // count)
        if merged and count * merged**2 == rows * columns and (tile := _tile(places, 0, rows // merged, columns // merged, WHOLE)):
            yield (tile,)
        return
    height, width = pixels.shape[-2:]
    each = count // len(boxes)
    rows = math.isqrt(each * height // width)
    if count % len(boxes) == 0 and rows and each % rows == 0:
        tiles = [_tile(places, i * each, rows, each // rows, box) for i, box in enumerate(boxes)]
        if all(tiles):
            yield tuple(tile for tile in tiles if tile)
    if patch is None or "image_sizes" not in tensors:
        return
    rows, columns = height // patch, width // patch
    first, rest = _tile(places, 0, rows, columns, boxes[0]), count - rows * columns
    if first is None or rest < 1:
        return
    if rest == 1:
        yield (first,)
        return
    for down, across in _factors(rest, size):
        box = _unpadded(down, across, boxes[1:], rows, columns)
        if joined := _tile(places, rows * columns, down, across, box, across + 1):
            yield first, joined


def frame_layouts(
    tensors: Mapping[str, Tensor], token: int, shown: PixelPlaces, frames: int
) -> Iterator[tuple[PixelPlaces, tuple[PictureTile, ...]]]:
    """Yield each layout of tiles, one for each time that the model tells apart, that the tokens of a video of so many ``frames`` may have
    in ``tensors``; with ``shown``, the part of a frame that each pixel value shows, divided by these times.

    The layouts are: packed patches, merged to squares (``video_grid_thw``); a grid of each frame. In both the tokens of a time follow each
    other; between times there may be words.
    """
    places = (tensors["input_ids"][0] == token).nonzero().flatten().tolist()
    if (packed := tensors.get("video_grid_thw")) is not None:
        times, rows, columns = packed[0].tolist()
        merged = math.isqrt(times * rows * columns // max(1, len(places)))
        grids = [(rows // merged, columns // merged)] if merged else []
    else:
        times = frames
        height, width = tensors[pixels_name(tensors)].shape[-2:]
        each = len(places) // times
        rows = math.isqrt(each * height // width)
        grids = [(rows, each // rows)] if rows and each % rows == 0 else []
    split = PixelPlaces(*(each.reshape(times, -1, *each.shape[2:]) if packed is not None else each for each in (shown.across, shown.down)))
    for rows, columns in grids:
        boxes = split.boxes if packed is None else [WHOLE] * times
        tiles = [_tile(places, time * rows * columns, rows, columns, box) for time, box in enumerate(boxes)]
        if len(tiles) == times and all(tiles):
            yield split, tuple(tile for tile in tiles if tile)


def _tile(places: Sequence[int], start: int, rows: int, columns: int, box: Box, step: int | None = None) -> PictureTile | None:
    """Return the tile of ``rows`` by ``columns`` tokens that begins with number ``start`` of the picture's ``places`` in a text; None if
    these tokens do not follow each other, or are too few. ``step`` is the number of tokens from row to row; None: ``columns``.
    """
    step = columns if step is None else step
    last = start + step * (rows - 1) + columns - 1
    if not 0 <= start <= last < len(places) or places[last] - places[start] != last - start:
        return None
    return PictureTile(places[start], step, rows, columns, box)


def _factors(count: int, size: tuple[int, int]) -> list[tuple[int, int]]:
    """Return the (rows, columns) with rows * (columns + 1) = ``count`` whose proportions are nearest to those of a picture of this ``size``
    (width, height), at most two, the nearest first.
    """
    grids = [(rows, count // rows - 1) for rows in range(1, count // 2 + 1) if count % rows == 0]
    return sorted(grids, key=lambda grid: abs(math.log(grid[1] / grid[0] * size[1] / size[0])))[:2]


def _unpadded(down: int, across: int, boxes: Sequence[Box], rows: int, columns: int) -> Box:
    """Return the part of the picture that ``down`` by ``across`` tokens cover, which are left of tiles of ``rows`` by ``columns`` tokens
    that show ``boxes`` when the rows or columns of padding are taken away; the whole picture if tokens were made fewer.
    """
    sides = []
    for count, low, high, each in ((across, 0, 2, columns), (down, 1, 3, rows)):
        step = (boxes[0][high] - boxes[0][low]) / each
        full = round((max(box[high] for box in boxes) - min(box[low] for box in boxes)) / step)
        start = min(box[low] for box in boxes) + (full - count) / 2 * step
        sides.append((start, start + count * step) if abs(start) <= _MAX_UNPADDED * step else (0.0, 1.0))
    (x0, x1), (y0, y1) = sides
    return x0, y0, x1, y1


class _EachForItself(TorchFunctionMode):
    """A torch mode in which tokens that attend to each other attend to themselves alone, so that none reads of another's patch."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, kwargs = getattr(func, "__name__", ""), kwargs or {}
        if name == "scaled_dot_product_attention" and len(args) >= 3 and args[0].shape == args[1].shape == args[2].shape:
            return args[2]
        given = func(*args, **kwargs)
        if name == "softmax" and given.dim() >= 3 and given.shape[-1] == given.shape[-2]:
            return torch.eye(given.shape[-1], dtype=given.dtype, device=given.device).expand_as(given)
        return given


def picture_features(module: Any, tensors: Mapping[str, Tensor]) -> Tensor:
    """Return the embedded tokens (N, D) that ``module``, a vision-language model, makes of the picture, or of the video, in ``tensors``.

    Raises ExplainerError if its vision tower takes other tensors.
    """
    is_video = VIDEO_PIXELS in tensors
    embed = module.get_video_features if is_video else module.get_image_features
    takes = inspect.signature(embed).parameters
    names = VIDEO_TENSORS if is_video else ("pixel_values", *PICTURE_TENSORS)
    given = {name: tensors[name] for name in names if name in tensors and name in takes}
    try:
        with torch.no_grad(), evaluating(module):
            features = embed(**given)
    except (TypeError, ValueError, AttributeError, RuntimeError, IndexError) as problem:
        raise ExplainerError(f"{type(module).__name__} makes no tokens of what its processor gives ({problem})") from problem
    features = getattr(features, "pooler_output", features)
    parts = [features] if isinstance(features, Tensor) else list(features)
    return torch.cat([part.reshape(-1, part.shape[-1]) for part in parts])


def why_unverified(
    module: nn.Module, tensors: Mapping[str, Tensor], token: int, places: PixelPlaces, tiles: Sequence[PictureTile], in_time: bool = False
) -> str | None:
    """Return why it is not so that each token of ``tiles`` changes with its own rectangle of the picture alone, and other tokens of the
    picture with no part of it; None if it is so under noise of any of the strengths that are tried.

    ``tensors`` are the input of ``module`` for one prompt with one picture, for which the id ``token`` stands; ``places`` say which part
    of it each pixel value shows. With ``in_time`` each of the tiles is of other frames of a video, and tokens must change with those alone.
    Noise is added to the pixel values, first equally strong everywhere, then stronger towards the right and
    towards the bottom, constant in each rectangle: a token of one rectangle changes by a multiple that says which it is. Meanwhile tokens
    attend to themselves alone.
    """
    reasons = []
    for strength in _NOISES:
        if (reason := _why_unverified(module, tensors, token, places, tiles, strength, in_time)) is None:
            return None
        reasons.append(reason)
    return reasons[0]


def _why_unverified(
    module: nn.Module,
    tensors: Mapping[str, Tensor],
    token: int,
    places: PixelPlaces,
    tiles: Sequence[PictureTile],
    deviation: float,
    in_time: bool,
) -> str | None:
    """Return what :func:`why_unverified` does under noise of one ``deviation``, in deviations of the pixel values."""
    name = pixels_name(tensors)
    pixels, indices = tensors[name], (tensors["input_ids"][0] == token).nonzero().flatten().tolist()
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(pixels.shape, generator=generator).to(pixels) * deviation * (50 if pixels.dtype.itemsize < 4 else 1)
    with _EachForItself():
        before = picture_features(module, tensors)
        plain, *coded = (
            (picture_features(module, {**tensors, name: pixels + noise * strength}) - before).double().cpu()
            for strength in _strengths(places, tiles, pixels, in_time)
        )
    if len(before) != len(indices):
        return f"the prompt has {len(indices)} tokens for it, and the model makes {len(before)}"
    number, size = {index: i for i, index in enumerate(indices)}, plain.square().sum(-1)
    changes = (size > _MIN_CHANGE * size.max()) & (size > 0)
    covered = torch.zeros(len(indices), dtype=torch.bool)
    for place, tile in enumerate(tiles):
        numbers = torch.tensor([number[int(index)] for index in tile.tokens.flatten()])
        covered[numbers] = True
        known = numbers[changes[numbers]]
        if len(known) < _MIN_CHANGED * len(numbers):
            return f"{len(numbers) - len(known)} of {len(numbers)} tokens do not change when the picture does"
        cells = [torch.arange(tile.columns).repeat(tile.rows), torch.arange(tile.rows).repeat_interleave(tile.columns)]
        counts = [tile.columns, tile.rows]
        if in_time:
            cells, counts = [*cells, torch.full_like(cells[0], place)], [*counts, len(tiles)]
        for change, cell, count in zip(coded, cells, counts, strict=True):
            times = (change[known] * plain[known]).sum(-1) / size[known]
            elsewhere = ((change[known] - times[:, None] * plain[known]).square().sum(-1) / size[known]).sqrt() * count
            distance = ((times - 1) * count - 0.5 - cell[changes[numbers]]).abs()
            wrong = int(((distance > _MAX_DISTANCE) | (elsewhere > _MAX_ELSEWHERE)).sum())
            if wrong > _MAX_MISPLACED * len(numbers):
                return f"{wrong} of {len(numbers)} tokens change with other parts of it than their own"
    if bool(changes[~covered].any()):
        return f"{int(changes[~covered].sum())} tokens that would be between its parts change with it"
    return None


def _strengths(places: PixelPlaces, tiles: Sequence[PictureTile], pixels: Tensor, in_time: bool) -> list[Tensor]:
    """Return how strong the noise of each pixel value is: evenly, across, down and, with ``in_time``, from tile to tile. Its shape
    multiplies ``pixels``. It is 1 at the left or top edge of a tile to 2 at the other, constant in the rectangle of each token; 0 where
    nothing of the picture is shown.

    Where there are as many ``tiles`` as tiles of pixels each belongs to its own; else the first to the first, the last to all others.
    """
    is_shown = (~places.across.isnan()).double()
    strengths = [is_shown]
    for shown, low, high, axis in ((places.across, 0, 2, "columns"), (places.down, 1, 3, "rows")):
        coded = torch.ones_like(shown)
        for i in range(len(shown)):
            tile = tiles[i if len(tiles) == len(shown) else min(i, len(tiles) - 1)]
            count, (start, stop) = getattr(tile, axis), (tile.box[low], tile.box[high])
            cell = ((shown[i].nan_to_num(0) - start) / (stop - start) * count).floor().clamp(0, count - 1)
            coded[i] = 1 + (cell + 0.5) / count
        strengths.append(coded * is_shown)
    if in_time:
        numbers = torch.arange(len(is_shown), dtype=is_shown.dtype).reshape(-1, *[1] * (is_shown.dim() - 1))
        strengths.append((1 + (numbers + 0.5) / len(is_shown)) * is_shown)
    shape = (-1, 1) if pixels.dim() == 2 else (*pixels.shape[:-3], 1, *pixels.shape[-2:])
    return [strength.reshape(shape).to(pixels) for strength in strengths]
