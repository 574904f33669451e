"""What people may send costs no more than its length: no text of one kind of characters takes the square of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import regex
import torch
from hypothesis import given
from hypothesis import strategies as st

import explainers.embedded
from explainers import ExplainerError
from explainers.models.inputs import words
from explainers.models.inputs.molecules import MOST_ATOMS, MOST_HYDROGENS, read_molecule
from explainers.models.inputs.texts import TextReader
from explainers.models.inputs.windows import windows_of
from explainers.records.targets import names
from recipes.networks.pruning import LONGEST_WORD
from tests.support.vocabularies import byte_level, sentencepiece, whole_text, wordpiece

CPU = torch.device("cpu")
LENGTH = 1500  # characters
SHAPES: dict[str, Callable[[int], str]] = {
    "letters": lambda n: "a" * n,
    "words": lambda n: ("a bad film " * n)[:n],
    "hyphens": lambda n: "a-" * (n // 2),
    "apostrophes": lambda n: "a'" * (n // 2),
    "marks": lambda n: "a" + "\u0301" * (n - 1),
    "letters with marks": lambda n: "e\u0301\u0323" * (n // 3),
    "emoji": lambda n: "😀" * n,
    "joined emoji": lambda n: "👩\u200d" * (n // 2),
    "flags": lambda n: "🇩🇪" * (n // 2),
    "characters": lambda n: "電" * n,
    "blanks": lambda n: "a" + " " * (n - 2) + "b",
}
TOKENIZERS: dict[str, Callable[[int | None], Any]] = {
    "wordpiece": wordpiece, "byte_level": byte_level, "sentencepiece": sentencepiece, "whole_text": whole_text
}  # fmt: skip


def calls(work: Callable[[], Any]) -> int:
    """How many functions, of Python and of C, ``work`` calls; a generator counts each time it goes on."""
    count = 0

    def seen(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@pytest.mark.parametrize("most", [None, 20])
def test_a_text_twice_as_long_is_twice_the_work(tokenizer: str, shape: str, most: int | None) -> None:
    """Read whole, and in windows: their number grows as the text does, and so must not what each of them looks at."""
    reader = TextReader(TOKENIZERS[tokenizer](most), most)

    def read(length: int) -> int:
        text = SHAPES[shape](length)
        return calls(lambda: reader.read([text], CPU) if most is None else windows_of(reader, text, CPU))

    read(LENGTH)  # what is made at the first call only
    assert read(2 * LENGTH) < 2.3 * read(LENGTH) + 100


@pytest.mark.parametrize("pattern", ["_JOINED", "_CHARACTER"])
@pytest.mark.parametrize("shape", SHAPES)
def test_no_pattern_goes_back_over_a_long_run(shape: str, pattern: str) -> None:
    """What a pattern does inside one call cannot be counted: 200,000 characters take it 0.1 s, or many minutes where it goes back at each.
    The limit is one of the processor's seconds, which others on the machine do not shorten.
    """
    for _ in getattr(words, pattern).finditer(SHAPES[shape](200_000), timeout=20):
        pass


@given(st.text("🇩🇪a\u0301\u200d\ufe0f\u0903\u0600👩🏽क्ष\r\n電\u1100\u1161", max_size=20))
def test_characters_are_those_of_unicode(text: str) -> None:
    assert [match.span() for match in words._CHARACTER.finditer(text)] == [match.span() for match in regex.finditer(r"\X", text)]


@given(st.text("ab1'’- 電é\u0301_", max_size=20))
def test_joined_words_are_as_they_were(text: str) -> None:
    plain = regex.compile(rf"{words._LETTER}+(?:['’ʼ‐‑-]{words._LETTER}+)+", regex.VERSION1)  # takes the square of a long word
    assert [match.span() for match in words._JOINED.finditer(text)] == [match.span() for match in plain.finditer(text)]


TOKENIZER_FILES = sorted(Path(explainers.embedded.__file__).parent.glob("models/*/tokenizer.json"))


@pytest.mark.parametrize("file", TOKENIZER_FILES, ids=lambda file: file.parent.name)
def test_no_word_is_cut_that_takes_the_square_of_thousands_of_letters(file: Path) -> None:
    """WordPiece tries every end of what is left of a word, so the longest word that it cuts bounds what a letter costs."""
    model = json.loads(file.read_text("utf-8"))["model"]
    if model["type"] == "WordLevel":  # which looks each word up whole
        return
    assert (model["type"], model["max_input_chars_per_word"]) == ("WordPiece", LONGEST_WORD)
    assert LONGEST_WORD <= 200


@pytest.mark.parametrize(
    ("smiles", "why"),
    [
        ("c1ccccc1" * 2500, "15000 atoms"),
        ("C" * (MOST_ATOMS + 1), f"{MOST_ATOMS + 1} atoms"),
        ("C" + "([H])" * (MOST_HYDROGENS + 1), f"{MOST_HYDROGENS + 1} hydrogens"),
    ],
)
def test_a_molecule_too_large_is_refused_before_rings_are_looked_for(smiles: str, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rdkit.Chem.MolFromSmiles", lambda *_, **__: pytest.fail("RDKit was asked"))
    with pytest.raises(ExplainerError, match=why):
        read_molecule(smiles)


def test_a_drawing_too_large_is_refused_before_rings_are_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    from rdkit import Chem

    block = Chem.MolToMolBlock(Chem.MolFromSmiles("C" * (MOST_ATOMS + 1)))
    monkeypatch.setattr("rdkit.Chem.SanitizeMol", lambda *_, **__: pytest.fail("RDKit was asked"))
    with pytest.raises(ExplainerError, match=f"{MOST_ATOMS + 1} atoms"):
        read_molecule(block)


def test_near_names_are_not_looked_for_of_what_is_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []
    monkeypatch.setattr(names.difflib, "get_close_matches", lambda name, *_, **__: compared.append(name) or [])
    for name in ("zebr", "z" * 1000):
        with pytest.raises(ExplainerError, match="There is no class"):
            names.find_class(name, ["zebra", "y" * 1000], 2)
        with pytest.raises(ExplainerError, match="There is no group"):
            names.find_group(name, {"horse": [0]})
    assert compared == ["zebr", "zebr"]
