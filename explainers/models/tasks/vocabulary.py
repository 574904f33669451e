"""Models that say which word comes: the tokens of a vocabulary are the classes, as people write them."""

from __future__ import annotations

from collections import Counter
from typing import Any

from torch import Tensor

from explainers.models.tasks.task import Task, logits_in

CONTINUES = "##"  # before a piece that continues a word, where a piece that begins one is written alike: as BERT's vocabulary has it
_SPACES = ("Ġ", "▁")  # how byte-level tokenizers and SentencePiece write the space before a word


class VocabularyTask(Task):
    """Base of tasks with a logit for each token of the vocabulary at each token of the text.

    The many class names belong to the place: neither the model nor an answer over HTTP lists them.
    """

    _labels: list[str] | None = None

    def class_count(self, logits: Tensor) -> int:
        """Return 0: the classes are the tokens of a vocabulary, which the model's configuration does not name."""
        return 0

    @staticmethod
    def logits(output: Any) -> Tensor:
        """Return the logits (B, S, V) of the vocabulary at each token, from the module's output."""
        return logits_in(output)

    def labels(self, count: int) -> list[str]:
        """Return the names of the ``count`` tokens of the vocabulary, made once."""
        if self._labels is None:
            self._labels = [f"token {i}" for i in range(count)] if self.tokenizer is None else vocabulary_labels(self.tokenizer, count)
        return self._labels


def vocabulary_labels(tokenizer: Any, count: int) -> list[str]:
    """Return a label for each of the ``count`` logits over the vocabulary of ``tokenizer``, no two the same.

    A piece that begins a word is written as the word; one that continues a word gets :data:`CONTINUES` if both would read the same. Labels
    that are still equal, and logits of no token, get their number.
    """
    known = min(count, len(tokenizer))
    pieces = tokenizer.convert_ids_to_tokens(range(known))
    written = [piece_text(tokenizer, piece) for piece in pieces]
    begins = {text for text, piece in zip(written, pieces, strict=True) if piece.startswith(_SPACES)}
    labels = [
        CONTINUES + text if text in begins and not piece.startswith(_SPACES) else text for text, piece in zip(written, pieces, strict=True)
    ]
    times = Counter(labels)
    labels = [label if times[label] == 1 else f"{label} ({index})" for index, label in enumerate(labels)]
    return [*labels, *(f"token {index}" for index in range(known, count))]


def piece_text(tokenizer: Any, piece: str) -> str:
    """Return the text of ``piece``, an entry of the vocabulary of ``tokenizer``, as people write it: without the sign for a space, and with
    bytes as characters. Pieces of white space only, and bytes that are no character, are returned unchanged.
    """
    bare = piece[1:] if piece.startswith(_SPACES) and len(piece) > 1 else piece
    if bare.isascii():
        return bare
    text = str(tokenizer.convert_tokens_to_string([piece])).strip()
    return bare if not text or "\N{REPLACEMENT CHARACTER}" in text else text
