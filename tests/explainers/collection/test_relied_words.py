"""The words that answers rest on, against a count by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from explainers.collection import relied_words
from explainers.collection.records import CollectedRow
from explainers.collection.relied_words import find_relied_words
from explainers.collection.result import open_collection
from tests.support.made_up_collection import made_up_row, text_row, write_collection


def film(index: int, text: str, scores: list[int], top: list[int], answer: str, *, falls: bool | None) -> CollectedRow:
    """A text whose first map has these scores; its second map marks the first word, which counts for nothing."""
    row = text_row(index, text, answer=answer)
    return replace(row, maps=[replace(row.maps[0], scores=scores, top=top, falls=falls), replace(row.maps[1], top=[0])])


def found(folder: Path, *rows: CollectedRow, **options: Any) -> Any:
    write_collection(folder, rows, model="reviews-bert", input_kind="text")
    return find_relied_words(open_collection(folder), **options)


def test_shares_marks_and_what_a_removal_does_are_counted(tmp_path: Path) -> None:
    result = found(
        tmp_path,
        film(0, "a Superb film", [10, 90, 0], [1], "positive", falls=True),
        film(1, "superb as a film", [40, 20, -80, 40], [0, 3], "positive", falls=True),  # two words were removed at once
        film(2, "a superb superb bore", [0, 30, 30, 40], [3], "negative", falls=False),
        film(3, "superb", [-5], [0], "negative", falls=False),  # nothing speaks for the answer: it has no shares
    )
    assert result.texts == 4
    superb, bore, film_ = result.words
    assert (superb.word, superb.texts, superb.marked, superb.answer, superb.answered) == ("superb", 3, 2, "positive", 2)
    assert superb.share == pytest.approx((0.9 + 0.4 + 0.6) / 3)
    assert superb.even == pytest.approx((1 / 3 + 1 / 4 + 2 / 4) / 3)
    assert (superb.removed, superb.changed) == (1, 1)
    assert (bore.word, bore.share, bore.removed, bore.changed) == ("bore", pytest.approx(0.4), 1, 0)
    assert (film_.word, film_.marked, film_.removed) == ("film", 1, 0)
    assert all(each.word not in ("a", "as") for each in result.words)  # marked nowhere


def test_the_first_words_and_texts_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [film(index, f"w{index} the", [90, 10], [0], "positive", falls=None) for index in range(5)]
    result = found(tmp_path / "five", *rows, most=2)
    assert [each.word for each in result.words] == ["w0", "w1"]
    assert [(each.removed, each.changed) for each in result.words] == [(0, 0)] * 2  # nothing was removed
    monkeypatch.setattr(relied_words, "MOST_TEXTS", 3)
    assert found(tmp_path / "three", *rows).texts == 3


def test_pictures_have_no_words(tmp_path: Path) -> None:
    write_collection(tmp_path, [made_up_row(0)])
    assert find_relied_words(open_collection(tmp_path)).texts == 0
