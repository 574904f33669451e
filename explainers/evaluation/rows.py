"""The rows of a run on disk: Parquet files that are whole or not there, so that a run may stop at any moment and go on."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from explainers.errors import ExplainerError
from explainers.metrics import Metric

RUN, ROWS, PARTS = "run.json", "rows.parquet", "parts"


def _arrow() -> Any:
    import pyarrow
    import pyarrow.parquet

    return pyarrow


def schema_of(metrics: Sequence[Metric], curve_names: Sequence[str]) -> Any:
    """The columns of the rows: which input and method, a number for each metric or part of one, curves, scores."""
    pa = _arrow()
    columns = [("index", pa.int64()), ("input", pa.string()), ("target", pa.string()), ("method", pa.string())]
    columns.append(("unknown", pa.list_(pa.string())))
    values = [(column, pa.float64()) for metric in metrics for column in metric.columns]
    curves = [(f"curve.{name}", pa.list_(pa.float64())) for name in curve_names]
    return pa.schema([*columns, *values, *curves, ("scores", pa.list_(pa.float32()))])


def half_of(path: Path) -> Path:
    """Where a file is written before it takes its place; what lies there counts for nothing."""
    return path.with_name(f".{path.name}.half")


def write_whole(path: Path, write: Callable[[Path], None]) -> None:
    """Have ``write`` make a file that takes the place of ``path`` once it is whole and on the disk."""
    half = half_of(path)
    write(half)
    with half.open("rb+") as file:
        os.fsync(file.fileno())
    half.replace(path)


def write_json(path: Path, document: Any) -> None:
    """A JSON file, whole or not at all."""
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    write_whole(path, lambda half: _write_text(half, text))


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, "utf-8")


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Within it, no other process measures in ``folder``: raises ExplainerError where one does. The lock ends with its process, however
    that dies, and leaves no file.
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
    """Within it, what cannot be read of a file raises ExplainerError, which says how to go on."""
    try:
        yield
    except (_arrow().ArrowException, OSError) as problem:
        raise ExplainerError(f"{path} is damaged ({problem}): remove it and type the same again, and it is measured anew.") from None


class RowFile:
    """The rows of a run of ``count`` parts in ``folder``: one file a part while it runs, then all in one file. Raises ExplainerError for
    a damaged one.
    """

    def __init__(self, folder: Path, schema: Any, count: int) -> None:
        self.folder, self.schema, self.count = folder, schema, count

    @property
    def complete(self) -> bool:
        """Whether all parts are there, in one file."""
        return (self.folder / ROWS).is_file()

    def _part(self, number: int) -> Path:
        return self.folder / PARTS / f"{number:06d}.parquet"

    def missing_parts(self) -> list[int]:
        """The parts that are not there yet; whether the others are whole is seen from how each ends."""
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

    def add(self, number: int, rows: list[dict[str, Any]]) -> None:
        """Write one part."""
        pa = _arrow()
        self._part(number).parent.mkdir(exist_ok=True)
        table = pa.Table.from_pylist(rows, schema=self.schema)
        write_whole(self._part(number), lambda half: pa.parquet.write_table(table, half, compression="zstd"))

    def finish(self) -> None:
        """Put all parts into one file, a row group each, and drop them."""
        pa = _arrow()
        parts = [self._part(number) for number in range(self.count)]
        if not self.complete:

            def gather(half: Path) -> None:
                with pa.parquet.ParquetWriter(half, self.schema, compression="zstd") as writer:
                    for part in parts:
                        writer.write_table(self._table(part))

            write_whole(self.folder / ROWS, gather)
        for path in sorted((self.folder / PARTS).glob("*")) if (self.folder / PARTS).is_dir() else []:
            path.unlink()
        if (self.folder / PARTS).is_dir():
            (self.folder / PARTS).rmdir()

    def read(self) -> list[dict[str, Any]]:
        """All rows that are there, in the order of the inputs."""
        parts = [self._part(number) for number in range(self.count)]
        paths = [self.folder / ROWS] if self.complete else [path for path in parts if path.is_file()]
        return [row for path in paths for row in self._table(path).to_pylist()]
