"""What a trial forward pass shows about a Transformer's tokens: which are patches, and which of them the head reads.

Prefix tokens are those that do not change with the image. A classification token is one that the head reads in another way than
the patches. The module is left as it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, nn

from explainers.errors import ExplainerError
from explainers.models.outputs import Forward
from explainers.models.structure.blocks import Structure, first_tensor, trial
from explainers.models.structure.hooks import hooked

NO_GRADIENT = (
    "No gradient goes from the model's output back to its blocks: its forward runs them under torch.no_grad, or detaches what they give. "
    "Let it run with gradients: to freeze a backbone, requires_grad_(False) on its weights is enough."
)


class _Enough(Exception):
    """Ends a trial pass early."""


def embedded(module: nn.Module, structure: Structure, run: Forward, tensors: Mapping[str, Tensor]) -> Tensor:
    """The embedded tokens (B, S, D)."""
    entry, block_kind = structure.entry, structure.block_kind
    seen: list[Tensor] = []

    def hook(child: nn.Module, args: Any, kwargs: Any) -> None:
        seen.append(block_kind.taken(args, kwargs))
        raise _Enough

    with hooked([entry.register_forward_pre_hook(hook, with_kwargs=True)]), trial(module), suppress(_Enough):
        run(tensors)
    return seen[0]


def covers_image(module: nn.Module, structure: Structure, run: Forward, pixels: Tensor, place: slice, grid: tuple[int, int]) -> bool:
    """Whether the patches at ``place`` of x^1 lie row by row over the whole of an image (1, 3, height, width): what is at an edge of it
    changes patches of the row or column at that edge, and none at the edge across.
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
    x = embedded(module, structure, run, {"pixel_values": images})[:, place]
    top, bottom, left, right = (x[1:] != x[:1]).any(-1).unflatten(1, grid)
    near, far = (top[0], bottom[-1], left[:, 0], right[:, -1]), (top[-1], bottom[0], left[:, -1], right[:, 0])
    single = (grid[0] == 1, grid[0] == 1, grid[1] == 1, grid[1] == 1)
    return all(bool(a.any()) and (alone or not bool(b.any())) for a, b, alone in zip(near, far, single, strict=True))


def has_bypass(
    module: nn.Module, structure: Structure, run: Forward, tensors: Mapping[str, Tensor], answers: Tensor | None = None
) -> tuple[bool, Tensor | None]:
    """Whether the answer depends on the image by another way than x^1: two images whose x^1 are made the same get different answers.

    ``answers`` is what ``run`` gives for the two as they are; None: not known yet. With it comes x^1 (2, S, D) of the two images, None
    where the tokens are not where they could be replaced.
    """
    entry, block_kind, first = structure.entry, structure.block_kind, True
    x: Tensor | None = None

    def hook(child: nn.Module, args: Any, kwargs: Any) -> Any:
        nonlocal first, x
        if not first:
            return None
        first = False
        try:
            tokens = block_kind.taken(args, kwargs)
        except ExplainerError:  # the tokens are not where they could be replaced
            return None
        if len(tokens) != 2:
            return None
        x = tokens
        return block_kind.with_taken(args, kwargs, tokens[:1].expand_as(tokens).clone())

    with trial(module):
        apart = (run(tensors) if answers is None else answers).diff(dim=0).abs().max()
        with hooked([entry.register_forward_pre_hook(hook, with_kwargs=True)]):
            still_apart = run(tensors).diff(dim=0).abs().max()
    return bool(0 < 1e-3 * apart < still_apart), x


def class_token(module: nn.Module, structure: Structure, run: Forward, tensors: Mapping[str, Tensor], prefix: int | None) -> int | None:
    """Index of the classification token, -1 where the head reads one token that is not the first, or None where it pools.

    All tokens that leave the last block are made the same. A mean or attention pooling then hears each of them alike, by symmetry; a head
    that reads a classification token hears token 0 and, in another way or not at all, the first token that is no prefix. In a text it may
    hear one other token alone, the last word or the end of the text, whose place is another in every text.
    ``tensors`` holds one sample. ``prefix`` is None for text, where token 0 may be one, and 0 where there can be none.
    """
    if prefix == 0:
        return None
    last, block_kind = structure.blocks[-1], structure.block_kind
    by_kind = not (block_kind.is_row or block_kind.is_map)
    calls_left = structure.blocks.count(last)  # a shared block runs several times; the last time counts
    leaf: Tensor | None = None

    def hook(child: nn.Module, args: Any, output: Any) -> Any:
        nonlocal calls_left, leaf
        calls_left -= 1
        tokens = block_kind.given(output) if by_kind else first_tensor(output)
        if calls_left or tokens is None:
            return None
        torch.set_grad_enabled(True)  # from here to the output; trial() puts it back
        leaf = tokens[:, :1].expand_as(tokens).clone().requires_grad_()
        return block_kind.with_given(output, leaf) if by_kind else _with_first_tensor(output, leaf)

    with hooked([last.register_forward_hook(hook)]), trial(module):
        logits = run(tensors)
        assert leaf is not None
        if not logits.requires_grad:
            raise ExplainerError(NO_GRADIENT)
        weights = torch.linspace(1, 2, logits.shape[1], dtype=logits.dtype, device=logits.device)
        (gradient,) = torch.autograd.grad(logits, leaf, weights.expand_as(logits))
    scale = gradient.abs().max()
    if not bool(scale):
        raise ExplainerError(
            "the model's output does not depend on what its blocks give: are the weights of its head zero, as before training? Load those "
            "of a trained one"
        )
    heard = (gradient[0].abs().amax(-1) > 1e-6 * scale).tolist()
    if prefix is None and heard.count(True) == 1:
        return 0 if heard[0] else -1
    first, other = gradient[0, 0], gradient[0, -1 if prefix is None else prefix]
    return 0 if heard[0] and bool((first - other).abs().max() > 1e-3 * scale) else None


def _with_first_tensor(output: Any, tensor: Tensor) -> Any:
    """``output`` of a block with its tokens replaced."""
    if isinstance(output, Tensor):
        return tensor
    if isinstance(output, tuple):
        return (tensor, *output[1:])
    raise ExplainerError(
        f"a block gives a {type(output).__name__}, not tokens or a tuple that starts with them: which of its tensors are the tokens "
        "is not known"
    )
