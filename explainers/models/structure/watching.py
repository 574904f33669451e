"""Facts that trial forward passes show about a Transformer's tokens: which are patches, and which of them the head reads.

Prefix tokens are those that do not change with the image. A classification token is one that the head reads in another way than
the patches. The module is left as it was.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
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


class Enough(Exception):
    """An exception that ends a trial pass early."""


def embedded(module: nn.Module, structure: Structure, run: Forward, tensors: Mapping[str, Tensor]) -> Tensor:
    """Run the model on ``tensors`` up to its first block, and return the embedded tokens (B, S, D)."""
    entry, block_kind = structure.entry, structure.block_kind
    seen: list[Tensor] = []

    def hook(child: nn.Module, args: Any, kwargs: Any) -> None:
        seen.append(block_kind.taken(args, kwargs))
        raise Enough

    with hooked([entry.register_forward_pre_hook(hook, with_kwargs=True)]), trial(module), suppress(Enough):
        run(tensors)
    return seen[0]


def covers_image(module: nn.Module, structure: Structure, run: Forward, pixels: Tensor, place: slice, grid: tuple[int, int]) -> bool:
    """Return whether the patches at ``place`` of the embedded tokens x^1 lie row by row over the whole of an image (1, 3, height, width): a
    change at an edge changes patches of the row or column at that edge, and none at the opposite edge.
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


def sees_all_edges(module: nn.Module, structure: Structure, run: Forward, tensors: Mapping[str, Tensor], grid: tuple[int, int]) -> bool:
    """Return whether noise at each edge of a picture changes some of the embedded tokens x^1.

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
    x = embedded(module, structure, run, {**tensors, "pixel_values": images})
    return len(x) != len(images) or bool((x[1:] != x[:1]).flatten(1).any(1).all())


def has_bypass(
    module: nn.Module, structure: Structure, run: Forward, tensors: Mapping[str, Tensor], answers: Tensor | None = None
) -> tuple[bool, Tensor | None]:
    """Return whether the answer depends on the image by another path than the embedded tokens x^1: two images whose x^1 are made the same
    get different answers. The second value is x^1 (2, S, D) of the two images, None if the tokens cannot be replaced.

    ``answers`` is the result of ``run`` for the unchanged images; None: not known yet.
    """
    entry, block_kind, first, is_out_of_reach = structure.entry, structure.block_kind, True, False
    x: Tensor | None = None

    def hook(child: nn.Module, args: Any, kwargs: Any) -> Any:
        nonlocal first, x, is_out_of_reach
        if not first:
            return None
        first = False
        try:
            tokens = block_kind.taken(args, kwargs)
        except ExplainerError:  # the tokens are not where they could be replaced
            is_out_of_reach = True
            return None
        if len(tokens) != 2:
            return None
        x = tokens
        return block_kind.with_taken(args, kwargs, tokens[:1].expand_as(tokens).clone())

    with trial(module):
        apart = (run(tensors) if answers is None else answers).diff(dim=0).abs().max()
        with hooked([entry.register_forward_pre_hook(hook, with_kwargs=True)]):
            still_apart = run(tensors).diff(dim=0).abs().max()
    if is_out_of_reach:
        return False, None  # nothing was replaced: what reads the tokens says why
    return bool(0 < 1e-3 * apart < still_apart), x


def reads_words_twice(
    module: nn.Module, structure: Structure, run: Forward, first: Mapping[str, Tensor], other: Mapping[str, Tensor]
) -> bool:
    """Return whether the answer depends on the words by another way than the embedded tokens x^1: a text with the x^1 of another text does
    not get the other's answer. ``first`` and ``other`` hold one text each, of one length.
    """
    entry, block_kind = structure.entry, structure.block_kind

    def ask(tensors: Mapping[str, Tensor], instead: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        taken: list[Tensor] = []

        def hook(child: nn.Module, args: Any, kwargs: Any) -> Any:
            if taken:
                return None
            taken.append(block_kind.taken(args, kwargs))
            return None if instead is None else block_kind.with_taken(args, kwargs, instead.clone())

        with hooked([entry.register_forward_pre_hook(hook, with_kwargs=True)]), trial(module):
            answer = run(tensors)
        return answer, taken[0] if taken else None

    try:
        (logits, x), (other_logits, of_other) = ask(first), ask(other)
        if x is None or of_other is None or x.shape != of_other.shape:
            return False
        apart, still_apart = (other_logits - logits).abs().max(), (ask(other, x)[0] - logits).abs().max()
    except ExplainerError:  # the tokens are not where they could be replaced
        return False
    return bool(0 < 1e-3 * apart < still_apart)


def class_token(
    module: nn.Module, structure: Structure, run: Forward, tensors: Mapping[str, Tensor], prefix: int | None, after: int = 0
) -> int | None:
    """Find the index of the classification token; -1 where the head reads one token whose place differs between inputs, such as the last
    word of a text; None if the head pools.

    All tokens that leave the last block are made the same. A head that pools, by a mean or by attention, then depends on each of them
    equally, by symmetry. A head that reads a classification token depends on that token (token 0, or one behind the patches), and on the
    patches differently or not at all. For a text it may depend on one other token alone, the last word or the end of the text, whose place
    differs between texts. ``tensors`` holds one sample. ``prefix`` is the number of tokens before the patches of a picture, and ``after``
    the number behind them; if both are 0, there can be no classification token. ``prefix`` is None for text, where token 0 may be one.
    """
    if prefix == after == 0:
        return None
    gradient = _gradient_at_last_block(module, structure, run, tensors, lambda tokens: tokens[:, :1].expand_as(tokens))
    scale = gradient.abs().max()
    if not bool(scale):
        raise ExplainerError(
            "the model's output does not depend on what its blocks give: are the weights of its head zero, as before training? Load those "
            "of a trained one"
        )
    heard = (gradient[0].abs().amax(-1) > 1e-6 * scale).tolist()
    if heard.count(True) == 1:
        read = heard.index(True)
        if prefix is None and read > 0:
            return -1

        def plain_there(tokens: Tensor) -> Tensor:
            return torch.cat([tokens[:, :read], tokens.mean(1, keepdim=True), tokens[:, read + 1 :]], 1)

        # a head that picks the strongest token, or the like, takes no mean of them where it can have another
        picked = _gradient_at_last_block(module, structure, run, tensors, plain_there)[0].abs().amax(-1)
        return read if bool(picked[read] > 1e-6 * picked.max()) or not bool(picked.any()) else -1
    other = gradient[0, -1 if prefix is None else prefix]
    behind = range(len(heard) - after, len(heard))
    apart = [i for i in (*([] if prefix == 0 else [0]), *behind) if heard[i] and bool((gradient[0, i] - other).abs().max() > 1e-3 * scale)]
    return apart[0] if apart[:1] == [0] or len(apart) == 1 else None


def _gradient_at_last_block(
    module: nn.Module, structure: Structure, run: Forward, tensors: Mapping[str, Tensor], change: Callable[[Tensor], Tensor]
) -> Tensor:
    """Return the gradient (1, S, D) of a weighted sum of the logits, at the tokens that leave the last block, after a ``change`` of
    them.
    """
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
        leaf = change(tokens).clone().requires_grad_()
        torch.set_grad_enabled(True)  # from here to the output; trial() puts it back
        return block_kind.with_given(output, leaf) if by_kind else with_first_tensor(output, leaf)

    with hooked([last.register_forward_hook(hook)]), trial(module):
        logits = run(tensors)
        assert leaf is not None
        if not logits.requires_grad:
            raise ExplainerError(NO_GRADIENT)
        weights = torch.linspace(1, 2, logits.shape[1], dtype=logits.dtype, device=logits.device)
        (gradient,) = torch.autograd.grad(logits, leaf, weights.expand_as(logits))
    return gradient


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
