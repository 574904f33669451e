"""The layout of a model's tokens: prefix, classification token, grid of patches; found once, then returned for every batch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache

import torch
from torch import Tensor, nn

from explainers.errors import ExplainerError
from explainers.models.layout import Footprint, Layout, OtherTokens
from explainers.models.libraries.recognition import clip_shape, vision_config
from explainers.models.outputs import Forward
from explainers.models.structure.blocks import Structure
from explainers.models.structure.dropped_tokens import are_in_place
from explainers.models.structure.footprints import footprint_of
from explainers.models.structure.head_reading import ReadTokens, read_tokens
from explainers.models.structure.patch_extents import covered_pixels
from explainers.models.structure.patch_places import are_channels, order_of
from explainers.models.structure.pixel_patches import PatchesOfPixels, grid_of
from explainers.models.structure.repeated_work import RecordedBlocks
from explainers.models.structure.watching import Bypass, bypass_of, covers_image, embed, sees_all_edges
from explainers.models.structure.word_places import WordPlaces

LayoutOf = Callable[[Mapping[str, Tensor]], Layout]


def text_layout(
    module: nn.Module,
    structure: Structure,
    run: Forward,
    tensors: Mapping[str, Tensor],
    prefix: int | None,
    words: WordPlaces,
) -> LayoutOf:
    """Return a function from a batch of texts to the layout of its tokens. ``structure`` holds the blocks of ``module``, ``run`` returns
    its logits. There is one prefix token if the head reads the first token, unless ``prefix`` names another number. ``tensors`` holds one
    text; how its ``words`` lie is noted in the layout.
    """
    read = read_tokens(module, structure, run, tensors, None)
    prefix = int(read.class_token == 0) if prefix is None else prefix
    others = _other_tokens(read, prefix)
    layout = Layout(prefix, read.class_token, None, other_tokens=others, has_own_words=words.has_own_words, own_word_share=words.own_share)
    return lambda tensors: layout


def image_layout(
    module: nn.Module,
    structure: Structure,
    run: Forward,
    tensors: Mapping[str, Tensor],
    prefix: int | None,
    answers: Tensor | None = None,
    dense: bool = False,
) -> LayoutOf:
    """Return a function from a batch of images to the layout of its tokens. ``structure`` holds the blocks of ``module``, ``run`` returns
    its logits. ``prefix`` tokens come first; None: the first tokens that do not change with the image.

    ``tensors`` holds two different images, and ``answers`` the results of ``run`` for them, if known. ``dense``: the head reads the
    patches, so that no class token is looked for.
    """
    bypassed = bypass_of(module, structure, run, tensors, answers)
    if bypassed.path is not None:
        raise ExplainerError(_BYPASSES[bypassed.path].format(blocks=_name_of(module, structure.blocks[0])))
    if structure.block_kind.patch_places or isinstance(structure.block_kind, PatchesOfPixels):
        return _known_layout(module, structure, run, tensors, prefix, bypassed.blocks)
    if prefix is None and structure.grid is not None:
        prefix = 0  # a map of tokens has no room for others
    after = 0
    if prefix is None:
        prefix, after = _unchanging(embed(module, structure, run, tensors) if bypassed.x is None else bypassed.x)
    if not 0 <= prefix < structure.tokens:
        raise ExplainerError(f"prefix={prefix} leaves no patches of the model's {structure.tokens} tokens; pass a smaller prefix=")
    tokens_read = ReadTokens(None) if dense else _read_tokens_of_images(module, structure, run, tensors, prefix, after, bypassed.blocks)
    read, others = tokens_read.class_token, _other_tokens(tokens_read, prefix)
    height, width = tensors["pixel_values"].shape[-2:]
    rows, columns = structure.grid or (0, 0)
    if min(rows, columns) > 1 and abs(rows - math.sqrt(rows * columns * height / width)) > 1.5:
        raise ExplainerError(
            f"the blocks take {rows} groups of {columns} tokens, and no map of the image ({height} x {width}): which patch a token is, is "
            "not known; pass blocks= (modules that take tokens in the order of the image)"
        )
    if not 1 / 3 < (height * columns) / (width * rows or 1) < 3:  # no map, or one of groups of tokens: no patch is so long
        try:
            advice = _SAME_BLOCKS if any(structure.left_out) else _OTHER_PREFIX
            rows, columns = _grid(module, structure.tokens - prefix - after, (height, width), prefix, after, advice)
        except ExplainerError:
            if clip_shape(module) is None and are_channels(module, structure, run, tensors):
                raise ExplainerError(_CHANNELS_FIRST) from None
            if structure.earlier:
                raise ExplainerError(_DROPPED_BEFORE) from None
            raise
    if clip_shape(module) is not None and not covers_image(
        module, structure, run, tensors["pixel_values"][:1], slice(prefix, structure.tokens - after), (rows, columns)
    ):
        raise ExplainerError("the tokens of this model do not lie in the order of its frames, so that no map of them can be drawn")
    covered, footprint = None, None
    if clip_shape(module) is None and not structure.block_kind.patch_places:
        covered, footprint = check_places(module, structure, run, tensors, slice(prefix, structure.tokens - after), (rows, columns))
    patch = (height / rows, width / columns)

    @cache
    def filled(tall: int, wide: int) -> tuple[int, int]:
        """Return the grid (rows, columns) of an image ``tall`` pixels high and ``wide`` pixels wide. Pixels beyond whole patches are either
        cut off or padded to one more patch, as the convolutional trunk does; for a model that reads patches, the number of its tokens tells
        which.
        """
        if (grid_of := getattr(module, "grid_of", None)) is not None:
            rows, columns = grid_of(tall, wide)
            return rows, columns
        down, across = tall / patch[0], wide / patch[1]
        if not dense or (down.is_integer() and across.is_integer()):
            return int(down), int(across)
        pixels = tensors["pixel_values"].new_zeros(1, tensors["pixel_values"].shape[1], tall, wide)
        tokens = embed(module, structure, run, {**tensors, "pixel_values": pixels}).shape[1] - prefix - after
        grids = [
            (int(down), int(across)),
            (math.ceil(down), math.ceil(across)),
            (int(down), math.ceil(across)),
            (math.ceil(down), int(across)),
        ]
        return next((grid for grid in grids if grid[0] * grid[1] == tokens), grids[0])

    def layout_of(batch: Mapping[str, Tensor]) -> Layout:
        tall, wide = batch["pixel_values"].shape[-2:]
        grid = (rows, columns) if (tall, wide) == (height, width) else filled(tall, wide)
        further = math.prod(grid) - rows * columns  # patches before a token that lies after them
        token = read if read is None or read < prefix else read + further
        seen = covered if (tall, wide) == (height, width) else None
        return Layout(prefix, token, grid, after=after, other_tokens=others, covered=seen, footprint=footprint)

    return layout_of


def _read_tokens_of_images(
    module: nn.Module,
    structure: Structure,
    run: Forward,
    tensors: Mapping[str, Tensor],
    prefix: int,
    after: int,
    blocks: RecordedBlocks | None,
) -> ReadTokens:
    """Return the tokens that the head of ``module`` reads for the first of several images, ``tensors``; see :func:`read_tokens`."""
    tried = tensors if blocks is not None else {name: tensor[:1] for name, tensor in tensors.items()}
    return read_tokens(module, structure, run, tried, prefix, after, blocks)


_BYPASSES: dict[Bypass, str] = {
    "around": "the model also sees the image on a way round the blocks that were found, {blocks} and those after it, or in another tensor "
    "that they take, as a class token apart from the patches, so that no map of their tokens accounts for its answer; pass blocks= "
    "(modules that all of it goes through, such as those of an encoder whose decoder was found), or, if there are none, wrap one of its "
    "parts alone",
    "streams": "the blocks that were found, {blocks} and those after it, take several tensors of tokens, as the two halves of a reversible "
    "network, and which part of the answer goes through the first alone is not known. Wrap a module whose blocks take and give one tensor "
    "with all of them (torch.cat along the width)",
    "again": "the model runs its blocks, {blocks} and those after it, more than once on the image, as where its answer is a mean over the "
    "image and its mirror, so that no map of the tokens of one run accounts for it: wrap the module that it runs, or a forward that runs "
    "it once",
}


def _name_of(module: nn.Module, part: nn.Module) -> str:
    """Return the dotted name of a ``part`` of a module, in quotes; "the first" if it has none."""
    return next((repr(name) for name, each in module.named_modules() if each is part), "the first")


def check_places(
    module: nn.Module, structure: Structure, run: Forward, tensors: Mapping[str, Tensor], place: slice, grid: tuple[int, int]
) -> tuple[tuple[int, int] | None, Footprint | None]:
    """Check that the patches at ``place`` of the embedded tokens lie row by row over the whole picture in a ``grid``, and return the height
    and width in pixels that they cover if it is less; None for all of it. Also return what they read of the picture if that is not mainly
    the squares at which they are drawn. Raises ExplainerError if they lie in another way.
    """
    if structure.earlier and not are_in_place(module, structure, run, tensors, place, grid):
        raise ExplainerError(_DROPPED_BEFORE)
    order, places = order_of(module, structure, run, tensors, place, grid)
    if order == "channels":
        raise ExplainerError(_CHANNELS_FIRST)
    if order == "out of order":
        raise ExplainerError(
            _ELSEWHERE
            if places.are_shifted(grid)
            else "the tokens of this model do not lie row by row in the order of the picture, so that a map would be drawn at other places "
            "than it is of: have its patches flattened row by row, or pass blocks= (modules whose tokens lie in the order of the image)"
        )
    if not sees_all_edges(module, structure, run, tensors, grid):
        raise ExplainerError(
            "the model does not see the edge of the picture, as where its forward cuts the picture, so that a map would be drawn over "
            "more than it is of: have preprocess= cut it instead"
        )
    if order == "in place":
        return None, None
    footprint = footprint_of(module, structure, run, tensors, place, grid, places.spread, places.few_layers)
    if footprint is not None or order != "near":
        return None, footprint
    covered = covered_pixels(module, structure, run, tensors, place, grid)
    if covered == "elsewhere":
        raise ExplainerError(_ELSEWHERE)
    return covered, None


_ELSEWHERE = (
    "the patches of this model do not lie where they are drawn, as where its forward shifts or crops the picture, so that a map would be "
    "drawn at other places than it is of: have preprocess= do that instead"
)
_DROPPED_BEFORE = (
    "tokens are dropped or merged before the blocks that are read, so that what is left does not lie row by row in the order of the "
    "picture: pass blocks= (a list of the modules that run before that, which take every patch), or let no token be dropped or merged"
)
_OTHER_PREFIX = (
    "pass prefix= (how many tokens stand before the first patch) or preprocess= (another image size). A token that the model makes of the "
    "whole picture, such as the mean of its patches, must stand before them and not after them"
)
_SAME_BLOCKS = (
    "others in the list of these blocks take another number of tokens, as where some are added or pooled for a part of the list alone: "
    "pass blocks= (those modules of the list that take as many tokens as the first)"
)
_CHANNELS_FIRST = (
    "the blocks take channels before tokens, (batch, width, tokens): each row of what they take is of the whole picture, and each column "
    "of one place. Give them (batch, tokens, width): transpose the last two axes once before the first block and once after the last; "
    "in a block whose layers need channels first, such as Conv1d, transpose inside, and in one that transposes already, no more"
)


def _known_layout(
    module: nn.Module,
    structure: Structure,
    run: Forward,
    tensors: Mapping[str, Tensor],
    prefix: int | None,
    blocks: RecordedBlocks | None,
) -> LayoutOf:
    """Return the layout function of ``module``, for blocks (in ``structure``) whose kind knows where patches lie, perhaps of several sizes:
    the grid is the one of the smallest patches. All grids must cover the whole image. ``run`` returns its logits for ``tensors``; another
    ``prefix`` than the kind's is refused. ``blocks`` are their outputs, if known.
    """
    kind, pixels = structure.block_kind, tensors["pixel_values"]
    if isinstance(kind, PatchesOfPixels):
        return lambda batch: Layout(0, None, grid_of(*batch["pixel_values"].shape[-2:]))
    before = kind.before or 0
    if prefix not in (None, before):
        raise ExplainerError(f"prefix={prefix}: the blocks of this model have {before} tokens before their patches; leave it out")
    size = (int(pixels.shape[-2]), int(pixels.shape[-1]))
    grids = [_grid(module, place.stop - place.start, size) for place in kind.patch_places]
    for grid, place in zip(grids, kind.patch_places, strict=True):
        if not covers_image(module, structure, run, pixels[:1], place, grid):
            raise ExplainerError(
                f"the stream with {grid[0]} x {grid[1]} patches does not see the whole image, or not row by row: where its patches lie "
                "is not known (one that is shown a crop, as CrossViT's with crop_scale=True, cannot be explained)"
            )
    read = _read_tokens_of_images(module, structure, run, tensors, before, 0, blocks)
    layout = Layout(before, read.class_token, grids[0], tuple(grids[1:]), other_tokens=_other_tokens(read, before))
    return lambda batch: layout


def _other_tokens(read: ReadTokens, prefix: int) -> OtherTokens:
    """Return which tokens the head reads next to the class token, from what :func:`read_tokens` found, for a model with this number of
    ``prefix`` tokens.
    """
    return OtherTokens.at(read.others, prefix, read.place, read.count)


def _unchanging(x: Tensor) -> tuple[int, int]:
    """Return how many of the embedded tokens ``x`` (2, S, D) at the front, and how many at the end, are the same for two images; all others
    must change.
    """
    changing = (x[0] != x[1]).any(-1).cpu()
    prefix, after = int(changing.int().argmax()), int(changing.flip(0).int().argmax())
    if not bool(changing[prefix : len(changing) - after].all()):
        same = torch.nonzero(~changing).flatten().tolist()
        raise ExplainerError(
            f"tokens {same[:8]} are the same for every image and so no patches, but they lie among the patches: let tokens that are no "
            "patches stand before or after all of them"
        )
    return prefix, after


def _grid(
    module: nn.Module, patches: int, size: tuple[int, int], before: int = 0, after: int = 0, advice: str = _OTHER_PREFIX
) -> tuple[int, int]:
    """Return the grid (rows, columns) of this number of ``patches`` of ``module`` in a picture of this ``size``: as the model declares
    them, else square patches of the size it declares, or of one that fits. Raises ExplainerError with the ``advice`` if they fill no
    grid; so many tokens stand ``before`` and ``after`` them.
    """
    if (grid_of := getattr(module, "grid_of", None)) is not None:
        rows, columns = grid_of(*size)
        if rows * columns == patches:
            return rows, columns
    for part in module.modules():
        declared = getattr(part, "grid_size", None)
        if isinstance(declared, (tuple, list)) and len(declared) == 2 and declared[0] * declared[1] == patches:
            return int(declared[0]), int(declared[1])
    clip = clip_shape(module)
    sides = getattr(vision_config(module), "patch_size", None) if clip is None else (clip.tubelet * clip.patch, clip.patch)
    patch = (sides, sides) if isinstance(sides, int) else sides
    square = math.sqrt(size[0] * size[1] / patches)  # a later stage has larger patches than the first
    for down, across in ([tuple(patch)] if patch and len(patch) == 2 else []) + [(square, square)]:
        rows, columns = round(size[0] / down), round(size[1] / across)
        if rows * columns == patches:
            return rows, columns
    left_out = [f"{count} {where} them" for count, where in ((before, "before"), (after, "after")) if count]
    of_all = f" of {patches + before + after}, without {' and '.join(left_out)}," if left_out else ""
    raise ExplainerError(
        f"{patches} tokens{of_all} (the second axis of what the blocks take) do not fill the patches of an image of "
        f"{size[0]} x {size[1]} pixels ({rows} x {columns}); {advice}"
    )
