"""The film reviews that ``reviews-bert`` learns from and is measured on: reading, cleaning, holding out, batching.

The data folder holds ``sst2.jsonl.xz``, ``imdb.jsonl.xz`` and ``eraser_movies.jsonl.xz``. It is not part of the project.
"""

from __future__ import annotations

import json
import lzma
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from explainers.models.inputs.texts import HEAD_SHARE

FILES = {"sst2": "sst2.jsonl.xz", "imdb": "imdb.jsonl.xz", "eraser": "eraser_movies.jsonl.xz"}
POSITIVE = (1, "pos", "POS")  # the labels of a positive review in the three files
NEGATIVE = (0, "neg", "NEG")
TRAINING = {"sst2": ("train", "dev"), "imdb": ("train",), "eraser": ("train",)}
# What is measured and never trained on. SST-2's "test" in this file is what GLUE calls its validation set.
HELD_OUT = {
    "ERASER movies, validation": ("eraser", "val"),
    "ERASER movies, test": ("eraser", "test"),
    "SST-2, validation (GLUE)": ("sst2", "test"),
    "IMDB, test": ("imdb", "test"),
}

Pieces = NDArray[np.int32]
Batch = dict[str, Tensor]


@dataclass(frozen=True)
class Review:
    """A cleaned text, and its author's opinion of the film as a label."""

    text: str
    label: float  # 0 negative, 1 positive; 0.5 without an opinion


def rows(data: Path, source: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of ``source``, a name in ``FILES``, from its file in the folder ``data``, each as a dict. Raises FileNotFoundError,
    with what to do, if the file is missing.
    """
    path = data / FILES[source]
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing; --data must name a folder that holds {', '.join(FILES.values())}")
    with lzma.open(path, "rt", encoding="utf8") as lines:
        for line in lines:
            yield json.loads(line)


def read(data: Path, source: str, splits: Sequence[str]) -> list[Review]:
    """Return the cleaned reviews of these ``splits`` of ``source``, read from the folder ``data``. Raises FileNotFoundError and ValueError
    that say what to give instead.
    """
    reviews = []
    for row in rows(data, source):
        if row["label"] not in POSITIVE + NEGATIVE:
            raise ValueError(f"{data / FILES[source]}: label {row['label']!r} is none of {POSITIVE + NEGATIVE}")
        if row["split"] in splits:
            reviews.append(Review(clean(row["text"]), float(row["label"] in POSITIVE)))
    return reviews


def clean(text: str) -> str:
    """Return ``text`` without HTML line breaks and with single spaces."""
    return " ".join(re.sub(r"<br\s*/?>", " ", text).split())


def letters(text: str) -> str:
    """Return the first 200 letters of a text in lower case: the same for copies that differ in spaces, case, punctuation or near the
    end.
    """
    return re.sub(r"[\W_]+", "", text.lower())[:200]


def held_out_letters(data: Path) -> set[str]:
    """Return the `letters` of every held-out text in the folder ``data``."""
    return {letters(review.text) for source, split in HELD_OUT.values() for review in read(data, source, [split])}


def training_reviews(data: Path) -> dict[str, list[Review]]:
    """Return all reviews of the training splits in the folder ``data``, by source, without those whose text is also held out, and without
    repeated long ones.
    """
    chosen: dict[str, list[Review]] = {}
    known = held_out_letters(data)
    for source, splits in TRAINING.items():
        chosen[source] = []
        for review in read(data, source, splits):
            key = letters(review.text)
            if key in known or not key:
                continue
            if source != "sst2":  # phrases such as "a good film" may well repeat
                known.add(key)
            chosen[source].append(review)
    return chosen


def natural_negation(text: str) -> str:
    """Return ``text`` with ``does n't``, as SST-2 spells it, written as people do: ``doesn't``."""
    return re.sub(r"\b(\w+) n't\b", r"\1n't", text)


def sentences_of(text: str, shortest: int, longest: int) -> list[str]:
    """Return the sentences of a text that have ``shortest`` to ``longest`` words."""
    return [sentence for sentence in re.split(r"(?<=[.!?])\s+", text) if shortest <= len(sentence.split()) <= longest]


class Stream:
    """An endless, reproducible order of batches of ``batch_size`` over one kind of text (``texts``, with ``labels``).

    Batch ``number`` depends only on the ``seed``, so that training resumes in the middle of an epoch. Within an epoch every text comes
    once; the texts of a batch have about the same length, so that little is padded. Texts longer than a window (drawn for the batch from
    ``windows``, lengths with their shares) are cut: `cut`.
    """

    def __init__(
        self, texts: Sequence[Pieces], labels: Sequence[float], batch_size: int, windows: Sequence[tuple[int, float]], seed: int
    ) -> None:
        if len(texts) < batch_size:
            raise ValueError(f"{len(texts)} texts cannot fill one batch of {batch_size}")
        self.texts, self.labels, self.batch_size, self.windows, self.seed = texts, labels, batch_size, windows, seed
        self.batches_per_epoch = len(texts) // batch_size
        self._epoch, self._order = -1, np.empty((0, batch_size), np.int64)

    def batch(self, number: int) -> tuple[list[Pieces], list[float]]:
        """Return the pieces (without [CLS] and [SEP]) and labels of batch ``number``, counted from 0 over all epochs."""
        epoch, index = divmod(number, self.batches_per_epoch)
        if epoch != self._epoch:
            self._epoch, self._order = epoch, self._shuffled(epoch)
        rng = np.random.default_rng((self.seed, 1, number))
        lengths, shares = zip(*self.windows, strict=True)
        window = int(rng.choice(lengths, p=shares))
        rows = self._order[index]
        return [cut(self.texts[row], window - 2, rng) for row in rows], [self.labels[row] for row in rows]

    def _shuffled(self, epoch: int) -> NDArray[np.int64]:
        rng = np.random.default_rng((self.seed, 2, epoch))
        order = rng.permutation(len(self.texts))[: self.batches_per_epoch * self.batch_size]
        chunk = 64 * self.batch_size  # sorted by length inside chunks, so that lengths mix over time
        parts = [order[start : start + chunk] for start in range(0, len(order), chunk)]
        ordered = np.concatenate([part[np.argsort([len(self.texts[row]) for row in part], kind="stable")] for part in parts])
        return rng.permutation(ordered.reshape(-1, self.batch_size))


def head_and_tail(pieces: Pieces, length: int) -> Pieces:
    """Return at most ``length`` pieces, from both ends of a text, as the engine reads long texts
    (``explainers.models.inputs.texts.BOTH_ENDS``).
    """
    if len(pieces) <= length:
        return pieces
    head = length // HEAD_SHARE
    return np.concatenate([pieces[:head], pieces[len(pieces) - (length - head) :]])


def cut(pieces: Pieces, length: int, rng: np.random.Generator) -> Pieces:
    """Return at most ``length`` of ``pieces``: half of the time both ends, else as often the beginning as a random part, drawn by
    ``rng``.
    """
    spare = len(pieces) - length
    if spare <= 0:
        return pieces
    start = int(rng.choice([-1, -1, 0, rng.integers(spare + 1)]))
    return head_and_tail(pieces, length) if start < 0 else pieces[start : start + length]


def collate(
    texts: Sequence[Pieces],
    labels: Sequence[float],
    special: Special,
    masked: Sequence[float] | NDArray[np.float64],
    rng: np.random.Generator,
) -> Batch:
    """Return ``texts`` (the numbers of their pieces) and ``labels`` as a padded batch of ``input_ids``, ``attention_mask`` (both (B, S))
    and ``labels`` (B,), float, with random words, drawn by ``rng``, masked; ``special`` has the numbers of the special tokens.

    ``masked`` is for each text the chance that a word is replaced; all pieces of a chosen word become [MASK].
    """
    longest = max(map(len, texts)) + 2
    longest += -longest % 8
    ids = np.full((len(texts), longest), special.pad, np.int64)
    for row, pieces in enumerate(texts):
        begins = ~special.continues[pieces]
        begins[:1] = True  # a window may begin inside a word
        word = np.cumsum(begins) - 1
        chosen = rng.random(len(pieces))[word] < masked[row]
        ids[row, 0] = special.cls
        ids[row, 1 : len(pieces) + 1] = np.where(chosen, special.mask, pieces)
        ids[row, len(pieces) + 1] = special.sep
    tensor = torch.from_numpy(ids)
    return {
        "input_ids": tensor,
        "attention_mask": (tensor != special.pad).long(),
        "labels": torch.tensor(list(labels), dtype=torch.float32),
    }


@dataclass(frozen=True)
class Special:
    """The properties of a tokenizer that batching needs: the numbers of the special tokens (``pad``, ``cls``, ``sep``, ``mask``), and which
    pieces continue a word ((V,) bool).
    """

    pad: int
    cls: int
    sep: int
    mask: int
    continues: NDArray[np.bool_]

    @classmethod
    def of(cls, tokenizer: Any) -> Special:
        """Return the special tokens and continuing pieces of ``tokenizer``, a transformers tokenizer."""
        pieces = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
        return cls(
            tokenizer.pad_token_id, tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.mask_token_id,
            np.array([piece.startswith("##") for piece in pieces]),
        )  # fmt: skip


def pieces_of(tokenizer: Any, texts: Sequence[str]) -> list[Pieces]:
    """Return for each of ``texts`` the ids of its tokens by ``tokenizer``, without special tokens and not cut."""
    backend = tokenizer.backend_tokenizer
    backend.no_truncation()  # settings of an earlier call, or stored with the tokenizer
    backend.no_padding()
    encoded = backend.encode_batch(list(texts), add_special_tokens=False)
    return [np.array(encoding.ids, np.int32) for encoding in encoded]


def batches_by_length(texts: Sequence[Pieces], tokens: int) -> Iterator[list[int]]:
    """Yield row numbers in batches of about ``tokens`` tokens after padding, longest texts first."""
    order = sorted(range(len(texts)), key=lambda row: -len(texts[row]))
    start = 0
    while start < len(order):
        count = max(1, tokens // (len(texts[order[start]]) + 2))
        yield order[start : start + count]
        start += count
