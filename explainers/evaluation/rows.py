"""The rows of a run on disk: Parquet files that are whole or not there, so that a run may stop at any moment and go on.

What maps cost differs from run to run, and rows do not: while a run goes on both are in the files of its parts, then in one file each.
"""

from __future__ import annotations

import json
import os
import sys
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from explainers.errors import ExplainerError
from explainers.evaluation.conservation import BLOCK_COLUMNS
from explainers.evaluation.costs import COST_COLUMNS
from explainers.metrics import Metric

RUN, ROWS, COSTS, PARTS = "run.json", "rows.parquet", "costs.parquet", "parts"

_MAX_ROWS_AT_ONCE = 4096  # most rows read from a file at a time
_MAX_PARTS = 500  # about the most files of a run while it runs


def inputs_in_part(inputs: int) -> int:
    """Return the number of inputs in each part of a run of ``inputs`` inputs; the last part may have fewer."""
    return max(1, inputs // _MAX_PARTS)


def _arrow() -> Any:
    import pyarrow
    import pyarrow.parquet

    return pyarrow


def schema_of(metrics: Sequence[Metric], curve_names: Sequence[str]) -> Any:
    """Return the Arrow schema of the rows of a run with these ``metrics`` and curves: columns for input and method, a number for each
    metric or part of one, curves, sums at blocks, and scores.
    """
    pa = _arrow()
    columns = [("index", pa.int64()), ("input", pa.string()), ("target", pa.string()), ("method", pa.string())]
    columns.append(("unknown", pa.list_(pa.string())))
    of_metrics = dict.fromkeys(column for metric in metrics for column in metric.columns)  # some metrics share theirs
    values = [(column, pa.float64()) for column in of_metrics]
    lists = [f"curve.{name}" for name in curve_names]
    lists += [*BLOCK_COLUMNS] if any("block_sums" in metric.needs for metric in metrics) else []
    return pa.schema([*columns, *values, *((name, pa.list_(pa.float64())) for name in lists), ("scores", pa.list_(pa.float32()))])


def _schema_of_costs() -> Any:
    """Return the Arrow schema of the costs: columns for input and method, and those of :data:`COST_COLUMNS`."""
    pa = _arrow()
    types = dict(zip(COST_COLUMNS, (pa.float64(), pa.int64(), pa.string()), strict=True))
    return pa.schema([("index", pa.int64()), ("target", pa.string()), ("method", pa.string()), *types.items()])


def temporary_path(path: Path) -> Path:
    """Return the temporary path to which a file is written before it replaces ``path``; a file that is left there is ignored."""
    return path.with_name(f".{path.name}.half")


def write_whole(path: Path, write: Callable[[Path], None]) -> None:
    """Write a file through ``write``, and let it replace ``path`` once it is whole and on the disk."""
    half = temporary_path(path)
    write(half)
    with half.open("rb+") as file:
        os.fsync(file.fileno())
    half.replace(path)


def write_json(path: Path, document: Any) -> None:
    """Write ``document`` to the JSON file ``path``; if that fails, the file stays as it was."""
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    write_text(path, text)


def write_text(path: Path, text: str) -> None:
    """Write ``text`` to the file ``path`` in UTF-8; if that fails, the file stays as it was."""

    def write(half: Path) -> None:
        half.write_text(text, "utf-8")

    write_whole(path, write)


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Lock ``folder`` inside this context, so that no other process measures in it; raises ExplainerError if one does.

    The lock ends with its process, however that dies, and leaves no file.
    """
    if sys.platform == "win32":  # which cannot open a folder
        yield
        return
    import fcntl

    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ExplainerError(f"another process measures in {folder}: wait until it ends, or name another folder.") from None
        except OSError:
            pass  # a file system without locks
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _report_damage(path: Path) -> Iterator[None]:
    """Convert an error of reading the file ``path`` inside this context to an ExplainerError that says how to continue, by removing the
    file.
    """
    try:
        yield
    except (_arrow().ArrowException, OSError) as problem:
        then = "what its maps cost is not known then" if path.name == COSTS else "it is measured again"
        raise ExplainerError(f"{path} is damaged ({problem}): remove it and type the same again, and {then}.") from None


class RowFile:
    """The stored rows, of the Arrow ``schema``, of a run of ``count`` parts in ``folder``: one file for each part while it runs, then all
    in one file.

    ``schema`` names the columns of that file. Further columns go to files next to it: ``others`` has the schema of each by its name; None:
    the costs of maps. Raises ExplainerError for a damaged file.
    """

    def __init__(self, folder: Path, schema: Any, count: int, others: Mapping[str, Any] | None = None) -> None:
        self.folder, self.schema, self.count = folder, schema, count
        self.others = {COSTS: _schema_of_costs()} if others is None else others

    @property
    def complete(self) -> bool:
        """True if all parts are there, in one file."""
        return (self.folder / ROWS).is_file()

    def _part(self, number: int) -> Path:
        return self.folder / PARTS / f"{number:06d}.parquet"

    def missing_parts(self) -> list[int]:
        """Check that the parts on the disk are whole, and return the numbers of those that are missing."""
        if self.complete:
            self._check(self.folder / ROWS)
            return []
        part_paths = [self._part(number) for number in range(self.count)]
        for path in part_paths:
            if path.is_file():
                self._check(path)
        return [number for number, path in enumerate(part_paths) if not path.is_file()]

    def _check(self, path: Path) -> None:
        with _report_damage(path):
            _arrow().parquet.read_metadata(path)

    def _table(self, path: Path) -> Any:
        with _report_damage(path):
            return _arrow().parquet.read_table(path)

    def _tables(self, path: Path) -> Iterator[Any]:
        """Yield the contents of the file of rows at ``path`` as tables of some thousand rows."""
        pa = _arrow()
        with _report_damage(path), pa.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(_MAX_ROWS_AT_ONCE):
                yield pa.Table.from_batches([batch])

    def add(self, number: int, rows: list[dict[str, Any]]) -> None:
        """Write the rows of the part ``number`` to a file of its own."""
        pa = _arrow()
        self._part(number).parent.mkdir(exist_ok=True)
        schema = pa.unify_schemas([self.schema, *self.others.values()])
        table = pa.Table.from_pylist(rows, schema=schema)
        write_whole(self._part(number), lambda half: pa.parquet.write_table(table, half, compression="zstd"))

    def finish(self) -> None:
        """Merge all parts into one file of rows, a row group each, and the files of further columns, and delete them."""
        parts = [self._part(number) for number in range(self.count)]
        if not self.complete:
            for name, schema in {**self.others, ROWS: self.schema}.items():
                self._gather(parts, name, schema)
        for path in sorted((self.folder / PARTS).glob("*")) if (self.folder / PARTS).is_dir() else []:
            path.unlink()
        if (self.folder / PARTS).is_dir():
            (self.folder / PARTS).rmdir()

    def _gather(self, parts: Sequence[Path], name: str, schema: Any) -> None:
        """Write the columns of ``schema`` of the files ``parts`` into one file, called ``name``, in the folder of the run; columns that an
        earlier version left out have no value.
        """

        def gather(half: Path) -> None:
            with _arrow().parquet.ParquetWriter(half, schema, compression="zstd") as writer:
                for part in parts:
                    writer.write_table(_with_columns(self._table(part), schema))

        write_whole(self.folder / name, gather)

    def read(self) -> list[dict[str, Any]]:
        """Return all rows in the file, in the order of the inputs.

        Their ``scores`` are arrays, which take an eighth of the memory of a list: they are most of a run, and few of them are ever looked
        at.
        """
        return self._read(self.folder / ROWS, self.schema)

    def read_costs(self) -> list[dict[str, Any]]:
        """Return the cost of each row's map, in the order of the rows; empty if an earlier version wrote the run."""
        path = self.folder / COSTS
        return [] if self.complete and not path.is_file() else self._read(path, _schema_of_costs())

    def _read(self, whole: Path, schema: Any) -> list[dict[str, Any]]:
        parts = [self._part(number) for number in range(self.count)]
        paths = [whole] if self.complete else [path for path in parts if path.is_file()]
        return [row for path in paths for table in self._tables(path) for row in _rows_of(_with_columns(table, schema))]


def read_rows(folder: Path) -> list[dict[str, Any]]:
    """Return all rows of the finished run in ``folder``, in the order of the inputs. Raises ExplainerError for a damaged file."""
    path = folder / ROWS
    with _report_damage(path):
        return list(_rows_of(_arrow().parquet.read_table(path)))


def _rows_of(table: Any) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table as dictionaries, the scores of each as an array."""
    scores = table.column("scores") if "scores" in table.column_names else None
    for number, row in enumerate((table if scores is None else table.drop_columns(["scores"])).to_pylist()):
        if scores is not None:
            values = scores[number].values
            row["scores"] = None if values is None else array("f", values.to_numpy())
        yield row


def _with_columns(table: Any, schema: Any) -> Any:
    """Return the table with the columns of a schema; columns that it lacks have no values."""
    pa = _arrow()
    columns = [table.column(field.name) if field.name in table.schema.names else pa.nulls(len(table), field.type) for field in schema]
    return pa.table(columns, schema=schema)
