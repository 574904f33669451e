"""The token of a text from which each row of the embedded tokens comes, for models that read more rows than the text has tokens.

A model may append rows of its own (memory, prompts), read the words a second time, join neighbours to further rows, or pad the text. Which
of these a row is, is measured: each token of the text is changed alone, and each further row is moved alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from explainers.models.model import Model
from explainers.models.structure.blocks import trial
from explainers.models.structure.hooks import in_this_thread, remove_hooks_after
from explainers.models.structure.watching import embed
from explainers.models.tokens import mask_of

#: The sources of rows that come from no single token: no token of the text changes them; several tokens do; the answer does not depend on
#: them.
OWN, SEVERAL, PADDING = -1, -2, -3
#: The share of its largest change below which a row is not changed by a token.
_UNCHANGED_SHARE = 1e-5
#: How alike the changes of two rows must be (their cosine over the tokens of the text) if both come from one token.
_SAME_TOKEN = 0.9
#: How many epsilons of its type the answer must change by if a row matters to it, relative to the largest logit.
_ROUNDING = 16
_TEXTS_PER_PASS = 32


@dataclass(frozen=True, eq=False)
class TokenSources:
    """The source of each row of the embedded tokens of a text of ``length`` tokens.

    rows  (S,) int64, on the CPU: the index of a token, or :data:`OWN`, :data:`SEVERAL` or :data:`PADDING`. Row i < ``length`` is that of
          token i, or OWN if it does not depend on token i or any other
    """

    rows: Tensor
    length: int

    @property
    def own_count(self) -> int:
        """The number of rows that are the model's own, of no token."""
        return int((self.rows == OWN).sum())

    @property
    def several_count(self) -> int:
        """The number of rows that are made of several tokens each."""
        return int((self.rows == SEVERAL).sum())

    def mask(self, text_mask: Tensor) -> Tensor:
        """Return which rows (B, S) are real, from the mask (B, length) of the real tokens: a second row is if its token is, and a row that
        comes from no single token is, but for padding.
        """
        sources = self.rows[self.length :].to(text_mask.device)
        further = text_mask[:, sources.clamp(min=0)] & (sources >= 0) | (sources == OWN) | (sources == SEVERAL)
        return torch.cat([text_mask, further], 1)

    def rows_like(self, tokens: Tensor) -> Tensor:
        """Return which rows (B, S) come from one of the ``tokens``, bool (B, S), of which those after the text are not read."""
        sources = self.rows.to(tokens.device)
        return tokens[:, sources.clamp(min=0)] & (sources >= 0)

    def fold(self, values: Tensor, content: Tensor) -> tuple[Tensor, Tensor]:
        """Add the ``values`` (B, S) of second rows to those of their tokens. Return the values, 0 in all rows that show no token, and the
        sum (B,) of what was in rows of the model's own. Rows of the text that no token changes are such if they are ``content`` (B, S), and
        else keep their values: those of special tokens that the model embeds in another way.
        """
        sources = self.rows.to(values.device)
        is_own = ((sources == OWN) | (sources == SEVERAL)).expand_as(values).clone()
        is_own[:, : self.length] &= content[:, : self.length].to(values.device)
        own_sum = (values * is_own).sum(1)
        folded = values.masked_fill(is_own, 0.0)
        second = (sources >= 0) & (torch.arange(len(sources), device=values.device) >= self.length)
        moved = torch.zeros_like(values).index_add(1, sources[second], values[:, second])
        return folded.masked_fill(second, 0.0) + moved, own_sum


@dataclass(frozen=True, eq=False)
class RealTokens:
    """Which of the embedded tokens (B, S) of a batch are real, and not padding.

    of_input  bool (B, S): those that the mask of the input names
    all       bool (B, S): these, and the rows that the model adds to a text
    sources   the token of a text from which each row comes; None for pictures, and where every row is that of its token
    """

    of_input: Tensor
    all: Tensor
    sources: TokenSources | None


def real_tokens_of(model: Model, tensors: Mapping[str, Tensor], x: Tensor, has_own_words: bool) -> RealTokens:
    """Return which of the embedded tokens ``x`` (B, S, D), which ``model`` made of ``tensors``, are real; ``has_own_words`` as in
    :class:`explainers.models.layout.Layout`.
    """
    if not model.reads_text:
        of_input = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)
        return RealTokens(of_input, of_input, None)
    of_input, sources = mask_of(tensors, x), token_sources_of(model, tensors, x.shape[1], has_own_words)
    return RealTokens(of_input, of_input if sources is None else sources.mask(of_input[:, : sources.length]), sources)


def token_sources_of(model: Model, tensors: Mapping[str, Tensor], rows: int, has_own: bool) -> TokenSources | None:
    """Return the sources of the ``rows`` rows of embedded tokens that ``model`` makes of each text in ``tensors``; None if each row is that
    of a token of the text. They are measured once for each length of texts. ``has_own``: whether rows of the text may be the model's own.

    Texts with a picture and molecules have no further rows that could be measured, so None is returned for them.
    """
    ids = tensors.get("input_ids")
    if ids is None or model.reads_pictures or (rows <= ids.shape[1] and not has_own):
        return None
    place = None if model.reading is None else model.reading.place.at
    key = ("token_sources", model.name, model.side, place, ids.shape[1], rows)
    return model.cached(key, lambda: TokenSources(_find_sources(model, _longest_text(model, tensors), rows), ids.shape[1]))


def _longest_text(model: Model, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors of the text with the most tokens that are no padding, with none of them masked."""
    ids, mask = tensors["input_ids"], tensors.get("attention_mask")
    i = 0 if mask is None or mask.shape != ids.shape else int(mask.sum(1).argmax())
    text = {name: tensor[i : i + 1] if model.is_sample(name) else tensor for name, tensor in tensors.items()}
    return text if mask is None or mask.shape != ids.shape else {**text, "attention_mask": torch.ones_like(mask[:1])}


def _find_sources(model: Model, text: Mapping[str, Tensor], rows: int) -> Tensor:
    """Return the source of each of the ``rows`` rows of the embedded tokens of one ``text``, (rows,)."""
    length = text["input_ids"].shape[1]
    changes = _changes_by_token(model, text, rows)
    largest = changes.amax(1, keepdim=True)
    shares = changes / torch.where(largest > 0, largest, 1.0)
    alike = F.cosine_similarity(shares[:, :, None], shares[:, None, :length], dim=0)  # (rows, length)
    likeness, token = alike.max(1)
    sources = torch.where(likeness > _SAME_TOKEN, token, SEVERAL)
    sources[shares.amax(0) < _UNCHANGED_SHARE] = OWN
    first = torch.arange(length)
    sources[:length] = torch.where((sources[:length] == OWN) & bool(largest.any()), OWN, first)
    sources[length:] = torch.where(_matter(model, text, rows), sources[length:], PADDING)
    return sources


def _batches(count: int) -> Iterator[range]:
    return (range(first, min(first + _TEXTS_PER_PASS, count)) for first in range(0, count, _TEXTS_PER_PASS))


def _changes_by_token(model: Model, text: Mapping[str, Tensor], rows: int) -> Tensor:
    """Return how far each row of the embedded tokens moves if one token of ``text`` is changed: (tokens, rows), float64, on the CPU."""
    ids = text["input_ids"]
    changes = torch.zeros(ids.shape[1], rows, dtype=torch.float64)
    for places in _batches(ids.shape[1]):
        changed = ids.repeat(1 + len(places), 1)
        for row, place in enumerate(places, 1):
            others = [int(token) for token in ids[0] if token != ids[0, place]]
            changed[row, place] = others[place % len(others)] if others else (int(ids[0, place]) or 2) - 1
        x = embed(model.module, model, model.forward, {**model.repeat(text, len(changed)), "input_ids": changed}).detach()
        changes[list(places)] = (x[1:].double() - x[:1].double()).norm(dim=-1).cpu()
    return changes


def _matter(model: Model, text: Mapping[str, Tensor], rows: int) -> Tensor:
    """Return for each row of the embedded tokens after those of ``text`` whether the answer changes if that row is moved: bool (further,).
    All are moved at once first: if the answer stays the same, they are padding.
    """
    length = text["input_ids"].shape[1]
    together = _is_changed(model, text, torch.arange(rows)[None] >= length)
    if not bool(together):
        return torch.zeros(rows - length, dtype=torch.bool)
    each = [_is_changed(model, text, torch.eye(rows, dtype=torch.bool)[length:][list(places)]) for places in _batches(rows - length)]
    return torch.cat(each) if each else torch.zeros(0, dtype=torch.bool)


def _is_changed(model: Model, text: Mapping[str, Tensor], moved: Tensor) -> Tensor:
    """Return for each row of ``moved``, bool (N, rows), whether the answer to ``text`` changes if noise as strong as the embedded tokens is
    added to these of them: bool (N,).
    """
    first = True

    def hook(module: object, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        nonlocal first
        if not first:
            return None
        first = False
        x = model.block_kind.input_tokens(args, kwargs)
        noise = torch.randn(x.shape[1:], generator=torch.Generator().manual_seed(0)).to(x) * x.std()
        selected = torch.cat([torch.zeros_like(moved[:1]), moved]).to(x)[..., None]
        return model.block_kind.with_input_tokens(args, kwargs, x + noise * selected)

    handle = model.entry.register_forward_pre_hook(in_this_thread(hook), with_kwargs=True)
    with remove_hooks_after([handle]), trial(model.module):
        answers = model.forward(model.repeat(text, 1 + len(moved)))
    least = _ROUNDING * torch.finfo(answers.dtype).eps * answers.abs().amax()
    return ((answers[1:] - answers[:1]).abs().amax(1) > least).cpu()
