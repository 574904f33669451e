"""Texts longer than a model takes, cut into overlapping windows of which the model takes each whole."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from math import ceil

import torch

from explainers.errors import ExplainerError
from explainers.models.inputs.texts import TextReader, check_text, check_words
from explainers.models.inputs.types import Prepared, TextInput, Token, Windows, Word
from explainers.models.inputs.words import words_of

OVERLAP = 4  # neighbours share at least a quarter of what a window takes, so that every word has some context on both sides


def windows_of(reader: TextReader, text: str, device: torch.device) -> Windows | None:
    """Return the windows of ``text`` as ``reader`` tokenizes it, on ``device``, if the model cannot take it whole; None for a text that it
    can, and if there is no tokenizer or no limit.

    There are as few windows as an overlap of a quarter allows, evenly spread over the text and cut between words, so that neighbours
    share somewhat less than a quarter where long words stand at their ends.
    """
    if reader.tokenizer is None or reader.max_tokens is None or not text.strip():
        return None
    check_text(text)
    encoded = reader.tokenizer(text, return_offsets_mapping=True, return_special_tokens_mask=True, verbose=False)
    ids, special = encoded["input_ids"], [bool(s) for s in encoded["special_tokens_mask"]]
    if len(ids) <= reader.max_tokens:
        return None
    tokens = reader.tokens(text, ids, encoded["offset_mapping"], special)
    check_words(text, tokens)
    whole = TextInput(text, tokens, words_of(text, tokens, encoded.word_ids()))
    before, after = special.index(False), special[::-1].index(False)
    room = reader.max_tokens - before - after
    if room < 1:
        raise ExplainerError(f"the model takes {reader.max_tokens} tokens, and {before + after} of them are special: no word fits")
    head, tail = range(before), range(len(ids) - after, len(ids))
    spans = [(before + start, before + stop) for start, stop in _cuts(whole, room)]
    ends = [(*head, *range(*span), *tail) for span in spans]
    names = [name for name in encoded if name not in ("offset_mapping", "special_tokens_mask")]
    rows = {name: [[encoded[name][index] for index in indices] for indices in ends] for name in names}
    padded = reader.tokenizer.pad(rows, padding=True, return_tensors="pt", verbose=False)
    tensors = {name: tensor.to(device) for name, tensor in padded.items()}
    read = tensors.get("attention_mask", torch.ones_like(tensors["input_ids"])).bool().tolist()
    words = _words_between(whole, spans)
    inputs = tuple(_part(whole, *row) for row in zip(words, ends, read, strict=True))
    return Windows(whole, tuple(ids), Prepared(tensors, inputs, ((),) * len(inputs)), tuple(ends))


def _cuts(whole: TextInput, room: int) -> list[tuple[int, int]]:
    """Return the begin and end of each window of at most ``room`` word pieces, as indices among the word pieces of the text ``whole``;
    neighbours overlap by about a quarter.
    """
    pieces = [i for i, token in enumerate(whole.tokens) if not token.special]
    count = len(pieces)
    windows = 1 + ceil((count - room) / max(1, room - room // OVERLAP))
    index = {token: i for i, token in enumerate(pieces)}
    between = {index[word.tokens[0]] for word in whole.words} | {count}
    reach = room // (2 * OVERLAP)  # how far an end moves to stand between words
    cuts = []
    for i in range(windows):
        first = i * (count - room) // (windows - 1)
        start = next((at for at in range(first, first + reach + 1) if at in between), first)
        stop = next((at for at in range(first + room, first + room - reach - 1, -1) if at in between), first + room)
        cuts.append((start, stop))
    return cuts


def _words_between(whole: TextInput, spans: Sequence[tuple[int, int]]) -> list[tuple[Word, ...]]:
    """Return the words that have a token in each span ``[start, stop)`` of the tokens of the text ``whole``; a window looks at no
    others.
    """
    first, last = [word.tokens[0] for word in whole.words], [word.tokens[-1] for word in whole.words]
    return [whole.words[bisect_left(last, start) : bisect_left(first, stop)] for start, stop in spans]


def _part(whole: TextInput, words: Sequence[Word], indices: Sequence[int], mask: Sequence[bool]) -> TextInput:
    """Return the record of one row of windows of a long text: the tokens of ``whole`` at ``indices`` and their ``words``, with padding
    where ``mask`` is False.
    """
    real = [i for i, attended in enumerate(mask) if attended]
    where = dict(zip(indices, real, strict=True))
    tokens = [Token("", 0, 0, True)] * len(mask)
    for index, row in where.items():
        tokens[row] = whole.tokens[index]
    parts = (replace(word, tokens=tuple(where[i] for i in word.tokens if i in where)) for word in words)
    return TextInput(whole.text, tuple(tokens), tuple(part for part in parts if part.tokens))
