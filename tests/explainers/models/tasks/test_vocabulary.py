"""Tokens as people write them, of three kinds of tokenizers."""

from __future__ import annotations

from typing import Any

import pytest

from explainers.models.tasks.vocabulary import piece_text, vocabulary_labels
from tests.support.vocabularies import byte_level, whole_text, wordpiece


@pytest.mark.parametrize(
    ("tokenizer", "pieces"),
    [
        (wordpiece(), {"film": "film", "##s": "##s", "[MASK]": "[MASK]"}),
        # "bad" occurs with a space before it and without: the word is the one that begins
        (byte_level(), {"Ġfilm": "film", "Ġbad": "bad", "bad": "##bad", "lm": "lm", "'t": "'t", "Ġ": "Ġ"}),
        (whole_text(), {"▁film": "film", "▁a": "a", "a": "##a", "lm": "lm", "▁": "▁"}),
    ],
)
def test_labels_are_words(tokenizer: Any, pieces: dict[str, str]) -> None:
    labels = vocabulary_labels(tokenizer, len(tokenizer) + 1)
    assert {piece: labels[tokenizer.convert_tokens_to_ids(piece)] for piece in pieces} == pieces
    assert len(set(labels)) == len(labels) == len(tokenizer) + 1
    assert labels[-1] == f"token {len(tokenizer)}"


def test_bytes_are_characters() -> None:
    assert piece_text(byte_level(), "ĠcafÃ©") == "café"
    assert piece_text(byte_level(), "Ã") == "Ã"  # half of one
