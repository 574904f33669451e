"""The rows of a collection sorted, filtered and read by page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from explainers.collection.labels import unknown_labels_in_words
from explainers.collection.result import open_collection
from explainers.collection.slices.report import rows_of_slices
from explainers.collection.table import MAX_CONFUSED, CollectionTable, RowFilter
from explainers.errors import ExplainerError
from tests.support.made_up_collection import made_up_row, text_row, thumbnail, write_collection, wrong


def table_of(folder: Path, *rows: Any, **facts: Any) -> CollectionTable:
    return CollectionTable(open_collection(write_collection(folder, rows, **facts)))


@pytest.fixture
def table(tmp_path: Path) -> CollectionTable:
    """0 right; 1 wrong and sure; 2 off the object; 3 methods disagree; 4 wrong and not sure, with own columns."""
    return table_of(
        tmp_path,
        made_up_row(0),
        wrong(1, "cat", 0.99),
        made_up_row(2, first={"share_on_object": 0.0}),
        made_up_row(3, agreement=-0.5, probability=0.6),
        wrong(4, "ant", 0.3, own_columns={"camera": "North", "day": "2"}),
    )


def indices(table: CollectionTable, order: str = "suspicion", descending: bool | None = None, **wanted: Any) -> list[int]:
    return [row.index for row in table.page(table.select(RowFilter(**wanted), order, descending=descending))]


def test_the_most_suspicious_row_is_first(table: CollectionTable) -> None:
    # by hand: 0.2 for the agreement of 0.6 everywhere, and 0.99, 1, 0.75 in place of it, 0.3; each over four, too few rows share an answer
    assert indices(table) == [2, 1, 3, 4, 0]
    assert table.suspicion.tolist() == pytest.approx([0.2 / 4, 1.19 / 4, 1.2 / 4, 0.75 / 4, 0.5 / 4])


def test_rows_of_slices_come_before_others_by_suspicion_alone(table: CollectionTable, tmp_path: Path) -> None:
    assert rows_of_slices(tmp_path) == frozenset()  # nothing was searched
    (tmp_path / "slices.json").write_text('{"slices": [{"rows": [0]}, {"rows": [3, 0]}]}', "utf-8")
    in_slices = rows_of_slices(tmp_path)
    assert in_slices == {0, 3}

    def order(name: str, **wanted: Any) -> list[int]:
        return [row.index for row in table.page(table.select(RowFilter(**wanted), name, in_slices=in_slices))]

    assert order("suspicion") == [3, 0, 2, 1, 4]
    assert order("suspicion", right=False) == [1, 4]
    assert order("probability") == indices(table, "probability")
    (tmp_path / "slices.json").write_text("{", "utf-8")
    assert rows_of_slices(tmp_path) == frozenset()


def test_a_place_that_most_rows_of_an_answer_share_is_found(tmp_path: Path) -> None:
    """All evidence of three in four cats at patch 3 of 4 by 4, the rest of it anywhere, as all evidence of the other answers."""
    at_corner = [127 * (patch == 3) for patch in range(16)]
    marked = {index for index in range(2, 180, 3) if index % 4}
    table = table_of(tmp_path, *(made_up_row(index, first={"scores": at_corner} if index in marked else None) for index in range(180)))
    assert [(each.answer, each.place, each.rows, each.of) for each in table.shared_places] == [("cat", "in the upper right corner", 45, 60)]
    assert set(indices(table, flags=["shared_place"])) == marked
    assert set(indices(table)[:45]) == marked
    others = [index for index in range(180) if index % 3 != 2]
    assert table.readings.shared_place[others].tolist() == [0.0] * 120


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"right": False}, {1, 4}),
        ({"right": True}, {0, 2, 3}),
        ({"flags": ["wrong"]}, {1}),
        ({"flags": ["off_object"]}, {2}),
        ({"flags": ["disagree"]}, {3}),
        ({"flags": ["disagree", "wrong"]}, set()),
        ({"label": "bee"}, {1, 4}),
        ({"answer": "ant"}, {0, 3, 4}),
        ({"label": "bee", "answer": "cat"}, {1}),
        ({"word": "NORTH"}, {4}),
        ({"word": " 00003 "}, {3}),
        ({"word": "bee"}, {1, 4}),
        ({"columns": {"camera": "North"}}, {4}),
        ({"columns": {"camera": "South"}}, set()),
    ],
)
def test_filters(table: CollectionTable, wanted: dict[str, Any], expected: set[int]) -> None:
    assert set(indices(table, **wanted)) == expected


def test_sorting_by_a_column_puts_unknown_values_last(tmp_path: Path) -> None:
    table = table_of(tmp_path, made_up_row(0, agreement=None), made_up_row(1, agreement=0.1), made_up_row(2, agreement=0.7))
    assert indices(table, "agreement") == [1, 2, 0]
    assert indices(table, "agreement", True) == [2, 1, 0]
    assert indices(table, "input", True) == [2, 1, 0]


def test_names_that_are_numbers_are_sorted_by_size(tmp_path: Path) -> None:
    table = table_of(tmp_path, *(text_row(index, "a film") for index in (10, 9, 100)))
    assert indices(table, "input") == [9, 10, 100]


@pytest.mark.parametrize(("wanted", "problem"), [({"flags": ["odd"]}, "no flag 'odd'"), ({"columns": {"x": "1"}}, "no column 'x'")])
def test_what_cannot_be_filtered_by(table: CollectionTable, wanted: dict[str, Any], problem: str) -> None:
    with pytest.raises(ExplainerError, match=problem):
        table.select(RowFilter(**wanted))
    with pytest.raises(ExplainerError, match="no order 'size'"):
        table.select(RowFilter(), "size")


def test_a_box_holds_the_rows_inside_it(table: CollectionTable) -> None:
    for space in ("inputs", "maps"):
        plane = table.plane(space)  # type: ignore[arg-type]
        assert plane is not None
        x, y = map(float, plane[2])
        assert indices(table, box=(x + 0.01, y + 0.01, x - 0.01, y - 0.01), space=space) == [2]  # drawn from either corner
        inside = {row for row in range(5) if plane[row, 0] <= x}
        assert set(indices(table, box=(-1e9, -1e9, x, 1e9), space=space)) == inside


def test_confusion_counts_labels_against_answers(table: CollectionTable) -> None:
    confusion = table.confusion(table.select(RowFilter()))
    counts = {(a, b): confusion.counts[i][j] for i, a in enumerate(confusion.labels) for j, b in enumerate(confusion.answers)}
    assert {pair: count for pair, count in counts.items() if count} == {
        ("ant", "ant"): 2,
        ("bee", "cat"): 1,
        ("bee", "ant"): 1,
        ("cat", "cat"): 1,
    }
    assert confusion.labels[0] == "bee"  # with the most wrong rows


def test_rows_with_an_unknown_label_are_counted_once_and_not_confused(tmp_path: Path) -> None:
    rows = [
        made_up_row(0, labels=["Ant"]),
        wrong(1, "cat", 0.9, labels=["big_bee"]),
        *(made_up_row(index, labels=["yak"], right=None) for index in (2, 3)),
        made_up_row(4, labels=["gnu"], right=None),
        made_up_row(5, labels=[], right=None),
        wrong(6, "cat", 0.9, labels=["Ant"]),
    ]
    table = table_of(tmp_path, *rows, classes=["ant", "big bee", "cat"])
    assert table.unknown_labels == {"yak": 2, "gnu": 1}
    sentence = unknown_labels_in_words(table.unknown_labels, table.count)
    assert sentence == "3 of 7 rows have a label that this model does not know, and have no verdict: “yak” (2), “gnu” (1)."
    assert [row.label for row in table.page(range(7))] == ["ant", "big bee", "yak", "yak", "gnu", None, "ant"]
    confusion = table.confusion(table.select(RowFilter()))
    assert sum(map(sum, confusion.counts)) == 3
    assert set(confusion.labels) == {"ant", "big bee", "cat"}
    assert table_of(tmp_path / "notes", *rows, labels=False).unknown_labels == {}


def test_many_classes_share_the_last_place(tmp_path: Path) -> None:
    rows = [made_up_row(index, labels=[f"class {index}"], answer=f"class {index}") for index in range(MAX_CONFUSED + 3)]
    confusion = table_of(tmp_path, *rows).confusion(np.arange(len(rows)))
    assert len(confusion.labels) == MAX_CONFUSED
    assert np.array(confusion.counts).diagonal().tolist() == [1] * (MAX_CONFUSED - 1) + [4]


def test_pages_have_the_rest_of_each_row(tmp_path: Path) -> None:
    rows = [made_up_row(index, notes=[f"note {index}"]) for index in range(8)]
    table = table_of(tmp_path, *rows, group=3)
    for shown, row in zip(table.page([7, 0, 4]), (rows[7], rows[0], rows[4]), strict=True):
        assert shown.notes == row.notes
        assert [each.scores for each in shown.maps] == [each.scores for each in row.maps]
        assert shown.runner_up == row.runner_up
    assert table.thumbnail(4) == thumbnail(4)
    assert table.thumbnail(99) is None


def test_a_text_has_its_words_and_no_thumbnail(tmp_path: Path) -> None:
    table = table_of(tmp_path, text_row(0, "a fine film"))
    (row,) = table.page([0])
    assert row.words == [(0, 1, 0), (2, 6, 0), (7, 11, 0)]
    assert table.thumbnail(0) is None
    assert indices(table, word="fine") == [0]


def test_damaged_files_are_named(tmp_path: Path) -> None:
    write_collection(tmp_path, [made_up_row(0)])
    (tmp_path / "rows.parquet").write_bytes(b"PAR1 broken")
    with pytest.raises(ExplainerError, match=r"rows\.parquet is damaged"):
        CollectionTable(open_collection(tmp_path))
