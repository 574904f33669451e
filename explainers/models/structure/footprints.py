"""What single tokens read of the picture, found by their gradients: whether that is the square at which they are drawn.

Layers before the blocks may bring neighbouring squares together, as overlapping convolutions do, or many of them, as earlier stages do. A
token is still drawn rightly if more of what it reads lies in its square than by chance. Of strips, of every n-th pixel, of a map that was
reshaped without a transpose or of frequencies no more does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from explainers.models.layout import Footprint
from explainers.models.outputs import Forward
from explainers.models.structure.blocks import trial
from explainers.models.structure.hooks import remove_hooks_after
from explainers.models.structure.watching import Enough, Entrance

#: How widely a token must read along rows or columns to be looked at, relative to one that reads all of them alike: after many layers and
#: after few.
_WIDE, _WIDE_AFTER_FEW = 0.6, 0.25
#: How many of the tokens must, in a model in which all read widely; below the second number single ones say enough.
_MIN_SHARE, _NARROW = 0.1, 0.15
#: How many tokens are looked at, and in how many random directions each.
_TOKENS, _DIRECTIONS = 8, 4
#: How many standard errors over the tokens a mean over one direction must lie above its threshold for the others not to be asked.
_CLEAR = 2.0
#: How much more of what tokens read must lie at their squares than by chance, of all that could, for nothing to be said: after many layers,
#: after few, and where all others read their squares alone.
_MORE, _MORE_AFTER_FEW, _MORE_AMONG_EXACT = 0.25, 0.6, 0.75
#: Up to how much of it is by chance.
_BY_CHANCE = 0.12
#: At most so many linear layers, fewer than two blocks have, are few: they cannot have brought the whole picture together bit by bit.
_FEW_LAYERS = 8
_LAYERS = frozenset(["linear", "conv1d", "conv2d", "conv3d", "matmul", "__matmul__", "__rmatmul__", "bmm", "mm", "einsum", "addmm"])


class LayerCount(TorchFunctionMode):
    """A torch mode that counts the linear layers and matrix products that run: ``layers``."""

    layers = 0

    @property
    def is_few(self) -> bool:
        """Return whether so few ran that they cannot have brought the whole picture together bit by bit."""
        return self.layers <= _FEW_LAYERS

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.layers += getattr(func, "__name__", "") in _LAYERS
        return func(*args, **(kwargs or {}))


def influence_of(
    module: nn.Module,
    structure: Entrance,
    run: Forward,
    tensors: Mapping[str, Tensor],
    place: slice,
    tokens: Sequence[int],
    directions: int = 1,
) -> Tensor | None:
    """Return how strongly each pixel influences each of these patches, by their number among those at ``place`` of the embedded tokens x^1:
    squared gradients (K, height, width), a mean over so many random ``directions``. None if no gradient goes back to the pixels.

    ``run`` returns the logits of ``module``, whose blocks are in ``structure``, for ``tensors``, of which the first picture is taken.
    """
    entry, block_kind = structure.entry, structure.block_kind
    seen: list[Tensor] = []

    def hook(child: nn.Module, args: Any, kwargs: Any) -> None:
        seen.append(block_kind.input_tokens(args, kwargs))
        raise Enough

    with remove_hooks_after([entry.register_forward_pre_hook(hook, with_kwargs=True)]), trial(module), torch.enable_grad():
        pixels = tensors["pixel_values"][:1].detach().repeat(len(tokens), 1, 1, 1).requires_grad_()
        with suppress(Enough):
            run({**tensors, "pixel_values": pixels})
        if not seen or not seen[0].requires_grad or len(seen[0]) != len(tokens):
            return None
        x = seen[0][:, place][torch.arange(len(tokens)), torch.tensor(tokens)]
        generator, influence = torch.Generator().manual_seed(0), torch.zeros((), dtype=torch.float64)
        for _ in range(directions):
            direction = torch.randn(x.shape, generator=generator).to(x)
            (gradient,) = torch.autograd.grad(x, pixels, direction, retain_graph=True, allow_unused=True)
            if gradient is None:
                return None
            influence = influence + gradient.double().square().sum(1).cpu() / directions
    return influence


def footprint_of(
    module: nn.Module,
    structure: Entrance,
    run: Forward,
    tensors: Mapping[str, Tensor],
    place: slice,
    grid: tuple[int, int],
    spread: Tensor,
    few_layers: bool,
) -> Footprint | None:
    """Find whether tokens read the squares of the picture at which they are drawn, as patches of a ``grid``; None if they do, or if no
    gradient tells. ``spread`` (N, 2) is how widely each reads along rows and columns, in shares of the picture, infinite if it reads
    nothing: gradients are taken of some that read widely. ``few_layers`` says whether few linear layers run before x^1; the other arguments
    are those of :func:`influence_of`.
    """
    axes = [axis for axis, count in enumerate(grid) if count > 1]
    if not axes or len(spread) != math.prod(grid):
        return None
    widest = torch.tensor([math.sqrt((1 - 1 / grid[axis] ** 2) / 12) for axis in axes], dtype=spread.dtype)
    width = (spread[:, axes] / widest).amax(1)
    reads = width.isfinite()
    wide = (reads & (width > (_WIDE_AFTER_FEW if few_layers else _WIDE))).nonzero().flatten()
    is_exact = bool(reads.any()) and bool(width[reads].median() < _NARROW)
    if not len(wide) or (not is_exact and len(wide) < _MIN_SHARE * len(spread)):
        return None
    chosen = wide[torch.randperm(len(wide), generator=torch.Generator().manual_seed(0))[:_TOKENS]].tolist()
    places = torch.tensor([divmod(token, grid[1]) for token in chosen])
    threshold = _MORE_AMONG_EXACT if is_exact else _MORE_AFTER_FEW if few_layers else _MORE
    trials = (_DIRECTIONS,) if is_exact or len(chosen) == 1 else (1, _DIRECTIONS)  # a backward pass each: most are clear after the first
    for directions in trials:
        seen = influence_of(module, structure, run, tensors, place, chosen, directions)
        if seen is None or not bool(seen.isfinite().all()) or not bool((seen.sum((1, 2)) > 0).all()):
            return None
        influence = seen / seen.sum((1, 2), keepdim=True)
        windows = [_around(places[:, axis], grid[axis], influence.shape[1 + axis]) for axis in (0, 1)]
        more = torch.stack([_more_than_chance(influence.sum(2 - axis), windows[axis]) for axis in axes], 1)
        error = more.std(0) / math.sqrt(len(chosen)) if directions == 1 else torch.zeros(len(axes))
        if float(more.min() if is_exact else (more.mean(0) - _CLEAR * error).min()) >= threshold:
            return None
    least = float(more.min() if is_exact else more.mean(0).min())
    window = windows[0][:, :, None] * windows[1][:, None, :]
    return Footprint(float((influence * window).sum((1, 2)).mean()), is_exact or (few_layers and least < _BY_CHANCE))


def _around(places: Tensor, count: int, side: int) -> Tensor:
    """Return, for tokens at these ``places`` of ``count`` along one side of the picture, which of its ``side`` pixels lie in their squares
    and half a square around them: (K, side) of zeros and ones.
    """
    pixel, patch = torch.arange(side) + 0.5, side / count
    return ((pixel > (places[:, None] - 0.5) * patch) & (pixel < (places[:, None] + 1.5) * patch)).double()


def _more_than_chance(shares: Tensor, window: Tensor) -> Tensor:
    """Return how much more of the ``shares`` (K, side), which add up to 1, lies in the ``window`` (K, side) than if all were alike, of what
    could: 1 if all does, 0 by chance; (K,).
    """
    by_chance = window.mean(1)
    return ((shares * window).sum(1) - by_chance) / (1 - by_chance).clamp_min(1e-9)
