"""The page of a difference, and its sentences."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import explainers
from explainers.collection.diff.comparison import compare
from explainers.collection.diff.difference import Difference
from explainers.collection.diff.null_correlations import NullCorrelations, NullKind
from explainers.collection.diff.report import in_words, write_page
from explainers.collection.intervals import share
from tests.explainers.support.collected import finished, made_up_collection, made_up_text, save_pictures, tiny_vit


def test_a_page_shows_both_maps_of_the_worst_rows_and_needs_nothing_else(tmp_path: Path) -> None:
    model, data = tiny_vit(tmp_path / "model"), save_pictures(tmp_path / "data", 3)
    old = finished(explainers.collect(model, data, tmp_path / "old", ["rollout"], removal=False))
    with_change = Difference(**{**vars(compare(old, old)), "rows": [_changed(row) for row in compare(old, old).rows]})
    write_page(with_change, old, old, tmp_path)
    page = (tmp_path / "report.html").read_text("utf-8")
    assert page.count('<img alt="map before"') == page.count('<img alt="map after"') == 3
    assert page.count('<img alt="mean map') == 2
    assert set(re.findall(r'(?:src|href)="(data:|[^"]*)', page)) == {"data:"}
    assert "ant/000.png: wrong now" in page
    assert "on the border" in page


def _changed(row: explainers.collection.diff.difference.RowDifference) -> explainers.collection.diff.difference.RowDifference:
    return type(row)(**{**vars(row), "change": "wrong now"})


def test_a_page_of_texts_has_their_words(tmp_path: Path) -> None:
    texts = [f"<b> film number{i}" for i in range(12)]
    draw = np.random.default_rng(0)
    before, after = draw.integers(30, 60, (12, 3)), draw.integers(30, 60, (12, 3))
    before[:, 0], after[:, 0] = 1, 100
    old, new = (
        made_up_collection(
            tmp_path / name,
            [made_up_text(i, text, side[i].tolist(), answer=name, right=name == "old") for i, text in enumerate(texts)],
            input_kind="text",
        )
        for name, side in (("old", before), ("new", after))
    )
    write_page(compare(old, new), old, new, tmp_path)
    page = (tmp_path / "report.html").read_text("utf-8")
    assert page.count("<figure>") == 20  # ten rows
    assert "rgba(205,62,38,0.39)" in page  # 100 / 127 / 2
    assert ">&lt;b&gt;</span>" in page
    assert "<b> " not in page
    assert "<td>&lt;b&gt;</td><td>" in page  # the word that counts more


@pytest.mark.parametrize(
    ("kind", "count", "words"),
    [
        (
            "mirror",
            40,
            ["40 of 100 answers that stayed stand for another reason: 40.0 % (30.9 to 49.8)", "mirror image", "More than chance"],
        ),
        ("reference", 3, ["the old and the third model", "No more than chance explains, which is 5 % at most"]),
        ("rows", 3, ["far less alike than those of the other inputs", "name a third model"]),
    ],
)
def test_sentences_say_what_chance_does(tmp_path: Path, kind: NullKind, count: int, words: list[str]) -> None:
    collection = made_up_collection(tmp_path / "old", [made_up_text(0, "a b", [1, 2])])
    null = NullCorrelations(kind=kind, rows=90, median=0.8, threshold=0.4, expected=None if kind == "rows" else 0.05)
    difference = Difference(**{**vars(compare(collection, collection)), "null": null, "other_reason": share(count, 100)})
    said = " ".join(in_words(difference))
    assert all(each in said for each in words)
    assert "r < 0.40" in said
    assert "Right answers" not in said  # there are no labels
