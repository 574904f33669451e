"""Places in a text as people write them."""

from __future__ import annotations

import pytest

from explainers.models.inputs.types import TextInput, Token, Word
from explainers.models.tasks.text_places import place_in_text

TEXT, SECOND = "Paris saw Parisians in Paris.", "Where? Paris"


@pytest.fixture(scope="module")
def record() -> TextInput:
    """Words cut at spaces, "Parisians" in two, behind and before special tokens."""
    spans = [(0, 5), (6, 9), (10, 15), (15, 19), (20, 22), (23, 28), (28, 29)]
    first = [Token(TEXT[start:end], start, end, False) for start, end in spans]
    second = [Token(SECOND[start:end], start, end, False, 1) for start, end in [(0, 6), (7, 12)]]
    tokens = (Token("[CLS]", 0, 0, True), *first, Token("[SEP]", 0, 0, True), *second, Token("[SEP]", 0, 0, True))
    return TextInput(TEXT, tokens, (Word("Paris", 0, 5, (1,)),), SECOND)


@pytest.mark.parametrize(
    ("at", "tokens", "label"),
    [
        ("Paris", (1, 1), "Paris"),
        ("Paris#2", (6, 6), "Paris"),
        ("Paris#3", (10, 10), "Paris"),  # of the second text
        ("Parisians", (3, 4), "Parisians"),
        ("ans", (4, 4), "ians"),  # no whole word: the piece that holds it
        ("saw Parisians", (2, 4), "saw Parisians"),
        ("token:5", (5, 5), "in"),
        ("tokens:5-6", (5, 6), "in Paris"),
        ("tokens:0-1", (0, 1), "[CLS] Paris"),
    ],
)
def test_a_place_is_found(record: TextInput, at: str, tokens: tuple[int, int], label: str) -> None:
    place = place_in_text(at, record)
    assert place is not None
    assert (place.tokens, place.label) == (tokens, label)
    again = place_in_text(place.at, record)
    assert again == place


@pytest.mark.parametrize("at", ["London", "Paris#4", "Paris#0", "token:12", "tokens:3-2", "", " "])
def test_what_is_not_there(record: TextInput, at: str) -> None:
    assert place_in_text(at, record) is None
