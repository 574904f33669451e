"""The inputs of a collection: a data set by name, a folder of pictures, or a table of one's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from explainers.datasets import DATASETS, AnnotatedObject, Dataset, DatasetEntry, Folder, Sample, open_dataset
from explainers.datasets.base import DatasetKind
from explainers.datasets.parquet import Table
from explainers.errors import ExplainerError
from explainers.models.inputs.images import read_image

SOURCES = "sources"  # the key in run.json of the names of the inputs
TABLE_ENDINGS = (".csv", ".parquet")
#: For each column that holds an input, the kind of the input.
_INPUT_COLUMNS: dict[str, DatasetKind] = {"path": "image", "text": "text", "smiles": "molecule"}
#: The columns with a meaning besides; every other one is the person's own.
_LABEL, _PAIR, _MASK = "label", "text_pair", "mask"
_LAYOUT = """
a file .csv or .parquet, or a folder of .parquet files, with a row for each input and one of the columns
path (a picture, below the folder of the table), text or smiles; and, if known,
label (the name of a class), text_pair (a second text), mask (a picture that is white on the object), and columns of your own
"""
_WHITE = 127  # pixels of a mask above it are on the object


@dataclass(frozen=True)
class Sources:
    """The names of the inputs of a collection, as :func:`open_inputs` takes them, with which they are opened in another process."""

    data: str
    folder: Path | None = None
    split: str | None = None
    names_classes: bool = False

    def absolute(self) -> Sources:
        """Return the same with absolute paths, as other processes do not run in this folder."""
        path = Path(self.data).expanduser()
        folder = None if self.folder is None else self.folder.expanduser().resolve()
        return replace(self, data=str(path.resolve()) if path.exists() else self.data, folder=folder)

    def to_json(self) -> dict[str, Any]:
        """Return the names as plain data; :func:`sources_of` reads them."""
        return {"data": self.data, "folder": None if self.folder is None else str(self.folder), "split": self.split}

    def open(self) -> Dataset:
        """Open the inputs. Raises ExplainerError as :func:`open_inputs` does."""
        return open_inputs(self.data, self.folder, self.split, names_classes=self.names_classes)


def sources_of(record: Mapping[str, Any]) -> Sources | None:
    """Return the names of the inputs in ``record``, the contents of run.json; None if it does not say them."""
    names = record.get(SOURCES)
    if not isinstance(names, dict) or not isinstance(names.get("data"), str):
        return None
    folder = names.get("folder")
    return Sources(names["data"], None if folder is None else Path(folder), names.get("split"))


def open_inputs(
    data: str | Path | Dataset, folder: Path | None = None, split: str | None = None, *, names_classes: bool = False
) -> Dataset:
    """Open the inputs of a collection.

    data    the name of a data set of `vitrine evaluate`; a folder of pictures, whose own folders are their classes, with masks in the
            folder ``masks``; a .csv or .parquet file, or a folder of .parquet files; a .jsonl file of texts; or an open data
            set, which is returned
    folder, split  of a published data set: where its files are, and which part of it is read
    names_classes  whether the classes of a table are listed, in the order of the alphabet, as prompts are made of them

    Raises ExplainerError for a file or a name that does not exist, and for a table without a column of inputs.
    """
    if isinstance(data, Dataset):
        return data
    path = Path(data).expanduser()
    if not path.exists():
        if str(data) in DATASETS:
            return open_dataset(str(data), folder, split)
        raise ExplainerError(
            f"There is no file or folder {path}, and no data set of that name: name a folder of pictures, a .csv or .parquet file, or one "
            f"of {', '.join(DATASETS)}."
        )
    if folder is not None or split is not None:
        raise ExplainerError(f"{path} holds the inputs itself: --data and --split are for published data sets.")
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    if path.is_dir() and not files:
        return open_dataset("pictures", path)
    if path.suffix == ".jsonl":
        return open_dataset("texts", path)
    return _open_table(path, files, names_classes)


def _open_table(path: Path, files: list[Path], names_classes: bool) -> Dataset:
    """Open the table in ``files``, which lie at ``path``: a file, or a folder of Parquet files."""
    entry = DatasetEntry(
        name="table",
        title="A table of inputs",
        kind="text",
        gives=("class", "mask"),
        description="",
        layout=_LAYOUT.strip("\n"),
        source=None,
        get="",
        splits=(),
        opener=lambda folder: _open_table(path, files, names_classes),
    )
    table = Folder(entry, path)
    if files[0].suffix not in TABLE_ENDINGS:
        raise table.error_for(path, f"it does not end in {' or '.join(TABLE_ENDINGS)}")
    rows = _CsvRows(table) if files[0].suffix == ".csv" else _parquet_rows(table, files)
    column = next((name for name in _INPUT_COLUMNS if name in rows.columns), None)
    if column is None:
        raise table.error_for(path, f"it has no column {', '.join(_INPUT_COLUMNS)}, but {', '.join(rows.columns) or 'none'}")
    kind, root = _INPUT_COLUMNS[column], path if path.is_dir() else path.parent
    meant = {column, _LABEL, *((_MASK,) if kind == "image" else (_PAIR,) if kind == "text" else ())}

    def read(number: int) -> Sample:
        row = rows.row(number)
        value, label = row[column], row.get(_LABEL)
        if not isinstance(value, str) or not value.strip():
            raise ExplainerError(f"row {number + 1} of {path} has an empty {column}")
        if label is not None and not isinstance(label, str):
            raise ExplainerError(f"row {number + 1} of {path}: label must be the name of a class, not {label!r}")
        facts: dict[str, Any] = {
            "name": value if kind == "image" else str(number),
            "labels": (label,) if label else (),
            "own_columns": {name: str(cell) for name, cell in row.items() if name not in meant and cell is not None and cell != ""},
        }
        if kind != "image":
            return Sample(text=value, text_pair=(row.get(_PAIR) or None) if kind == "text" else None, **facts)
        objects: tuple[AnnotatedObject, ...] = ()
        if row.get(_MASK):
            objects = (AnnotatedObject(label=label or None, mask=np.asarray(read_image(root / row[_MASK]).convert("L")) > _WHITE),)
        return Sample(image=read_image(root / value), objects=objects, **facts)

    labels = sorted({str(label) for label in rows.values(_LABEL) if label}) if names_classes and _LABEL in rows.columns else ()
    return Dataset(kind=kind, length=len(rows), read=read, name=path.name, classes=tuple(labels), folder=root, is_ordered=False)


class _CsvRows:
    """The rows of a CSV file, all of them in memory."""

    def __init__(self, table: Folder) -> None:
        self._rows = list(table.table(table.path, ()))
        self.columns = list(self._rows[0]) if self._rows else []

    def __len__(self) -> int:
        return len(self._rows)

    def row(self, number: int) -> dict[str, Any]:
        """Return row ``number``, counted from 0, by column."""
        return dict(self._rows[number])

    def values(self, column: str) -> set[Any]:
        """Return the distinct values of a column."""
        return {row[column] for row in self._rows}


class _ParquetRows(Table):
    """The rows of Parquet files, of which a row group is in memory at a time."""

    def __init__(self, table: Folder, files: list[Path], columns: list[str]) -> None:
        super().__init__(table, files, tuple(columns))
        self.columns, self._files = columns, files

    def values(self, column: str) -> set[Any]:
        """Return the distinct values of a column."""
        import pyarrow.parquet as pq

        return {value for path in self._files for value in pq.read_table(path, columns=[column]).column(column).unique().to_pylist()}


def _parquet_rows(table: Folder, files: list[Path]) -> _ParquetRows:
    """Open Parquet files with the columns of the first that hold a plain value."""
    import pyarrow.parquet as pq
    from pyarrow import ArrowException, types

    try:
        schema = pq.read_schema(files[0])
    except (ArrowException, OSError) as problem:
        raise table.error_for(files[0], problem) from None
    return _ParquetRows(table, files, [field.name for field in schema if not (types.is_nested(field.type) or types.is_binary(field.type))])
