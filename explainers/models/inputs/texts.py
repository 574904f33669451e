"""Texts: tokens with their places in the text, and the words they belong to (see :mod:`explainers.models.inputs.words`)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import torch
from torch import Tensor

from explainers.errors import ExplainerError
from explainers.models.inputs.types import Prepared, TextInput, TextPair, Token, Word
from explainers.models.inputs.words import words_of

_SPREAD = re.compile(r"(?<=\w) (['’ʼ‐‑-]) (?=\w)")
_UNLIMITED = 1_000_000  # tokenizers without a limit declare numbers like 1e30
#: What a tokenizer's configuration says as ``long_texts`` if its model learned to read the two ends of what it can't take whole
#: (Sun et al., How to Fine-Tune BERT for Text Classification, 2019: verdicts stand at the end). Other models read the beginning.
BOTH_ENDS = "beginning and end"
_ONE_TYPE = (
    "The model can tell two texts apart by token_type_ids, and its tokenizer gives none (its model_input_names leave them out): all tokens "
    "count as those of the first text, as in transformers' pipeline."
)
HEAD_SHARE = 4  # a quarter of what is read then is from the beginning


@dataclass(frozen=True)
class Excerpt:
    """The part of a text that the tokenizer gets: ``text`` is the original with its characters ``[head, tail)`` replaced by ``gap``."""

    text: str
    head: int = 0
    tail: int = 0
    gap: str = ""

    @classmethod
    def without(cls, text: str, head: int, tail: int) -> Excerpt:
        """Return an excerpt of ``text`` without ``text[head:tail]``. White space separates the two ends: that of the text, or if there is
        none a space.
        """
        if text[tail - 1].isspace():
            tail -= 1
        gap = "" if text[tail].isspace() else " "
        return cls(text[:head] + gap + text[tail:], head, tail, gap)

    def place(self, start: int, end: int) -> tuple[int, int]:
        """Return the place in the original of the characters ``[start, end)`` of the excerpt."""
        if not self.tail:
            return start, end
        if start < self.head < end:  # some tokenizers make one piece of neighbours they don't know
            return start, self.head
        shift = self.tail - self.head - len(self.gap)
        return start if start < self.head else max(self.tail, start + shift), end if end <= self.head else end + shift


@dataclass(frozen=True)
class TextReader:
    """A reader that converts texts to tensors and words, for one model.

    tokenizer   a tokenizer of transformers that returns character offsets; None: only tensors are accepted
    max_tokens  maximum number of tokens of the model, special ones included; None if there is no limit
    special     ids of special tokens for tensors without a tokenizer
    types       whether the model distinguishes the texts of a pair by their tokens' types
    """

    tokenizer: Any
    max_tokens: int | None
    special: frozenset[int] = frozenset()
    types: bool = False

    def read(self, texts: Sequence[str], device: torch.device, padding: bool | str = True) -> Prepared:
        """Tokenize ``texts`` and return their tensors on ``device`` with a record of each, padded to one length as ``padding`` says. Texts
        that are too long are cut in the way in which the model was trained.
        """
        self._check(texts)
        wholes = [self._words_of_long_text(text) for text in texts]
        excerpts = [self._excerpt(text, whole) for text, whole in zip(texts, wholes, strict=True)]
        encoded = self._encode([excerpt.text for excerpt in excerpts], padding)
        tensors = {name: encoded[name].to(device) for name in encoded if isinstance(encoded[name], Tensor)}
        offsets, special = tensors.pop("offset_mapping"), tensors.pop("special_tokens_mask")
        records, notes = [], []
        for row, (text, excerpt) in enumerate(zip(texts, excerpts, strict=True)):
            spans = [excerpt.place(start, end) for start, end in offsets[row].tolist()]
            tokens = self.tokens(text, tensors["input_ids"][row].tolist(), spans, [bool(s) for s in special[row].tolist()])
            check_words(text, tokens)
            words = words_of(text, tokens, encoded.word_ids(row))
            records.append(TextInput(text, tokens, words))
            notes.append(self._truncation_note(wholes[row], words))
        return Prepared(tensors, tuple(records), tuple(notes))

    def read_pairs(self, pairs: Sequence[TextPair], device: torch.device) -> Prepared:
        """Tokenize each of ``pairs`` as one sequence and return their tensors on ``device`` with a record of each. A pair is a sequence
        whose longer text is cut first if both do not fit.
        """
        self._check([text for pair in pairs for text in (pair.first, pair.second)])
        encoded = self._encode([pair.first for pair in pairs], True, [pair.second for pair in pairs])
        tensors = {name: encoded[name].to(device) for name in encoded if isinstance(encoded[name], Tensor)}
        offsets, special = tensors.pop("offset_mapping"), tensors.pop("special_tokens_mask")
        records, notes = [], []
        for row, pair in enumerate(pairs):
            parts = [None if s else part for part, s in zip(encoded.sequence_ids(row), special[row].tolist(), strict=True)]
            spans = [(int(start), int(end)) for start, end in offsets[row].tolist()]
            record = self._pair((pair.first, pair.second), tensors["input_ids"][row].tolist(), spans, parts, encoded.word_ids(row))
            records.append(record)
            notes.append((*self._truncation_of(pair, record), *(() if "token_type_ids" in tensors or not self.types else (_ONE_TYPE,))))
        return Prepared(tensors, tuple(records), tuple(notes))

    def _pair(
        self, texts: tuple[str, str], ids: Sequence[int], spans: Sequence[tuple[int, int]], parts: Sequence[int | None], numbers: Any
    ) -> TextInput:
        """Return the record of two texts that were tokenized together, from the ids of their tokens, the characters ``spans`` of each, the
        text that each belongs to (``parts``; None: neither), and the word numbers of the tokenizer.
        """
        sides = []
        for part, text in enumerate(texts):
            part_spans = [span if p == part else (0, 0) for span, p in zip(spans, parts, strict=True)]
            sides.append(self.tokens(text, ids, part_spans, [p != part for p in parts]))
        words = []
        for part, (text, side) in enumerate(zip(texts, sides, strict=True)):
            check_words(text, side)
            words += [replace(word, part=part) for word in words_of(text, side, numbers)]
        tokens = tuple(replace(sides[part or 0][i], part=part or 0) for i, part in enumerate(parts))
        return TextInput(texts[0], tokens, tuple(words), texts[1])

    def _truncation_of(self, pair: TextPair, record: TextInput) -> tuple[str, ...]:
        """Return notes on how many words of each text of ``pair`` did not fit and are missing from its ``record``; none if all fit."""
        if self.max_tokens is None or len(self.tokenizer(pair.first, pair.second, verbose=False)["input_ids"]) <= self.max_tokens:
            return ()
        notes = []
        for part, (name, text) in enumerate((("first", pair.first), ("second", pair.second))):
            every = len(self._words(text)[0])
            if left := every - sum(word.part == part for word in record.words):
                plural = "word" if left == 1 else "words"
                notes.append(
                    f"The model takes {self.max_tokens} tokens, so the last {left} {plural} of {every} of the {name} text left out."
                )
        return tuple(notes)

    def _check(self, texts: Sequence[Any]) -> None:
        """Raise ExplainerError if one of ``texts`` is no text."""
        for text in texts:
            check_text(text)
            if not text.strip():
                raise ExplainerError("the text is empty; send at least one word")
        if self.tokenizer is None:
            raise ExplainerError("this model has no tokenizer; pass tokenizer= to wrap, or send tensors (input_ids, attention_mask)")

    def _encode(self, texts: Sequence[str], padding: bool | str, seconds: Sequence[str] | None = None) -> Any:
        limit = {"truncation": True, "max_length": self.max_tokens} if self.max_tokens else {}
        if self.tokenizer.pad_token_id is None:
            padding = False  # nothing to pad with: texts of one length need none
        try:
            return self.tokenizer(
                list(texts),
                seconds,
                padding=padding,
                return_tensors="pt",
                return_offsets_mapping=True,
                return_special_tokens_mask=True,
                **limit,
            )
        except ValueError as problem:
            if padding or len(texts) == 1:
                raise
            raise ExplainerError(
                "the tokenizer has no padding token, and these texts differ in length: explain them one at a time, or set "
                "tokenizer.pad_token to one that the model was trained with"
            ) from problem

    def tokens(self, text: str, ids: Sequence[int], spans: Sequence[tuple[int, int]], special: Sequence[bool]) -> tuple[Token, ...]:
        """Return the tokens of ``text`` from their ``ids``, the characters ``spans`` that each stands for, and whether
        each is ``special``.
        """
        pieces = self.tokenizer.convert_ids_to_tokens(ids)
        tokens = []
        for piece, (start, end), is_special in zip(pieces, spans, special, strict=True):
            begin, stop = _trim(text, start, end)
            tokens.append(Token(piece, 0, 0, True) if is_special else Token(text[begin:stop] or piece, begin, stop, False))
        return tuple(tokens)

    def _words_of_long_text(self, text: str) -> tuple[Word, ...] | None:
        """Return all words of a text that is too long for the model; None for one that is not."""
        if self.max_tokens is None:
            return None
        every, count = self._words(text)
        return every if count > self.max_tokens - self.tokenizer.num_special_tokens_to_add() else None

    def _words(self, text: str) -> tuple[tuple[Word, ...], int]:
        """Return all words of a text, however long it is, and the number of its tokens without special ones."""
        whole = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        pieces = tuple(Token("", *_trim(text, *span), False) for span in whole["offset_mapping"])
        return words_of(text, pieces, whole.word_ids()), len(pieces)

    def _excerpt(self, text: str, whole: Sequence[Word] | None) -> Excerpt:
        """Return the whole text if it fits or the tokenizer cuts it; else its two ends, cut between words."""
        if self.max_tokens is None or whole is None or getattr(self.tokenizer, "init_kwargs", {}).get("long_texts") != BOTH_ENDS:
            return Excerpt(text)
        room = self.max_tokens - self.tokenizer.num_special_tokens_to_add()
        count = sum(len(word.tokens) for word in whole)
        head = [word.end for word in whole if word.tokens[-1] < room // HEAD_SHARE]
        tail = [word.start for word in whole if word.tokens[0] >= count - (room - room // HEAD_SHARE)]
        return Excerpt.without(text, head[-1] if head else 0, tail[0]) if tail else Excerpt(text)

    def _truncation_note(self, whole: Sequence[Word] | None, words: Sequence[Word]) -> tuple[str, ...]:
        """Return a note on how many words of a too long text (``whole``; None: it was not too long) were left out, which are not in
        ``words``, and where.
        """
        if whole is None:
            return ()
        read = {word.start for word in words}
        is_read = [word.start in read for word in whole]
        left_out = is_read.count(False)
        place = "last" if is_read[0] and not is_read[-1] else "first" if is_read[-1] and not is_read[0] else "middle"
        plural = "word was" if left_out == 1 else "words were"
        return (f"The model takes {self.max_tokens} tokens, so the {place} {left_out} {plural} left out of {len(whole)}.",)

    def read_tensors(self, tensors: Mapping[str, Tensor]) -> tuple[TextInput, ...]:
        """Return one record for each text in ``tensors``, which were passed as ``input_ids`` and perhaps ``attention_mask``. A record has
        the text if tokenizing the decoded ids gives the same ids.
        """
        ids = tensors["input_ids"]
        mask = tensors.get("attention_mask", torch.ones_like(ids))
        return tuple(self._record(row.tolist(), attended.bool().tolist()) for row, attended in zip(ids.cpu(), mask.cpu(), strict=True))

    def _record(self, ids: list[int], attended: list[bool]) -> TextInput:
        known = self.special if self.tokenizer is None else special_ids(self.tokenizer)
        special = [i in known or not s for i, s in zip(ids, attended, strict=True)]
        if self.tokenizer is None:
            return TextInput(None, tuple(Token(str(i), 0, 0, s) for i, s in zip(ids, special, strict=True)), ())
        runs = [list(run) for is_special, run in groupby(range(len(ids)), special.__getitem__) if not is_special]
        pair = len(runs) == 2  # two texts, parted by special tokens
        parts = [None if s else int(pair and i >= runs[1][0]) for i, s in enumerate(special)]
        texts, places, numbers = [], list[tuple[int, int]]([(0, 0)] * len(ids)), list[int | None]([None] * len(ids))
        for part in range(1 + pair):
            members = [i for i, p in enumerate(parts) if p == part]
            decoded = self._decode([ids[i] for i in members])
            if decoded is None:
                pieces = self.tokenizer.convert_ids_to_tokens(ids)
                return TextInput(None, tuple(Token(p, 0, 0, s) for p, s in zip(pieces, special, strict=True)), ())
            text, encoding = decoded
            texts.append(text)
            for i, span, number in zip(members, encoding["offset_mapping"], encoding.word_ids(), strict=True):
                places[i], numbers[i] = tuple(span), number
        if pair:
            return self._pair((texts[0], texts[1]), ids, places, parts, numbers)
        tokens = self.tokens(texts[0], ids, places, special)
        return TextInput(texts[0], tokens, words_of(texts[0], tokens, numbers))

    def _decode(self, ids: list[int]) -> tuple[str, Any] | None:
        """Find a text that the tokenizer cuts into exactly these ids; return it with the result, or None if there is none."""
        decoded = self.tokenizer.decode(ids)
        # "don ' t", as some tokenizers decode it, gives the same ids as "don't"; a reader prefers the latter
        for text in (_SPREAD.sub(r"\1", decoded), decoded):
            encoding = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
            if encoding["input_ids"] == ids:
                return text, encoding
        return None


def check_words(text: str, tokens: Sequence[Token]) -> None:
    """Raise ExplainerError if none of ``tokens`` of ``text`` stands for a word."""
    if all(token.special for token in tokens):
        raise ExplainerError(f"the tokenizer finds no words in {text[:40]!r}; send a text with at least one word")


def check_text(text: object) -> None:
    """Raise ExplainerError for a value that is no text, and for a text that cannot be encoded."""
    if not isinstance(text, str):
        raise ExplainerError(f"a text model takes the text itself, not a {type(text).__name__}; send a string")
    try:
        text.encode()
    except UnicodeEncodeError as problem:
        code = f"U+{ord(text[problem.start]):04X}"
        raise ExplainerError(
            f"character {problem.start + 1} of the text is half of one ({code}, a surrogate without its partner); send text that is valid "
            "Unicode, for example text.encode('utf-16', 'surrogatepass').decode('utf-16', 'replace')"
        ) from None


def _trim(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the characters ``[start, end)`` of a token of ``text`` without white space at their ends, which some tokenizers include."""
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end


def special_ids(source: Any) -> frozenset[int]:
    """Return the ids of the tokens that stand for no part of the text, such as padding, as ``source`` (a tokenizer or a configuration)
    names them. Unknown words and [MASK] are not among them.
    """
    names = ("pad_token_id", "cls_token_id", "sep_token_id", "bos_token_id", "eos_token_id")
    ids = (getattr(source, name, None) for name in names)
    return frozenset(i for i in ids if isinstance(i, int))


def token_limit(tokenizer: Any, config: Any, module: torch.nn.Module) -> int | None:
    """Return the largest number of tokens that ``module`` takes; None if unknown. It is the smaller of the limit of ``tokenizer`` and of
    the number of rows of the position table that can be reached, as ``config`` declares it.
    """
    limits = []
    if tokenizer is not None and tokenizer.model_max_length < _UNLIMITED:
        limits.append(int(tokenizer.model_max_length))
    rows = getattr(config, "max_position_embeddings", None)
    if isinstance(rows, int) and rows > 0:
        table = next((m for m in module.modules() if isinstance(m, torch.nn.Embedding) and m.num_embeddings == rows), None)
        # a table with a padding row (RoBERTa) counts positions from the row after it
        limits.append(rows - (table.padding_idx + 1 if table is not None and table.padding_idx is not None else 0))
    return min(limits, default=None)
