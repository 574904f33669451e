"""Take patches of an image away: their tokens dropped or zeroed, or the patches painted in the mean colour or black."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional as F

from explainers.errors import ExplainerError, ran_out_of_memory
from explainers.models.model import Model
from explainers.models.removal.stem import Stem
from explainers.models.removal.token_removal import REFUSALS, Hook, TokenRemoval, agree, answer, fewest_tokens, most_tokens, repeat_sample
from explainers.models.removal.ways import OF_PATCHES, How, check_how


def patch_removal(
    model: Model, tensors: Mapping[str, Tensor], grid: tuple[int, int], how: How | None = None, tokens: int | None = None
) -> TokenRemoval:
    """Return a :class:`TokenRemoval` that removes patches from an image, a batch of one in ``tensors``, and asks ``model``; the image has a
    ``grid`` of (rows, columns) of patches in raster order.

    ``tokens`` is the maximum number of tokens in one forward pass; None: as many as the device can hold. ``how`` is one of
    :data:`explainers.models.removal.ways.OF_PATCHES`; None removes patches if the model allows it, else paints them. Raises ExplainerError
    for an unknown way, and for "removed" if the model needs all of its patches.
    """
    if how is not None:
        check_how(how, OF_PATCHES, "patches")
    layout = model.layout_of(tensors)
    count, prefix = grid[0] * grid[1], layout.prefix
    behind = torch.arange(prefix + count, prefix + count + layout.after)  # tokens that always stay
    most = tokens or most_tokens(model)

    def paint(keep: Tensor) -> Tensor:
        repeated = repeat_sample(model, tensors, len(keep))
        return answer(model, {**repeated, "pixel_values": paint_patches(repeated["pixel_values"], keep, grid)})

    def blacken(keep: Tensor) -> Tensor:
        repeated = repeat_sample(model, tensors, len(keep))
        return answer(model, {**repeated, "pixel_values": blacken_parts(repeated["pixel_values"], keep.unflatten(1, grid), black)})

    if how == "black":
        black = black_picture(model, tensors)
        return TokenRemoval("black", count, 0, blacken, most)
    refused = model.block_kind.no_removal
    if refused is None and how != "painted" and model.first_misplaced is not None and model.first_misplaced(tensors, layout) is not None:
        refused = _MISPLACED
    if how in ("removed", "zeroed") and refused is not None:
        raise ExplainerError(f"{refused.format(name=model.name)}: choose how=painted.")
    if how == "painted" or (how is None and (model.block_kind.is_map or refused is not None)):
        return TokenRemoval("painted", count, 0, paint, most)
    stem, whole = _shared_stem(model, tensors)

    def ask(rows: int, hooks: Sequence[tuple[nn.Module, Hook]]) -> Tensor:
        """Return the logits of ``rows`` copies of the input that the ``hooks`` change at the embedded tokens or later; what comes before
        these is computed once if the model allows it.
        """
        return answer(model, repeat_sample(model, tensors, rows) if stem is None else tensors, hooks, stem)

    def drop(keep: Tensor) -> Tensor:
        """Return the logits (K, C) without the tokens of the patches that ``keep``, bool (K, N), leaves out; all rows keep the same
        number.
        """
        kept_places = torch.nonzero(keep)[:, 1].view(len(keep), -1) + prefix
        index = torch.cat([torch.arange(prefix).expand(len(keep), -1), kept_places, behind.expand(len(keep), -1)], dim=1)
        return ask(len(keep), pick_tokens(model, index, prefix, count, layout.after))

    def backwards() -> Tensor:
        """Return logits (1, C) with the tokens of all patches in the opposite order."""
        index = torch.cat([torch.arange(prefix), torch.arange(prefix, prefix + count).flip(0), behind])[None]
        return ask(1, pick_tokens(model, index, prefix, count, layout.after))

    def zero(keep: Tensor) -> Tensor:
        """Return the logits (K, C) with the embedded tokens at zero for patches that ``keep``, bool (K, N), leaves out."""
        factor = torch.cat([torch.ones(len(keep), prefix), keep.float(), torch.ones(len(keep), len(behind))], dim=1)
        return ask(len(keep), [multiply_at_entry(model, factor)])

    without_one, every_other = torch.arange(count)[None] > 0, torch.arange(count)[None] % 2 == 0
    if how == "zeroed":
        return TokenRemoval("zeroed", count, 0, zero, most)
    if not model.block_kind.is_map and _drops(whole, backwards, [lambda: drop(without_one), lambda: drop(every_other)]):
        return TokenRemoval("removed", count, fewest_tokens(drop, count, prefix + layout.after), drop, most)
    if how == "removed":
        raise ExplainerError(f"{model.name} counts on all of its patches, so none can be removed: choose how=zeroed or how=painted.")
    return TokenRemoval("painted", count, 0, paint, most)


_MISPLACED = (
    "For this picture {name} puts its tokens in another order than it mostly does, so that which of them is which patch is not known"
)


def paint_patches(pixels: Tensor, keep: Tensor, grid: tuple[int, int]) -> Tensor:
    """Multiply normalised ``pixels`` (K, C, height, width) by the kept share of each patch of ``grid``, ``keep`` (K, N) from 0 to 1; return
    them. A share of 0 gives the mean colour.
    """
    shown = F.interpolate(keep.to(pixels).unflatten(1, grid)[:, None], size=pixels.shape[-2:], mode="nearest")
    return pixels * shown


def black_picture(model: Model, tensors: Mapping[str, Tensor]) -> Tensor:
    """Return the pixels (1, C, height, width) of a black picture, prepared for the model like the one in ``tensors``. Raises ExplainerError
    if they get another shape.
    """
    pixels = tensors["pixel_values"]
    height, width = pixels.shape[-2:]
    black = model.prepare(Image.new("RGB", (width, height))).tensors["pixel_values"]
    if black.shape != pixels.shape:
        raise ExplainerError(f"{model.name} prepares a black picture in another shape, so pixels cannot be set to black.")
    return black


def blacken_parts(pixels: Tensor, keep: Tensor, black: Tensor) -> Tensor:
    """Replace pixels by those of ``black`` where ``keep`` bool (K, rows, columns), for patches or pixels, is False; return (K, C, height,
    width).
    """
    is_kept = F.interpolate(keep[:, None].to(pixels), size=pixels.shape[-2:], mode="nearest") > 0.5
    return torch.where(is_kept, pixels, black)


def _shared_stem(model: Model, tensors: Mapping[str, Tensor]) -> tuple[Stem | None, Tensor]:
    """Run ``model`` twice on ``tensors``; return the stem, the stored computation up to the embedded tokens, and the answer to the input.
    The stem is None if a pass that reuses it gives another answer.
    """
    stem = Stem()
    alone = answer(model, tensors, stem=stem)
    try:
        both = answer(model, tensors, [(model.entry, first_time(model, lambda x: x.repeat_interleave(2, 0)))], stem)
    except REFUSALS as error:
        if ran_out_of_memory(error):
            raise
        return None, alone
    return (stem if both.shape == (2, *alone.shape[1:]) and agree(alone, both) else None), alone


def first_time(model: Model, change: Callable[[Tensor], Tensor]) -> Hook:
    """Return a hook for a module of ``model`` that applies ``change`` to the tokens (B, S, D) only the first time that its module runs."""
    waiting = True

    def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any] | None:
        nonlocal waiting
        if not waiting:
            return None
        waiting = False
        return model.block_kind.with_input_tokens(args, kwargs, change(model.block_kind.input_tokens(args, kwargs)))

    return hook


def multiply_at_entry(model: Model, factor: Tensor) -> tuple[nn.Module, Hook]:
    """Return a hook that multiplies the embedded tokens of ``model`` by ``factor`` (K, S), and the module on which to register it."""
    return model.entry, first_time(model, lambda tokens: tokens * factor.to(tokens)[:, :, None])


def pick_tokens(model: Model, index: Tensor, prefix: int, count: int, after: int) -> list[tuple[nn.Module, Hook]]:
    """Return hooks that keep of the embedded tokens of ``model`` only those at ``index`` (K, T), together with the ``prefix`` tokens before
    and the ``after`` tokens after the patches.

    The rotary positions of all ``count`` patches are cut to the same tokens.
    """
    places = index[:, prefix : index.shape[1] - after] - prefix

    def pick(x: Tensor) -> Tensor:
        rows = x.expand(len(index), -1, -1)
        return rows.gather(1, index.to(x.device)[..., None].expand(-1, -1, x.shape[-1]))

    def positions(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(positions(part) for part in value)
        if not isinstance(value, Tensor) or not value.is_floating_point() or value.dim() not in (2, 3) or value.shape[-2] != count:
            return value
        picked: Tensor = value[..., places.to(value.device), :]  # (K, T, d), or (heads, K, T, d)
        return picked.unsqueeze(1) if value.dim() == 2 else picked.transpose(0, 1)

    def with_positions(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        streams = {id(x) for x in model.block_kind.streams(args, kwargs)}
        positional = [value if id(value) in streams else positions(value) for value in args]
        return tuple(positional), {name: value if id(value) in streams else positions(value) for name, value in kwargs.items()}

    return [(model.entry, first_time(model, pick)), *((block, with_positions) for block in dict.fromkeys(model.blocks))]


def _drops(whole: Tensor, backwards: Callable[[], Tensor], with_fewer: Sequence[Callable[[], Tensor]]) -> bool:
    """Return whether patches may be removed from a model's input: ``backwards()``, the logits for the tokens in reverse order, must equal
    ``whole``, the logits for the tokens in order, and the passes ``with_fewer`` tokens must not fail: with one token less, too, as a model
    that joins its tokens in pairs runs with half of them.
    """
    try:
        after = backwards()
        for run in with_fewer:
            run()
    except REFUSALS as error:
        if ran_out_of_memory(error):
            raise
        return False  # it counts on all of its tokens
    return agree(whole, after)
