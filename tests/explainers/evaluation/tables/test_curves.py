"""Tables as curves, against places worked out by hand."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from explainers.evaluation.tables.curves import curves_of
from explainers.evaluation.tables.record import Cell, Column, Row, Table

COLUMNS = tuple(Column((model, "Movies", head), "share", "higher") for model in ("A&B", "BERT") for head in ("10", "20", "80"))


def row(title: str, *values: float | None) -> Row:
    return Row(title, "", tuple(Cell(value=value) for value in values))


TABLE = Table("F1 <of> words", (), COLUMNS, (row("Ours", 0.1, 0.2, 0.4, 0.0, 0.1, 0.2), row("LRP", 0.0, None, 0.1, 0.3, 0.3, 0.3)))


def test_each_row_is_a_line_over_the_heads_of_each_model() -> None:
    tree = ElementTree.fromstring(curves_of(TABLE, "k", "token F1"))
    points = [line.get("points", "").split() for line in tree.findall(".//{*}polyline")]
    assert points == [
        ["0.0,225.0", "62.9,150.0", "440.0,0.0"],  # 440 pixels from 10 to 80, 300 from 0 to 40 %
        ["0.0,300.0", "440.0,225.0"],  # what has no value is left out
        ["0.0,300.0", "62.9,200.0", "440.0,100.0"],  # the other model has an axis of its own, 0 to 30 %
        ["0.0,0.0", "62.9,0.0", "440.0,0.0"],
    ]
    texts = [text.text for text in tree.findall(".//{*}text")]
    assert texts[:12] == ["A&B on Movies", "0", "10", "20", "30", "40", "10", "20", "80", "k", "token F1, %", "BERT on Movies"]
    assert texts[-2:] == ["Ours", "LRP"]
    assert tree.get("aria-label") == "F1 <of> words"


def test_values_below_nothing_and_heads_that_are_no_numbers() -> None:
    columns = (Column(("1",)), Column(("2",)))
    tree = ElementTree.fromstring(curves_of(Table("t", (), columns, (row("a", -2.0, 7.0),), levels=("k",)), "k", "r"))
    assert [text.text for text in tree.findall(".//{*}text")][1:6] == ["-2", "0", "2", "4", "6"]
    with pytest.raises(ValueError, match="could not convert string to float: 'MIF'"):
        curves_of(Table("t", (), (Column(("MIF",)),), (row("a", 1.0),), levels=("k",)), "k", "r")
