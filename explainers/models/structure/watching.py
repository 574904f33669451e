"""Facts that trial forward passes show about a Transformer's embedded tokens. The module is left as it was."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn

from explainers.errors import ExplainerError
from explainers.models.outputs import Forward
from explainers.models.structure.block_kinds import BlockKind
from explainers.models.structure.block_kinds.base import floating_tensors
from explainers.models.structure.blocks import Structure, trial
from explainers.models.structure.hooks import in_this_thread, remove_hooks_after
from explainers.models.structure.repeated_work import EqualHalves, RecordedBlocks


class Enough(Exception):
    """An exception that ends a trial pass early."""


class Entrance(Protocol):
    """The place where the embedded tokens enter the blocks of a model, and how they lie there."""

    @property
    def entry(self) -> nn.Module:
        """The module whose first argument is the embedded tokens."""

    @property
    def block_kind(self) -> BlockKind:
        """The layout of the blocks' tokens."""


def embed(module: nn.Module, structure: Entrance, run: Forward, tensors: Mapping[str, Tensor]) -> Tensor:
    """Run ``module`` by ``run`` on ``tensors`` up to its first block, which ``structure`` names, and return the embedded tokens (B, S, D).
    Raises ExplainerError if the module that takes them is not called.
    """
    entry, block_kind = structure.entry, structure.block_kind
    seen: list[Tensor] = []

    def hook(child: nn.Module, args: Any, kwargs: Any) -> None:
        seen.append(block_kind.input_tokens(args, kwargs))
        raise Enough

    handle = entry.register_forward_pre_hook(in_this_thread(hook), with_kwargs=True)
    with remove_hooks_after([handle]), trial(module), suppress(Enough):
        run(tensors)
    if not seen:
        raise ExplainerError("the model does not call the module that entry= names: pass the one that takes the embedded tokens")
    return seen[0]


def covers_image(module: nn.Module, structure: Structure, run: Forward, pixels: Tensor, place: slice, grid: tuple[int, int]) -> bool:
    """Return whether the patches at ``place`` of the embedded tokens x^1 lie row by row, as ``grid``, over the whole of an image,
    ``pixels`` (1, 3, height, width): a change at an edge changes patches of the row or column at that edge, and none at the opposite edge.
    ``run`` returns the logits of ``module``, whose blocks are in ``structure``.
    """
    height, width = pixels.shape[-2:]
    down, across = (max(1, side // (4 * count)) for side, count in zip((height, width), grid, strict=True))  # a quarter of a patch
    edges = [
        (slice(0, down), slice(None)),
        (slice(-down, None), slice(None)),
        (slice(None), slice(0, across)),
        (slice(None), slice(-across, None)),
    ]
    images = pixels.repeat(1 + len(edges), 1, 1, 1)
    for image, edge in zip(images[1:], edges, strict=True):
        image[:, *edge] += 1
    x = embed(module, structure, run, {"pixel_values": images})[:, place]
    top, bottom, left, right = (x[1:] != x[:1]).any(-1).unflatten(1, grid)
    near, far = (top[0], bottom[-1], left[:, 0], right[:, -1]), (top[-1], bottom[0], left[:, -1], right[:, 0])
    single = (grid[0] == 1, grid[0] == 1, grid[1] == 1, grid[1] == 1)
    return all(bool(a.any()) and (alone or not bool(b.any())) for a, b, alone in zip(near, far, single, strict=True))


def sees_all_edges(module: nn.Module, structure: Structure, run: Forward, tensors: Mapping[str, Tensor], grid: tuple[int, int]) -> bool:
    """Return whether noise at each edge of the picture in ``tensors`` changes some of the embedded tokens x^1 of ``module``, whose blocks
    are in ``structure`` and whose logits ``run`` returns; ``grid`` (rows, columns) is the grid of its patches.

    At the lower and the right edge the noise is wider: where the picture is no whole number of patches, less than a patch may be cut off
    there, and a convolutional network whose residual branches start at zero reads only the first row and column of each patch.
    """
    pixels = tensors["pixel_values"][:1]
    height, width = pixels.shape[-2:]
    down, across = (max(1, side // (4 * count)) for side, count in zip((height, width), grid, strict=True))  # a quarter of a patch
    cut_off = 0 if structure.grid else 1  # patches
    rest_down, rest_across = (math.ceil(side / (cut_off + count)) for side, count in zip((height, width), grid, strict=True))
    edges = [
        (slice(0, down), slice(None)),
        (slice(-rest_down, None), slice(None)),
        (slice(None), slice(0, across)),
        (slice(None), slice(-rest_across, None)),
    ]
    images = pixels.repeat(1 + len(edges), 1, 1, 1)
    noise = torch.randn(pixels.shape[1:], generator=torch.Generator().manual_seed(0)).to(pixels)
    for image, edge in zip(images[1:], edges, strict=True):
        image[:, *edge] = pixels[0][:, *edge].roll(1, 0) + noise[:, *edge]
    x = embed(module, structure, run, {**tensors, "pixel_values": images})
    return len(x) != len(images) or bool((x[1:] != x[:1]).flatten(1).any(1).all())


#: How a model sees the picture by another path than the tokens that enter its blocks: around the blocks, in further streams of tokens that
#: they take, or by running them again.
Bypass = Literal["around", "streams", "again"]


@dataclass(frozen=True)
class Bypassed:
    """What two images whose embedded tokens x^1 are made the same show.

    path    by which other path than x^1 the answer depends on the image; None if by none
    x       x^1 (2, S, D) of the two images before that; None if the tokens cannot be replaced
    blocks  the outputs of the blocks, all of the first image, where what follows them can run again by these; else None
    """

    path: Bypass | None
    x: Tensor | None = None
    blocks: RecordedBlocks | None = None


def bypass_of(
    module: nn.Module, structure: Structure, run: Forward, tensors: Mapping[str, Tensor], answers: Tensor | None = None
) -> Bypassed:
    """Find by which other path than the embedded tokens x^1 the answer depends on the image, if any: two images whose x^1 are made the same
    get different answers.

    ``structure`` holds the blocks of ``module``; ``answers`` is the result of ``run`` for ``tensors``, the unchanged images; None: not
    known yet.
    """
    entry, block_kind, first, is_out_of_reach = structure.entry, structure.block_kind, True, False
    x: Tensor | None = None
    path: Bypass = "around"

    def hook(child: nn.Module, args: Any, kwargs: Any) -> Any:
        nonlocal first, x, is_out_of_reach, path
        if not first:
            if x is not None and path == "around" and _differ(args, kwargs, x):
                path = "again"
            return None
        first = False
        try:
            tokens = block_kind.input_tokens(args, kwargs)
        except ExplainerError:  # the tokens are not where they could be replaced
            is_out_of_reach = True
            return None
        if len(tokens) != 2:
            return None
        x = tokens
        replaced = block_kind.with_input_tokens(args, kwargs, tokens[:1].expand_as(tokens).clone())
        path = "streams" if _differ(*replaced, x) else path
        return replaced

    recorded = RecordedBlocks(structure.blocks)
    with trial(module):
        apart = (run(tensors) if answers is None else answers).diff(dim=0).abs().max()
        # from the replaced tokens on, both samples are the same unless the image takes another path
        with remove_hooks_after([entry.register_forward_pre_hook(hook, with_kwargs=True), *recorded.hooks()]), EqualHalves():
            replaced_answers = run(tensors)
    if is_out_of_reach:
        return Bypassed(None)  # nothing was replaced: what reads the tokens says why
    still_apart = replaced_answers.diff(dim=0).abs().max()
    if bool(0 < 1e-3 * apart < still_apart):
        return Bypassed(path, x)
    return Bypassed(None, x, recorded if recorded.give(module, run, tensors, replaced_answers) else None)


def _differ(args: Any, kwargs: Any, x: Tensor) -> bool:
    """Return whether some tensor of two samples among the arguments of a block, as long as the tokens ``x`` (2, S, D), differs between the
    samples.
    """
    given = [each for each in floating_tensors((args, kwargs)) if each.dim() == x.dim() and each.shape[:2] == x.shape[:2]]
    return any(not torch.equal(each[0], each[1]) for each in given)


def reads_words_twice(
    module: nn.Module,
    structure: Structure,
    run: Forward,
    first: Mapping[str, Tensor],
    other: Mapping[str, Tensor],
    answers: Tensor | None = None,
) -> bool:
    """Return whether the answer depends on the words by another way than the embedded tokens x^1: a text with the x^1 of another text does
    not get the other's answer. ``first`` and ``other`` hold one text each, of one length.

    ``structure`` holds the blocks of ``module``; ``answers`` is what ``run`` gives for ``first``; None: not known yet.
    """
    entry, block_kind = structure.entry, structure.block_kind

    def answer_with(x: Tensor) -> Tensor | None:
        """Return the answer to the other text with its embedded tokens replaced by ``x``; None where it has another number of tokens."""
        is_replaced: bool | None = None

        def hook(child: nn.Module, args: Any, kwargs: Any) -> Any:
            nonlocal is_replaced
            if is_replaced is not None:
                return None
            is_replaced = block_kind.input_tokens(args, kwargs).shape == x.shape
            return block_kind.with_input_tokens(args, kwargs, x.clone()) if is_replaced else None

        with remove_hooks_after([entry.register_forward_pre_hook(hook, with_kwargs=True)]):
            answer = run(other)
        return answer if is_replaced else None

    try:
        x = embed(module, structure, run, first)
        with trial(module):
            logits = run(first) if answers is None else answers
            replaced = answer_with(x)
            if replaced is None or torch.equal(replaced, logits):  # the usual case
                return False
            apart, still_apart = (run(other) - logits).abs().max(), (replaced - logits).abs().max()
    except ExplainerError:  # the tokens are not where they could be replaced
        return False
    return bool(0 < 1e-3 * apart < still_apart)


def with_first_tensor(output: Any, tensor: Tensor) -> Any:
    """Return the ``output`` of a block with its tokens, the first tensor in it, replaced by ``tensor``."""
    if isinstance(output, Tensor):
        return tensor
    if isinstance(output, tuple):
        return (tensor, *output[1:])
    raise ExplainerError(
        f"a block gives a {type(output).__name__}, not tokens or a tuple that starts with them: which of its tensors are the tokens "
        "is not known"
    )
