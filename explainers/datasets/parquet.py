"""Rows of several Parquet files, one at a time."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from pathlib import Path
from typing import Any

from explainers.datasets.registry import Folder


class Table:
    """The rows of several Parquet ``files`` of the folder ``data``, in their order, with these ``columns``. Raises ExplainerError if there
    is no file, or if one lacks a column.
    """

    def __init__(self, data: Folder, files: list[Path], columns: tuple[str, ...]) -> None:
        import pyarrow.parquet as pq
        from pyarrow import ArrowInvalid

        self._data, self._damage = data, (ArrowInvalid, OSError)
        if not files:
            data.need("*.parquet")
        groups = []
        for path in files:
            try:
                file = pq.ParquetFile(path)
            except self._damage as problem:
                raise data.error_for(path, problem) from None
            if missing_columns := set(columns) - set(file.schema_arrow.names):
                raise data.error_for(path, f"it lacks the column {', '.join(sorted(missing_columns))}")
            groups += [(path, file, group) for group in range(file.num_row_groups)]
        self._groups, self._columns = groups, list(columns)
        self._starts: list[int] = list(accumulate((file.metadata.row_group(group).num_rows for _, file, group in groups), initial=0))
        self._group_in_memory: tuple[int, Any] = (-1, None)

    def __len__(self) -> int:
        return self._starts[-1]

    def row(self, number: int) -> dict[str, Any]:
        """Return row ``number``, counted from 0, as a dict of plain values by column; its row group is cached for the next call. Raises
        ExplainerError if the row group is damaged.
        """
        group = bisect_right(self._starts, number) - 1
        if self._group_in_memory[0] != group:
            path, file, index = self._groups[group]
            try:
                self._group_in_memory = group, file.read_row_group(index, columns=self._columns)
            except self._damage as problem:
                raise self._data.error_for(path, problem) from None
        row: dict[str, Any] = self._group_in_memory[1].slice(number - self._starts[group], 1).to_pylist()[0]
        return row
