"""What the Collection page says of the words that answers rest on."""

from __future__ import annotations

from typing import Any

from tests.support.node import compute

FIRST = "async ([word, texts]) => (await script('collection/reliedwords.js')).firstInWords(word, texts)"
WORD = {
    "word": "superb",
    "texts": 9,
    "marked": 7,
    "answer": "positive",
    "answered": 7,
    "share": 0.3,
    "even": 0.1,
    "removed": 4,
    "changed": 3,
}


def said(**changes: Any) -> Any:
    return compute(FIRST, [{**WORD, **changes}, 20])


def test_the_first_word_is_said_with_what_its_removal_did() -> None:
    start = "Over these 20 texts the model relies most on “superb”: it is among the most marked words in "
    assert said() == f"{start}7 of the 9 that contain it, each time for “positive”. Removed alone from 4 texts, it changed the answer in 3."
    assert said(answered=5, changed=0).endswith(", mostly for “positive”. Removed alone from 4 texts, it changed the answer in none.")
    assert said(texts=1, marked=1, answered=1, removed=0) == f"{start}the only one that contains it, for “positive”."
