"""The files of a run: what is written is read again, some rows at a time."""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import Any

import pytest

from explainers.evaluation import rows as row_files
from explainers.evaluation.rows import RowFile, schema_of
from explainers.metrics import METRICS

PARTS, IN_PART = 3, 5


def made(number: int) -> dict[str, Any]:
    """A row with scores that float32 holds, more of them where it is later, as texts have."""
    row = {"index": number, "input": f"input {number}", "target": "zebra", "method": "rollout", "unknown": None, "mif": number / 3}
    return row | {"curve.most": [number / 7] * 4, "scores": [number / 4 + i for i in range(number)]}


def measured(number: int) -> dict[str, Any]:
    """The same with what the map cost."""
    return made(number) | {"seconds": 0.5, "memory": None, "device": "cpu"}


@pytest.mark.parametrize("is_finished", [False, True])
def test_rows_are_read_as_they_were_written_some_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_finished: bool) -> None:
    monkeypatch.setattr(row_files, "_MAX_ROWS_AT_ONCE", 4)  # which no part is a multiple of
    file = RowFile(tmp_path, schema_of([METRICS["mif"]], ["most"]), PARTS)
    for part in range(PARTS):
        file.add(part, [measured(part * IN_PART + i) for i in range(IN_PART)])
    if is_finished:
        file.finish()
    rows = file.read()
    assert rows == [made(number) | {"scores": array("f", made(number)["scores"])} for number in range(PARTS * IN_PART)]
    assert [len(row["scores"]) for row in rows] == list(range(PARTS * IN_PART))
