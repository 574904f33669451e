"""The rows to look at first, and the files of a difference."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq

from explainers.collection.diff.comparison import compare
from explainers.collection.diff.difference import Change, Difference, RowDifference
from tests.explainers.support.collected import made_up_collection, made_up_row


def row(index: int, change: Change, probability: float = 0.5, correlation: float | None = None) -> RowDifference:
    return RowDifference(
        index=index,
        input=str(index),
        change=change,
        old_answer="a",
        new_answer="b",
        old_probability=probability,
        new_probability=0.5,
        correlations=[correlation],
    )


def of_rows(folder: Path, rows: list[RowDifference]) -> Difference:
    old, new = (made_up_collection(folder / name, [made_up_row(0, [1, 2, 3, 4], right=True)]) for name in ("old", "new"))
    return Difference(**{**vars(compare(old, new)), "rows": rows})


def test_changed_answers_and_other_reasons_take_turns(tmp_path: Path) -> None:
    difference = of_rows(
        tmp_path,
        [
            row(0, "same"),
            row(1, "other answer", 0.99),
            row(2, "wrong now", 0.6),
            row(3, "wrong now", 0.9),
            row(4, "right now"),
            row(5, "other reason", correlation=0.2),
            row(6, "other reason", correlation=-0.1),
        ],
    )
    assert [each.index for each in difference.worst()] == [3, 6, 2, 5, 1]
    assert [each.index for each in difference.worst(2)] == [3, 6]
    assert [each.index for each in difference.rows if each.is_to_check] == [1, 2, 3, 5, 6]


def test_files_have_the_summary_and_a_row_for_each_input(tmp_path: Path) -> None:
    difference = of_rows(tmp_path, [row(0, "same"), row(1, "wrong now", correlation=0.25)])
    difference.save(tmp_path / "out")
    report = json.loads((tmp_path / "out/report.json").read_text("utf-8"))
    assert (report["old"], report["new"], report["old_right"]["count"]) == ("old", "new", 1)
    assert "rows" not in report
    rows = pq.read_table(tmp_path / "out/differences.parquet").to_pylist()
    assert [(each["index"], each["change"], each["correlations"]) for each in rows] == [(0, "same", [None]), (1, "wrong now", [0.25])]
