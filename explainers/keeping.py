"""Ask a model about one input of which only some patches or word pieces are kept: the one place where tokens are taken away.

Patches are removed where a model allows it: its blocks and its head must not know where a token lay, but for what the token itself says
(its position was added to it). Then the rows of the other patches are dropped at x^1. Where the model does know (windows, relative
or rotary positions, mixing over tokens), patches are painted in the mean colour. Word pieces, of texts and of prompts, are left out of
``input_ids``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from explainers.errors import ExplainerError
from explainers.evaluating import evaluating
from explainers.models.base import Model
from explainers.tokens import tokens_in, with_tokens

How = Literal["removed", "painted"]
BATCH = 64  # inputs in one forward pass


@dataclass(frozen=True)
class Keeping:
    """One input whose N patches or word pieces may be taken away.

    how     "removed": the model gets fewer tokens; "painted": the patches are there, in the mean colour
    tokens  N
    least   how many must stay: 1 where the model cannot answer without any
    """

    how: How
    tokens: int
    least: int
    _ask: Callable[[Tensor], Tensor] = field(repr=False)

    def logits(self, keep: Tensor, check: Callable[[], None] = lambda: None) -> Tensor:
        """Logits (K, C), float32 on the CPU, with the tokens of ``keep`` bool (K, N) and all special ones. ``check`` is called
        before every forward pass, and may raise. Equal rows are asked once, rows that keep as many tokens in one batch.

        Raises ExplainerError where a row keeps fewer tokens than the model needs.
        """
        rows, place = keep.cpu().unique(dim=0, return_inverse=True)
        counts = rows.sum(1)
        if int(counts.min()) < self.least:
            raise ExplainerError("This model cannot answer when nothing is left of its input: keep at least one token.")
        answers: list[Tensor] = [torch.empty(0)] * len(rows)
        for count in counts.unique():
            for part in torch.nonzero(counts == count).flatten().split(BATCH):
                check()
                for i, logits in zip(part.tolist(), self._ask(rows[part]).float().cpu(), strict=True):
                    answers[i] = logits
        return torch.stack(answers)[place]


def keeping_patches(model: Model, tensors: Mapping[str, Tensor], grid: tuple[int, int]) -> Keeping:
    """An image, a batch of one, and its ``grid`` of (rows, columns) of patches, in raster order."""
    count, prefix = grid[0] * grid[1], model.layout_of(tensors).prefix

    def drop(keep: Tensor) -> Tensor:
        """Logits with the other patches' tokens gone; each row of ``keep`` keeps as many."""
        kept = torch.nonzero(keep)[:, 1].view(len(keep), -1) + prefix
        index = torch.cat([torch.arange(prefix).expand(len(keep), -1), kept], dim=1)
        return _answer(model, _repeated(model, tensors, len(keep)), index)

    def paint(keep: Tensor) -> Tensor:
        own = _repeated(model, tensors, len(keep))
        return _answer(model, {**own, "pixel_values": painted(own["pixel_values"], keep, grid)})

    if model.channels == 2 and _drops(model, tensors, count, prefix, drop):
        return Keeping("removed", count, _least(drop, count, prefix), drop)
    return Keeping("painted", count, 0, paint)


def keeping_words(model: Model, tensors: Mapping[str, Tensor], content: Tensor) -> Keeping:
    """A text, a batch of one, whose word pieces are ``content`` bool (S,); the other tokens (special ones) always stay.

    The text closes up: what follows a piece that is gone moves into its place.
    """
    length = len(content)

    def leave_out(keep: Tensor) -> Tensor:
        stays = torch.ones(len(keep), length, dtype=torch.bool)
        stays[:, content.cpu()] = keep
        index = torch.nonzero(stays)[:, 1].view(len(keep), -1).to(model.device)
        own = _repeated(model, tensors, len(keep))
        return _answer(model, {name: t.gather(1, index) if t.shape == (len(keep), length) else t for name, t in own.items()})

    count = int(content.sum())
    return Keeping("removed", count, _least(leave_out, count, length - count), leave_out)


def keeping_prompt(model: Model, tensors: Mapping[str, Tensor], content: Tensor, place: int) -> Keeping:
    """The prompt at ``place`` among those of a CLIP model seen from its text side, whose word pieces are ``content`` bool (S,).

    The logits (K, prompts) are those of one image; of the prompts only this one changes. It closes up, and the tokenizer's padding fills
    it up to the length that it had: some text towers take one length alone, or read the last position.
    """
    row = {name: tensor[place : place + 1] if model.is_sample(name) else tensor for name, tensor in tensors.items()}
    length, padding = len(content), model.details["padding_token_id"]
    whole = _answer(model, tensors).T  # (1, prompts)

    def leave_out(keep: Tensor) -> Tensor:
        stays = torch.ones(len(keep), length, dtype=torch.bool)
        stays[:, content.cpu()] = keep
        left = int(stays[0].sum())
        index = stays.int().argsort(dim=1, descending=True, stable=True).to(model.device)
        own = _repeated(model, row, len(keep))
        for name, tensor in own.items():
            if model.is_sample(name):
                closed = tensor.gather(1, index)
                filled = torch.full_like(closed, padding if name == "input_ids" else 0) if padding is not None else closed[:, :left]
                filled[:, :left] = closed[:, :left]
                own[name] = filled
        answers = whole.repeat(len(keep), 1)
        answers[:, place] = _answer(model, own)[:, 0]
        return answers

    count = int(content.sum())
    return Keeping("removed", count, _least(leave_out, count, length - count), leave_out)


def painted(pixels: Tensor, keep: Tensor, grid: tuple[int, int]) -> Tensor:
    """Pixels (K, C, height, width), normalised, times how much of each patch is kept (K, N) in 0..1: 0 is the mean colour."""
    shown = F.interpolate(keep.to(pixels).unflatten(1, grid)[:, None], size=pixels.shape[-2:], mode="nearest")
    return pixels * shown


def _repeated(model: Model, tensors: Mapping[str, Tensor], times: int) -> dict[str, Tensor]:
    return {name: tensor.expand(times, *tensor.shape[1:]) if model.is_sample(name) else tensor for name, tensor in tensors.items()}


def _answer(model: Model, tensors: Mapping[str, Tensor], index: Tensor | None = None) -> Tensor:
    """Logits (K, C); with ``index`` (K, T), of the tokens at x^1 only these."""
    with torch.no_grad(), evaluating(model.module):
        if index is None:
            return model.forward(tensors)
        handle = model.entry.register_forward_pre_hook(_picker(index), with_kwargs=True)
        try:
            return model.forward(tensors)
        finally:
            handle.remove()


def _picker(index: Tensor) -> Callable[[nn.Module, tuple[Any, ...], dict[str, Any]], tuple[Any, Any] | None]:
    """A hook that picks tokens the first time that its module runs, in this thread."""
    thread, waiting = threading.get_ident(), True

    def pick(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any] | None:
        nonlocal waiting
        if threading.get_ident() != thread or not waiting:
            return None
        waiting = False
        x = tokens_in(args, kwargs)
        return with_tokens(args, kwargs, x.gather(1, index.to(x.device)[..., None].expand(-1, -1, x.shape[-1])))

    return pick


def _drops(model: Model, tensors: Mapping[str, Tensor], count: int, prefix: int, drop: Callable[[Tensor], Tensor]) -> bool:
    """Whether patches may be dropped: the model answers the same when their tokens come in the opposite order, and answers when half
    of them are gone. Two forward passes tell."""
    backwards = torch.cat([torch.arange(prefix), torch.arange(prefix, prefix + count).flip(0)])[None]
    half = torch.arange(count)[None] % 2 == 0
    try:
        before, after = _answer(model, tensors), _answer(model, tensors, backwards)
        drop(half)
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, ValueError, IndexError, TypeError, AssertionError):  # it counts on all of its tokens
        return False
    error = max(1e-3, 4 * torch.finfo(before.dtype).eps)
    return bool((before - after).abs().max() <= error * before.abs().max())


def _least(ask: Callable[[Tensor], Tensor], count: int, special: int) -> int:
    """How many tokens must stay: 0 where there are ``special`` ones and the model answers with them alone."""
    if not special:
        return 1
    try:
        return 0 if bool(ask(torch.zeros(1, count, dtype=torch.bool)).isfinite().all()) else 1
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, ValueError, IndexError, TypeError, AssertionError):
        return 1
