"""Telling English from what an English model cannot read, by the words alone."""

from __future__ import annotations

import explainers.models.libraries.torchvision_ops

# isort: split
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer

import explainers.embedded
from explainers.models.inputs.languages import ENGLISH, OTHERS, strange_words
from explainers.models.inputs.texts import TextReader
from explainers.models.inputs.types import TextInput, Token, Word


def text(*words: str) -> TextInput:
    """A record in which ``wor|d`` is a word of two pieces."""
    tokens: list[Token] = []
    made: list[Word] = []
    place = 0
    for word in words:
        pieces = word.split("|")
        numbers = tuple(range(len(tokens), len(tokens) + len(pieces)))
        start = place
        for piece in pieces:
            tokens.append(Token(piece, place, place + len(piece), False))
            place += len(piece)
        made.append(Word("".join(pieces), start, place, numbers))
        place += 1
    return TextInput(" ".join(word.text for word in made), tuple(tokens), tuple(made))


@pytest.mark.parametrize(
    ("words", "share"),
    [
        (("the", "plot", "is", "weak"), -0.5),
        (("the", "plot", "is", "wea|kish"), -0.25),
        (("un", "film", "très", "bon"), 0.5),  # "film" and "bon" may be English for all that the words say
        (("фи|ль|м", "о", "вой|не", "и"), 1.0),
        (("well|-|made", "ce|l|-|shaded", "frames", "rotate"), 0.25),  # a hyphen between whole words spells nothing out
        (("Boo|oo|ring",), 0.0),
        (("世", "界", "!"), 1.0),
        (("7", "/", "10", "!"), 0.0),
    ],
)
def test_share_of_strange_words_less_that_of_english_ones(words: tuple[str, ...], share: float) -> None:
    assert strange_words(text(*words)) == pytest.approx(share)


def test_no_word_speaks_for_both_sides() -> None:
    assert not ENGLISH & OTHERS


def test_as_the_reader_gives_it() -> None:
    folder = Path(explainers.embedded.__file__).parent / "models" / "reviews-bert"
    reader = TextReader(AutoTokenizer.from_pretrained(folder, local_files_only=True), 512)
    texts = ["I don't think that it’s a well-made film, but the cast is good.", "Ich habe mich von Anfang bis Ende gelangweilt."]
    english, german = reader.read(texts, torch.device("cpu")).inputs
    assert strange_words(english) < -0.3
    assert strange_words(german) > 0.5
