"""Tokenizers that do not say where in the text a token stands (ESM's, and others written in Python): its place is found by its letters."""

from __future__ import annotations

import unicodedata
from collections import UserDict
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Literal

import torch

from explainers.errors import ExplainerError

Span = tuple[int, int]
#: How pieces of a word are marked: the pieces that continue a word (as in BERT), or those that begin or end one.
_CONTINUES, _BEGINS, _ENDS = "##", ("▁", "Ġ"), "</w>"
_FAR = 64  # characters after the last token among which a piece is looked for


class Encoding(UserDict[str, Any]):
    """The result of a slow tokenizer, with what a fast one adds, by row: for each token the number of its word (``words``) and of its text
    (``parts``), None for special ones.
    """

    words: list[list[int | None]]
    parts: list[list[int | None]]

    def word_ids(self, batch_index: int = 0) -> list[int | None]:
        """Return for each token of row ``batch_index`` the number of the word that it belongs to; None for a special token."""
        return self.words[batch_index]

    def sequence_ids(self, batch_index: int = 0) -> list[int | None]:
        """Return for each token of row ``batch_index`` the text of the pair, 0 or 1, that it belongs to; None for a special token."""
        return self.parts[batch_index]


class OffsetTokenizer:
    """A slow tokenizer that also returns the position of each token in the text. Everything else is passed on to ``slow``, the tokenizer
    itself.
    """

    def __init__(self, slow: Any) -> None:
        self.slow = slow

    def __getattr__(self, name: str) -> Any:
        if name == "slow":  # while it is copied, before there is one
            raise AttributeError(name)
        return getattr(self.slow, name)

    def __len__(self) -> int:
        """Return the number of pieces in the vocabulary."""
        return len(self.slow)

    def __call__(
        self, text: Any, text_pair: Any = None, *, return_offsets_mapping: bool = False, return_tensors: str | None = None, **how: Any
    ) -> Any:
        """Tokenize ``text``, one or several, or pairs with ``text_pair``, with the slow tokenizer, and return its ids and masks by name.
        With ``return_offsets_mapping`` they hold the characters of each token; ``how`` are its other arguments.
        """
        if not return_offsets_mapping:
            return self.slow(text, text_pair, return_tensors=return_tensors, **how)
        texts, seconds = ([text], [text_pair]) if isinstance(text, str) else (list(text), text_pair or [None] * len(text))
        keeps_mask = how.pop("return_special_tokens_mask", False)
        encoded = self.slow(texts, None if seconds[0] is None else list(seconds), return_special_tokens_mask=True, **how)
        out = Encoding(dict(encoded))
        out.words, out.parts, places = [], [], []
        for row, pair in enumerate(zip(texts, seconds, strict=True)):
            offsets, words, parts = self._places(encoded["input_ids"][row], encoded["special_tokens_mask"][row], pair)
            places.append(offsets)
            out.words.append(words)
            out.parts.append(parts)
        out["offset_mapping"] = places
        if not keeps_mask:
            out.pop("special_tokens_mask")
        if isinstance(text, str) and return_tensors is None:
            out.data = {name: rows[0] for name, rows in out.data.items()}
        if return_tensors is not None:
            try:
                out.data = {name: torch.tensor(rows) for name, rows in out.data.items()}
            except ValueError as problem:  # as transformers has it for rows of different length
                raise ValueError(f"rows of different length: {problem}") from problem
        return out

    def _places(
        self, ids: Sequence[int], is_special: Sequence[int], texts: tuple[str, str | None]
    ) -> tuple[list[Span], list[int | None], list[int | None]]:
        """Return, for each token of ``ids``, the characters that it stands for, its word and its text, for one text or a pair, ``texts``;
        ``is_special`` says which tokens stand for no text.
        """
        pieces = self.slow.convert_ids_to_tokens(ids)
        parts = _parts_of(is_special, texts[1] is not None)
        offsets: list[Span] = [(0, 0)] * len(pieces)
        words: list[int | None] = [None] * len(pieces)
        number = -1
        for part, text in enumerate(texts):
            members = [i for i, p in enumerate(parts) if p == part]
            spans = spans_of(text or "", [self._letters(pieces[i]) for i in members])
            begun = True
            for i, span in zip(members, spans, strict=True):
                number += self._begins_word(pieces[i], begun)
                words[i], offsets[i], begun = max(number, 0), span, pieces[i].endswith(_ENDS)
        return offsets, words, parts

    def _letters(self, piece: str) -> str:
        """Return the text that ``piece``, a piece of the vocabulary, stands for."""
        if piece == self.slow.unk_token:
            return ""
        if piece.startswith(_CONTINUES) and self._marks == "continues":
            return piece.removeprefix(_CONTINUES)
        return str(self.slow.convert_tokens_to_string([piece])).strip() if self._marks != "none" else piece

    def _begins_word(self, piece: str, begun: bool) -> bool:
        """Return whether ``piece`` of the vocabulary begins a word; ``begun``: whether a word ended right before it."""
        if self._marks == "continues":
            return not piece.startswith(_CONTINUES)
        if self._marks == "begins":
            return begun or piece.startswith(_BEGINS)
        return begun if self._marks == "ends" else True

    @cached_property
    def _marks(self) -> Literal["continues", "begins", "ends", "none"]:
        """Which pieces the vocabulary marks to join pieces into words: those that ``continues`` a word, ``begins`` or ``ends`` one;
        ``none``: each piece is a word, such as a residue of a protein.
        """
        vocabulary = [piece for piece in self.slow.get_vocab() if len(piece) > 1]
        if any(piece.startswith(_CONTINUES) and len(piece) > len(_CONTINUES) for piece in vocabulary):
            return "continues"
        if any(piece.startswith(_BEGINS) for piece in vocabulary):
            return "begins"
        return "ends" if any(piece.endswith(_ENDS) for piece in vocabulary) else "none"


def with_offsets(tokenizer: Any) -> Any:
    """Return a tokenizer that gives the places of its tokens: itself, or a slow one of transformers in an :class:`OffsetTokenizer`.

    Raises ExplainerError if it is no tokenizer of transformers.
    """
    if tokenizer is None or getattr(tokenizer, "is_fast", False) or isinstance(tokenizer, OffsetTokenizer):
        return tokenizer
    if not all(hasattr(tokenizer, name) for name in ("convert_ids_to_tokens", "get_vocab", "convert_tokens_to_string")):
        raise ExplainerError(
            f"tokenizer= takes no {type(tokenizer).__name__}: pass a tokenizer of transformers, such as AutoTokenizer gives"
        )
    return OffsetTokenizer(tokenizer)


def _parts_of(is_special: Sequence[int], is_pair: bool) -> list[int | None]:
    """Return, for each token, 0 for the first text, 1 for the second, and None for a special one; special tokens (1 in ``is_special``)
    separate the texts of a pair (``is_pair``).
    """
    part, parts = 0, list[int | None]()
    for place, special in enumerate(is_special):
        after_gap = place > 0 and is_special[place - 1] and 0 in parts
        part = 1 if is_pair and (part or (after_gap and not special)) else 0
        parts.append(None if special else part)
    return parts


def spans_of(text: str, pieces: Sequence[str]) -> list[Span]:
    """Return the characters ``[start, end)`` of ``text`` that each piece stands for, in order: by its letters, whatever their case and
    accents. Pieces that are not found, such as unknown words, stand for what lies between their neighbours.
    """
    plain, places = _simplify(text)
    spans_found: list[Span | None] = []
    cursor = 0
    for piece in pieces:
        letters = _simplify(piece)[0].strip()
        while cursor < len(plain) and plain[cursor].isspace():
            cursor += 1
        start = plain.find(letters, cursor, cursor + len(letters) + _FAR) if letters else -1
        if start < 0:
            spans_found.append(None)
            continue
        cursor = start + len(letters)
        spans_found.append((places[start], places[cursor - 1] + 1))
    return _with_gaps(text, spans_found)


def _with_gaps(text: str, spans_found: Sequence[Span | None]) -> list[Span]:
    """Return the spans of all pieces. Pieces that were not found share the text between their neighbours: one word each, and the rest for
    the last.
    """
    spans: list[Span] = []
    for index, known in enumerate(spans_found):
        span = known
        if span is None:
            start = spans[-1][1] if spans else 0
            end = next((later[0] for later in spans_found[index:] if later is not None), len(text))
            gap = text[start:end]
            is_last = index + 1 == len(spans_found) or spans_found[index + 1] is not None
            first = gap.split()[:1]
            start += len(gap) - len(gap.lstrip())
            span = (min(start, end), max(start, start + len(gap.strip())) if is_last or not first else start + len(first[0]))
        spans.append(span)
    return spans


def _simplify(text: str) -> tuple[str, list[int]]:
    """Return a text without case and accents, and for each of its characters the index in ``text``."""
    plain, places = [], []
    for place, character in enumerate(text):
        for part in unicodedata.normalize("NFKD", character.casefold()):
            if not unicodedata.combining(part):
                plain.append(part)
                places.append(place)
    return "".join(plain), places
