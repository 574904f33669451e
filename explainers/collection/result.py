"""A finished collection, whose rows stay on disk."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from explainers.collection.records import CollectedRow
from explainers.errors import ExplainerError
from explainers.evaluation.rows import ROWS, RUN

KIND = "collection"  # of a folder, in run.json
THUMBNAILS = "thumbnails.parquet"
ROWS_AT_ONCE = 32  # rows that are read from a file at a time


@dataclass(frozen=True)
class Collection:
    """A finished collection: its ``folder``, and in ``about`` the contents of ``run.json`` in it: model, methods, data and settings.

    Its rows stay on disk: ``for row in collection`` reads them some at a time. ``rows.parquet`` and ``thumbnails.parquet`` can be read by
    anything that reads Parquet, such as pandas or DuckDB.
    """

    folder: Path
    about: Mapping[str, Any]

    def __len__(self) -> int:
        import pyarrow.parquet as pq

        return int(pq.read_metadata(self.folder / ROWS).num_rows)

    def __iter__(self) -> Iterator[CollectedRow]:
        import pyarrow.parquet as pq

        with pq.ParquetFile(self.folder / ROWS) as file:
            for batch in file.iter_batches(ROWS_AT_ONCE):
                yield from map(CollectedRow.from_row, batch.to_pylist())

    @property
    def broken(self) -> list[dict[str, Any]]:
        """The inputs that could not be read: index, name and reason of each."""
        from explainers.evaluation.broken_inputs import BROKEN  # after the data sets of packages, which import explainers

        return list(self.about.get(BROKEN, ()))


def open_collection(folder: Path) -> Collection:
    """Open a finished collection. Raises ExplainerError if there is none in ``folder``."""
    record = read_record(folder / RUN)
    if record.get("kind") != KIND or not (folder / ROWS).is_file():
        raise ExplainerError(f"{folder} holds no finished collection: vitrine collect makes one, and goes on with one that was stopped.")
    return Collection(folder, record)


def read_record(path: Path) -> dict[str, Any]:
    """Return the contents of a ``run.json``. Raises ExplainerError if it is missing or damaged."""
    try:
        record = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        raise ExplainerError(f"{path} is missing or damaged, so nobody knows what {path.parent} holds: name another folder.") from None
    return dict(record) if isinstance(record, dict) else {}
