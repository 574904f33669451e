"""Ask a model about one input of which only some patches or word pieces are kept: the one place where tokens are taken away.

How they are taken away is an option, ``how``. The default:

* patches are ``removed`` where a model allows it: its blocks and its head must not know where a token lay, but for what the token itself
  says (its position was added to it) and for rotary positions, which go with it. Then the rows of the other patches are dropped at x^1.
  Where the model does know (windows, relative positions, mixing over tokens), patches are ``painted`` in the mean colour.
* word pieces, of texts and of prompts, are ``removed``: left out of ``input_ids``, and the text closes up.

The others: ``zeroed`` sets the embedded tokens of patches to zero (LibraGrad, for models that cannot drop tokens); ``masked`` puts the
tokenizer's mask token in the place of a word piece, ``unknown`` its token for unknown words (Ali et al. 2022); positions stay.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from explainers.errors import ExplainerError
from explainers.models.base import Model, Windows
from explainers.models.eval_mode import evaluating
from explainers.models.stem import Stem
from explainers.models.tokens import as_given, as_tokens, tokens_in, with_tokens

How = Literal["removed", "painted", "zeroed", "masked", "unknown"]
BATCH = 64  # inputs in one forward pass
TOKENS = 2000  # in one forward pass on a CPU: longer passes are no faster a token, and others are let in between two passes
#: Called before every forward pass with how many inputs are answered, and how many there are; it may raise to stop.
BeforePass = Callable[[int, int], None]


def _nothing(done: int, total: int) -> None:
    """Nobody wants to know."""


@dataclass(frozen=True)
class TokenRemoval:
    """One input whose N patches or word pieces may be taken away.

    how     in which way; "removed": the model gets fewer tokens
    tokens  N
    least   how many must stay: 1 where the model cannot answer without any
    """

    how: How
    tokens: int
    least: int
    _ask: Callable[[Tensor], Tensor] = field(repr=False)
    _most_tokens: int | None = field(default=TOKENS, repr=False)  # in one forward pass

    def logits(self, keep: Tensor, before_pass: BeforePass = _nothing) -> Tensor:
        """Logits (K, C), float32 on the CPU, with the tokens of ``keep`` bool (K, N) and all special ones. Equal rows are asked once and
        counted once, rows that keep as many tokens in one batch.

        Raises ExplainerError where a row keeps fewer tokens than the model needs.
        """
        rows, place = keep.cpu().unique(dim=0, return_inverse=True)
        counts = rows.sum(1)
        if int(counts.min()) < self.least:
            raise ExplainerError("This model cannot answer when nothing is left of its input: keep at least one token.")
        answers: list[Tensor] = [torch.empty(0)] * len(rows)
        done = 0
        for count in counts.unique().tolist():
            group = torch.nonzero(counts == count).flatten()
            for part in group.tensor_split(math.ceil(len(group) / self._at_once(count))):
                before_pass(done, len(rows))
                for i, logits in zip(part.tolist(), self._ask(rows[part]).float().cpu(), strict=True):
                    answers[i] = logits
                done += len(part)
        return torch.stack(answers)[place]

    def _at_once(self, count: int) -> int:
        """How many inputs that keep ``count`` tokens go into one forward pass."""
        length = count if self.how == "removed" else self.tokens
        return BATCH if self._most_tokens is None else max(1, min(BATCH, self._most_tokens // max(1, length)))


def _most_tokens(model: Model) -> int | None:
    """In one forward pass."""
    return TOKENS if model.device.type == "cpu" else None


def input_removal(
    model: Model,
    tensors: Mapping[str, Tensor],
    *,
    grid: tuple[int, int] | None = None,
    special: Sequence[bool] | None = None,
    place: int | None = None,
    windows: Windows | None = None,
    how: How | None = None,
) -> TokenRemoval:
    """One input, a batch of one: an image with its ``grid`` of patches, or a text.

    special  of a text: which of its tokens, padding left out, always stay
    place    where among the prompts of a CLIP model seen from its text side the text is
    windows  those in which a long text was read
    how      None: what is usual for such an input and this model
    """
    if windows is not None:
        return window_removal(model, windows, how or "removed")
    if special is None:
        if grid is None:
            raise ExplainerError("This model's scores lie on no grid of patches, so there are none to take away.")
        return patch_removal(model, tensors, grid, how)
    row, ids = 0 if place is None else place, tensors["input_ids"]
    mask = tensors["attention_mask"][row].bool().cpu() if "attention_mask" in tensors else torch.ones(ids.shape[1], dtype=torch.bool)
    content = torch.zeros_like(mask)
    content[mask] = ~torch.tensor(list(special))
    if place is None:
        return word_removal(model, tensors, content, how or "removed")
    if how not in (None, "removed"):
        raise ExplainerError(f"how={how!r} is not for prompts: their words are removed.")
    return prompt_removal(model, tensors, content, place)


def patch_removal(
    model: Model, tensors: Mapping[str, Tensor], grid: tuple[int, int], how: How | None = None, tokens: int | None = None
) -> TokenRemoval:
    """An image, a batch of one, and its ``grid`` of (rows, columns) of patches, in raster order.

    ``tokens`` is how many may go through one forward pass; None: as suits the device.
    ``how`` is "removed", "zeroed" or "painted"; None removes them where the model allows it, and paints them elsewhere.
    Raises ExplainerError for another one, and for "removed" where the model counts on all of its patches.
    """
    if how not in (None, "removed", "zeroed", "painted"):
        raise ExplainerError(f"how={how!r} is for texts: patches are removed, zeroed or painted.")
    count, prefix = grid[0] * grid[1], model.layout_of(tensors).prefix
    most = tokens or _most_tokens(model)

    def paint(keep: Tensor) -> Tensor:
        repeated = _repeated(model, tensors, len(keep))
        return _answer(model, {**repeated, "pixel_values": painted(repeated["pixel_values"], keep, grid)})

    if how == "painted" or (how is None and model.channels != 2):
        return TokenRemoval("painted", count, 0, paint, most)
    stem, whole = _shared_stem(model, tensors)

    def ask(rows: int, hooks: Sequence[tuple[nn.Module, Hook]]) -> Tensor:
        """Logits of so many inputs that differ from x^1 on alone; what comes before is computed once, where the model allows it."""
        return _answer(model, _repeated(model, tensors, rows) if stem is None else tensors, hooks, stem)

    def drop(keep: Tensor) -> Tensor:
        """Logits with the other patches' tokens gone; each row of ``keep`` keeps as many."""
        kept = torch.nonzero(keep)[:, 1].view(len(keep), -1) + prefix
        index = torch.cat([torch.arange(prefix).expand(len(keep), -1), kept], dim=1)
        return ask(len(keep), _picker(model, index, prefix, count))

    def backwards() -> Tensor:
        """Logits (1, C) with the tokens of all patches in the opposite order."""
        index = torch.cat([torch.arange(prefix), torch.arange(prefix, prefix + count).flip(0)])[None]
        return ask(1, _picker(model, index, prefix, count))

    def zero(keep: Tensor) -> Tensor:
        """Logits with the other patches' embedded tokens at zero."""
        factor = torch.cat([torch.ones(len(keep), prefix), keep.float()], dim=1)
        return ask(len(keep), [(model.entry, _multiplier(model, factor))])

    if how == "zeroed":
        return TokenRemoval("zeroed", count, 0, zero, most)
    if model.channels == 2 and _drops(whole, backwards, lambda: drop(torch.arange(count)[None] % 2 == 0)):
        return TokenRemoval("removed", count, _least(drop, count, prefix), drop, most)
    if how == "removed":
        raise ExplainerError(f"{model.name} counts on all of its patches, so none can be removed: choose how=zeroed or how=painted.")
    return TokenRemoval("painted", count, 0, paint, most)


def word_removal(
    model: Model, tensors: Mapping[str, Tensor], content: Tensor, how: How = "removed", tokens: int | None = None
) -> TokenRemoval:
    """A text, a batch of one, whose word pieces are ``content`` bool (S,); the other tokens (special ones) always stay.

    ``tokens`` is how many may go through one forward pass; None: as suits the device.
    ``how`` "removed": the text closes up, what follows a piece that is gone moves into its place. "masked" and "unknown" put another token
    there. Raises ExplainerError for another one, and where the tokenizer has no such token.
    """
    length, most = len(content), tokens or _most_tokens(model)
    if how != "removed":
        return TokenRemoval(how, int(content.sum()), 0, _filler(model, tensors, content, how), most)

    def leave_out(keep: Tensor) -> Tensor:
        stays = torch.ones(len(keep), length, dtype=torch.bool)
        stays[:, content.cpu()] = keep
        index = torch.nonzero(stays)[:, 1].view(len(keep), -1).to(model.device)
        repeated = _repeated(model, tensors, len(keep))
        return _answer(model, {name: t.gather(1, index) if t.shape == (len(keep), length) else t for name, t in repeated.items()})

    count = int(content.sum())
    return TokenRemoval("removed", count, _least(leave_out, count, length - count), leave_out, most)


def window_removal(model: Model, windows: Windows, how: How = "removed") -> TokenRemoval:
    """A text in overlapping windows, whose word pieces are those of the whole text: one that is gone is gone from every window.

    The logits are the means of the windows'. Where the model needs a word, a window of which nothing is left is not counted.
    ``how`` as for :func:`word_removal`.
    """
    special = torch.tensor([token.special for token in windows.whole.tokens])
    piece = (~special).cumsum(0) - 1
    rows: list[tuple[TokenRemoval, Tensor]] = []
    for i, places in enumerate(windows.places):
        tensors = windows.rows(i, i + 1).tensors
        positions = torch.tensor(places)
        content = torch.zeros(tensors["input_ids"].shape[1], dtype=torch.bool)
        read = tensors["attention_mask"][0].bool().cpu() if "attention_mask" in tensors else torch.ones_like(content)
        content[read] = ~special[positions]
        rows.append((word_removal(model, tensors, content, how), piece[positions[~special[positions]]]))

    def leave_out(keep: Tensor) -> Tensor:
        total, count = torch.zeros(len(keep), 1), torch.zeros(len(keep), 1)
        for window, pieces in rows:
            left = keep[:, pieces]
            answers = left.sum(1) >= window.least
            if bool(answers.any()):
                logits = window.logits(left[answers])
                total = total.expand(-1, logits.shape[1]).index_add(0, torch.nonzero(answers).flatten(), logits)
                count = count + answers[:, None]
        return total / count

    least = max(window.least for window, _ in rows)
    return TokenRemoval(how, int((~special).sum()), least, leave_out)


def _filler(model: Model, tensors: Mapping[str, Tensor], content: Tensor, how: How) -> Callable[[Tensor], Tensor]:
    """Logits with a token of the tokenizer in the place of every word piece that is gone."""
    names = {"masked": "mask_token_id", "unknown": "unknown_token_id"}
    if how not in names:
        raise ExplainerError(f"how={how!r} is for images: word pieces are removed, masked or unknown.")
    token = model.details.get(names[how])
    if token is None:
        raise ExplainerError(f"The tokenizer of {model.name} has no token for how={how}: choose another way to take words away.")

    def fill(keep: Tensor) -> Tensor:
        stays = torch.ones(len(keep), len(content), dtype=torch.bool)
        stays[:, content.cpu()] = keep
        repeated = _repeated(model, tensors, len(keep))
        return _answer(model, {**repeated, "input_ids": repeated["input_ids"].where(stays.to(model.device), token)})

    return fill


def prompt_removal(model: Model, tensors: Mapping[str, Tensor], content: Tensor, place: int) -> TokenRemoval:
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
        repeated = _repeated(model, row, len(keep))
        for name, tensor in repeated.items():
            if model.is_sample(name):
                closed = tensor.gather(1, index)
                filled = torch.full_like(closed, padding if name == "input_ids" else 0) if padding is not None else closed[:, :left]
                filled[:, :left] = closed[:, :left]
                repeated[name] = filled
        answers = whole.repeat(len(keep), 1)
        answers[:, place] = _answer(model, repeated)[:, 0]
        return answers

    count = int(content.sum())
    return TokenRemoval("removed", count, _least(leave_out, count, length - count), leave_out, _most_tokens(model))


def painted(pixels: Tensor, keep: Tensor, grid: tuple[int, int]) -> Tensor:
    """Pixels (K, C, height, width), normalised, times how much of each patch is kept (K, N) in 0..1: 0 is the mean colour."""
    shown = F.interpolate(keep.to(pixels).unflatten(1, grid)[:, None], size=pixels.shape[-2:], mode="nearest")
    return pixels * shown


def _repeated(model: Model, tensors: Mapping[str, Tensor], times: int) -> dict[str, Tensor]:
    return {name: tensor.expand(times, *tensor.shape[1:]) if model.is_sample(name) else tensor for name, tensor in tensors.items()}


Hook = Callable[[nn.Module, tuple[Any, ...], dict[str, Any]], tuple[Any, Any] | None]


def _answer(model: Model, tensors: Mapping[str, Tensor], hooks: Sequence[tuple[nn.Module, Hook]] = (), stem: Stem | None = None) -> Tensor:
    """Logits (K, C), with some hooks before modules, which answer only to this thread; what comes before x^1 is taken from ``stem``."""
    thread = threading.get_ident()

    def mine(hook: Hook) -> Hook:
        return lambda *args: hook(*args) if threading.get_ident() == thread else None

    # not inference_mode: what a module computes once and keeps, such as rotary positions, is used with gradients later
    with torch.no_grad(), evaluating(model.module), ExitStack() as stack:
        if stem is not None:
            hooks = [(model.entry, stem.end), *hooks]
            stack.enter_context(stem)
        for module, hook in hooks:
            stack.callback(module.register_forward_pre_hook(mine(hook), with_kwargs=True).remove)
        return model.forward(tensors)


def _agree(first: Tensor, second: Tensor) -> bool:
    """Whether logits are the same but for rounding."""
    error = max(1e-3, 4 * torch.finfo(first.dtype).eps)
    return bool((first - second).abs().max() <= error * first.abs().max())


#: What a model may raise that counts on something which is not there; memory that runs out is another matter.
_REFUSALS = (RuntimeError, ValueError, IndexError, TypeError, AssertionError)


def _shared_stem(model: Model, tensors: Mapping[str, Tensor]) -> tuple[Stem | None, Tensor]:
    """What the model computes before x^1, where two inputs that share it get the answer that one gets alone, and that answer. Two forward
    passes tell.
    """
    stem = Stem()
    alone = _answer(model, tensors, stem=stem)
    try:
        both = _answer(model, tensors, [(model.entry, _first_time(lambda x: x.repeat_interleave(2, 0)))], stem)
    except torch.OutOfMemoryError:
        raise
    except _REFUSALS:
        return None, alone
    return (stem if both.shape == (2, *alone.shape[1:]) and _agree(alone, both) else None), alone


def _first_time(change: Callable[[Tensor], Tensor]) -> Hook:
    """A hook that changes the tokens the first time that its module runs."""
    waiting = True

    def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any] | None:
        nonlocal waiting
        if not waiting:
            return None
        waiting = False
        return with_tokens(args, kwargs, change(tokens_in(args, kwargs)))

    return hook


def _multiplier(model: Model, factor: Tensor) -> Hook:
    """A hook that multiplies the tokens at x^1 by ``factor`` (K, S)."""

    def change(given: Tensor) -> Tensor:
        tokens = as_tokens(given, model.channels)
        return as_given(tokens * factor.to(tokens)[:, :, None], given.shape, model.channels)

    return _first_time(change)


def _picker(model: Model, index: Tensor, prefix: int, count: int) -> list[tuple[nn.Module, Hook]]:
    """Hooks that pick of the tokens at x^1 those of ``index`` (K, T), ``prefix`` others first, and of the rotary positions that the blocks
    are given for all ``count`` patches those that go with them.
    """
    places = index[:, prefix:] - prefix

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
        x = tokens_in(args, kwargs)
        given = [value if value is x else positions(value) for value in args]
        return tuple(given), {name: value if value is x else positions(value) for name, value in kwargs.items()}

    return [(model.entry, _first_time(pick)), *((block, with_positions) for block in dict.fromkeys(model.blocks))]


def _drops(whole: Tensor, backwards: Callable[[], Tensor], half: Callable[[], Tensor]) -> bool:
    """Whether patches may be dropped: the model answers the same, ``whole``, when their tokens come ``backwards``, and it answers when
    ``half`` of them are gone.
    """
    try:
        after = backwards()
        half()
    except torch.OutOfMemoryError:
        raise
    except _REFUSALS:  # it counts on all of its tokens
        return False
    return _agree(whole, after)


def _least(ask: Callable[[Tensor], Tensor], count: int, special: int) -> int:
    """How many tokens must stay: 0 where there are ``special`` ones and the model answers with them alone."""
    if not special:
        return 1
    try:
        return 0 if bool(ask(torch.zeros(1, count, dtype=torch.bool)).isfinite().all()) else 1
    except torch.OutOfMemoryError:
        raise
    except _REFUSALS:
        return 1
