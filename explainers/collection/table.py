"""A finished collection as a table: columns in memory by which its rows are sorted and filtered; the rest is read from the disk by page."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from threading import RLock
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray

from explainers.collection.labels import has_unknown_label
from explainers.collection.projection import principal_components
from explainers.collection.result import ROWS_AT_ONCE, THUMBNAILS, Collection
from explainers.collection.shared_places import Evidence, find_shared_places
from explainers.collection.suspicion import FLAGS, Readings
from explainers.errors import ExplainerError
from explainers.evaluation.rows import ROWS
from explainers.json_records import Record, describe
from explainers.records.targets.names import index_of_name

Positions = NDArray[np.int64]
Space = Literal["inputs", "maps"]

MAX_CONFUSED = 12  # classes of a confusion matrix, those with the most wrong rows
KEPT_GROUPS = 128  # row groups, of some hundredth of the rows each, that stay in memory
_OTHERS = "other classes"
#: Columns by which rows can be sorted, with whether the largest comes first at the first press.
ORDERS = {
    "suspicion": True,
    "input": False,
    "label": False,
    "answer": False,
    "probability": True,
    "agreement": False,
    "on_object": False,
    "on_border": True,
    "without": True,
}
_MAP_FIELDS = ("method", "share_on_object", "share_on_border", "falls", "probability_without")
_LIGHT = ("index", "input", "text", "text_pair", "labels", "own_columns", "answer", "probability", "right", "doubt", "grid", "object_area")
_HEAVY = ("index", "words", "crop", "notes", "doubt_detail", "runner_up", "runner_up_probability")


@dataclass(frozen=True, kw_only=True)
class RowFilter:
    """Which rows are shown: those that have all that is asked for.

    word     a part of the name, text, label, answer or an own column, in any case of letters
    label, answer  the class of the first label (of a right row the answer), and the answer
    right    whether the answer is right
    flags    names of :data:`FLAGS`
    columns  values of the data's own columns, by name
    box      x0, y0, x1, y1 in the plane of principal components of ``space``
    """

    word: str = ""
    label: str | None = None
    answer: str | None = None
    right: bool | None = None
    flags: Sequence[str] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    box: tuple[float, float, float, float] | None = None
    space: Space = "inputs"


@dataclass(frozen=True, kw_only=True)
class CollectionRowMap(Record):
    """The map of one method for a row: scores in steps from -127 to 127, and its readings."""

    method: str
    scores: list[int]
    share_on_object: float | None
    share_on_border: float | None
    falls: bool | None
    probability_without: float | None
    answer_without: str | None


@dataclass(frozen=True, kw_only=True)
class CollectionRow(Record):
    """One row of the table of a collection."""

    index: Annotated[int, describe("The place of the input in the data, from 0.")]
    input: str
    text: str | None
    text_pair: str | None
    words: Annotated[list[tuple[int, int, int]], describe("For each word of a text its first character, the one after it, and its part.")]
    crop: Annotated[list[int], describe("x0, y0, x1, y1 of the upright picture: the part that the model saw. Empty for a text.")]
    grid: list[int]
    label: Annotated[str | None, describe("The class of the first label, as the model calls it; of a right row the answer.")]
    labels: list[str]
    answer: str
    probability: float | None
    runner_up: str | None
    runner_up_probability: float | None
    right: bool | None
    doubt: str | None
    agreement: float | None
    object_area: float | None
    suspicion: Annotated[float, describe("0 to 1.")]
    flags: Annotated[list[str], describe("The names of the flags that it has.")]
    own_columns: dict[str, str]
    maps: list[CollectionRowMap]
    notes: list[str]


@dataclass(frozen=True)
class Confusion(Record):
    """How often each label got each answer: rows of ``counts`` are labels, columns answers, the most confused classes first."""

    labels: list[str]
    answers: list[str]
    counts: list[list[int]]


class CollectionTable:
    """The rows of a finished collection, to sort, filter and read by page. Any thread may call.

    Only the columns that rows are sorted and filtered by are in memory: about a kilobyte a row, and the text of a text.
    """

    def __init__(self, collection: Collection) -> None:
        """Read the columns of ``collection``. Raises ExplainerError for damaged files, or files of another version."""
        self.collection = collection
        self._lock = RLock()
        self._metadata: dict[str, Any] = {}
        self._groups: dict[tuple[str, int], Any] = {}
        self._planes: dict[Space, NDArray[np.float32] | None] = {}
        with _damage(collection.folder / ROWS):
            self._read_columns()
        self.suspicion = self.readings.suspicion()
        self.flags = self.readings.flags()

    def _read_columns(self) -> None:
        import pyarrow.parquet as pq

        names = [*_LIGHT, "agreement", *(f"maps.list.element.{name}" for name in _MAP_FIELDS)]
        with pq.ParquetFile(self.collection.folder / ROWS) as file:
            sizes = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
            rows = [row for batch in file.iter_batches(1024, columns=names) for row in batch.to_pylist()]
        self._starts = np.cumsum([0, *sizes])
        self.count = len(rows)
        self.rows: list[dict[str, Any]] = rows
        classes = _class_names(rows, self.collection.about.get("classes") or ())
        for row in rows:
            row["own_columns"] = dict(row["own_columns"])
            row["label"] = str(row["answer"]) if row["right"] else classes[row["labels"][0]] if row["labels"] else None
        self.methods = [each["method"] for each in rows[0]["maps"]] if rows else []
        shared, self.shared_places = find_shared_places(
            self._evidence(),
            [row["answer"] for row in rows],
            right=np.array([np.nan if row["right"] is None else float(row["right"]) for row in rows]),
        )
        self.readings = _readings_of(rows, [row.pop("maps")[0] for row in rows], shared)
        self._words = ["\n".join(_searched(row)).casefold() for row in rows]
        self._positions = {row["index"]: position for position, row in enumerate(rows)}

    def _evidence(self) -> Evidence:
        """Return the positive scores of the first map of each row; of texts, whose words have no common places, none."""
        import pyarrow.parquet as pq

        grids = Counter(tuple(row["grid"]) for row in self.rows if row["grid"])
        (height, width), _ = grids.most_common(1)[0] if grids else ((0, 0), 0)
        steps = np.zeros((self.count, height * width), np.uint8)
        if not grids:
            return Evidence(steps, (0, 0))
        first = 0
        with pq.ParquetFile(self.collection.folder / ROWS) as file:
            for batch in file.iter_batches(ROWS_AT_ONCE, columns=["maps.list.element.scores"]):
                maps = batch.column(0)
                scores = maps.values.field("scores")  # of all maps of these rows, one after the other
                values, ends = scores.values.to_numpy(zero_copy_only=False), scores.offsets.to_numpy()
                for position, number in enumerate(maps.offsets.to_numpy()[:-1].tolist(), first):
                    if tuple(self.rows[position]["grid"]) == (height, width):
                        steps[position] = np.maximum(values[ends[number] : ends[number + 1]], 0)
                first += len(maps)
        return Evidence(steps, (height, width))

    @cached_property
    def own_columns(self) -> list[str]:
        """The names of the data's own columns, in the order of their first rows."""
        return list(dict.fromkeys(name for row in self.rows for name in row["own_columns"]))

    @cached_property
    def unknown_labels(self) -> Counter[str]:
        """How many rows have each label that the model does not know."""
        about = self.collection.about
        unknown = (row for row in self.rows if has_unknown_label(about, row["labels"], row["right"], row["probability"]))
        return Counter(row["labels"][0] for row in unknown)

    def values(self, column: Literal["label", "answer"]) -> list[str]:
        """Return the distinct values of a column, the most frequent first."""
        return [value for value, _ in Counter(row[column] for row in self.rows if row[column] is not None).most_common()]

    def position_of(self, index: int) -> int | None:
        """Return the position of the row of the input ``index``; None if there is none."""
        return self._positions.get(index)

    def select(
        self, rows: RowFilter, order: str = "suspicion", *, descending: bool | None = None, in_slices: frozenset[int] = frozenset()
    ) -> Positions:
        """Return the positions of the rows that pass a filter, sorted; ties and unknown values (last) stay in the order of the data.

        ``order`` is a key of :data:`ORDERS`; ``descending`` None: as that says. ``in_slices`` are the indices of rows that belong to
        slices: they are more suspicious than all others, since many rows and a test speak for that and not the row alone. Raises
        ExplainerError for an unknown order, flag or column.
        """
        if order not in ORDERS:
            raise ExplainerError(f"There is no order {order!r}: use one of {', '.join(ORDERS)}.")
        positions = np.flatnonzero(self._passes(rows))
        keys, is_down = (self._keys(order) + self._lead(order, in_slices))[positions], ORDERS[order] if descending is None else descending
        unknown = np.isnan(keys)
        return positions[np.lexsort((np.where(unknown, 0, -keys if is_down else keys), unknown))].astype(np.int64)

    def _lead(self, order: str, in_slices: frozenset[int]) -> NDArray[np.float64]:
        """Return what puts the rows of slices before others by suspicion, which is at most 1: 2 for these, else 0."""
        lead = np.zeros(self.count)
        if order == "suspicion":
            lead[[self._positions[index] for index in in_slices if index in self._positions]] = 2
        return lead

    def _passes(self, rows: RowFilter) -> NDArray[np.bool_]:
        passes = np.ones(self.count, np.bool_)
        if word := rows.word.strip().casefold():
            passes &= np.fromiter((word in words for words in self._words), np.bool_, self.count)
        for name, value in (("label", rows.label), ("answer", rows.answer)):
            if value is not None:
                passes &= np.fromiter((row[name] == value for row in self.rows), np.bool_, self.count)
        if rows.right is not None:
            passes &= self.readings.right == rows.right
        for name in rows.flags:
            if name not in FLAGS:
                raise ExplainerError(f"There is no flag {name!r}: use one of {', '.join(FLAGS)}.")
            passes &= self.flags[name]
        for name, value in rows.columns.items():
            if name not in self.own_columns:
                raise ExplainerError(f"The data have no column {name!r}: they have {', '.join(self.own_columns) or 'none of their own'}.")
            passes &= np.fromiter((row["own_columns"].get(name) == value for row in self.rows), np.bool_, self.count)
        if rows.box is not None:
            plane = self.plane(rows.space)
            if plane is None:
                return np.zeros(self.count, np.bool_)
            x0, y0, x1, y1 = rows.box
            passes &= ((plane >= (min(x0, x1), min(y0, y1))) & (plane <= (max(x0, x1), max(y0, y1)))).all(axis=1)
        return passes

    def _keys(self, order: str) -> NDArray[np.float64]:
        """Return a number for each row to sort by; texts get their place in the order of the alphabet."""
        if order in ("input", "label", "answer"):
            values = [row[order] for row in self.rows]
            places = {value: place for place, value in enumerate(sorted({value for value in values if value is not None}, key=_natural))}
            return _numbers(None if value is None else places[value] for value in values)
        if order == "suspicion":
            return self.suspicion
        keys: NDArray[np.float64] = getattr(self.readings, order)
        return keys

    def page(self, positions: Sequence[int] | Positions) -> list[CollectionRow]:
        """Read the rows at these positions from the disk, in their order."""
        return [self._row(int(position)) for position in positions]

    def _row(self, position: int) -> CollectionRow:
        light, heavy = self.rows[position], self._heavy(position)
        known = {name: light[name] for name in ("index", "input", "text", "text_pair", "label", "labels", "answer", "probability", "right")}
        known |= {name: light[name] for name in ("doubt", "agreement", "object_area", "own_columns", "grid")}
        return CollectionRow(
            **known,
            words=[(word["start"], word["end"], word["part"]) for word in heavy["words"]],
            crop=heavy["crop"],
            runner_up=heavy["runner_up"],
            runner_up_probability=heavy["runner_up_probability"],
            suspicion=round(float(self.suspicion[position]), 4),
            flags=[name for name, has in self.flags.items() if has[position]],
            maps=[CollectionRowMap(**{name: each[name] for name in (*_MAP_FIELDS, "scores", "answer_without")}) for each in heavy["maps"]],
            notes=heavy["notes"],
        )

    def _heavy(self, position: int) -> dict[str, Any]:
        group = int(np.searchsorted(self._starts, position, side="right")) - 1
        names = [*_HEAVY, *(f"maps.list.element.{name}" for name in (*_MAP_FIELDS, "scores", "answer_without"))]
        return self._stored(ROWS, group, position - int(self._starts[group]), names)

    def thumbnail(self, index: int) -> bytes | None:
        """Return the JPEG file of the input ``index``; None if there is none, as of a text."""
        place = self._thumbnails.get(index)
        if place is None:
            return None
        picture: bytes | None = self._stored(THUMBNAILS, *place, ["thumbnail"])["thumbnail"]
        return picture

    @cached_property
    def _thumbnails(self) -> dict[int, tuple[int, int]]:
        """Row group and row of each thumbnail, by the index of its input."""
        import pyarrow.parquet as pq

        path = self.collection.folder / THUMBNAILS
        if not path.is_file():
            return {}
        with _damage(path), pq.ParquetFile(path) as file:
            groups = [file.read_row_group(group, columns=["index"]).column("index").to_pylist() for group in range(file.num_row_groups)]
        return {index: (group, row) for group, indices in enumerate(groups) for row, index in enumerate(indices)}

    def _stored(self, name: str, group: int, row: int, columns: Sequence[str]) -> dict[str, Any]:
        """Return some columns of one row of a row group of the file ``name``; the groups read last stay in memory."""
        import pyarrow.parquet as pq

        with self._lock:
            table = self._groups.pop((name, group), None)
            if table is None:
                path = self.collection.folder / name
                with _damage(path), pq.ParquetFile(path, metadata=self._metadata.get(name)) as file:
                    self._metadata[name] = file.metadata
                    table = file.read_row_group(group, columns=columns)
                if len(self._groups) >= KEPT_GROUPS:
                    self._groups.pop(next(iter(self._groups)))
            self._groups[name, group] = table
        stored: dict[str, Any] = table.slice(row, 1).to_pylist()[0]
        return stored

    def confusion(self, positions: Positions) -> Confusion:
        """Return how often each label got each answer among the rows at these positions that are right or wrong: the classes with the most
        wrong rows, and the others together.
        """
        pairs = Counter(
            (row["label"], row["answer"]) for row in (self.rows[position] for position in positions) if row["right"] is not None
        )
        wrong, seen = Counter[str](), Counter[str]()
        for (label, answer), count in pairs.items():
            for name in {label, answer}:
                seen[name] += count
                wrong[name] += count if label != answer else 0
        order = sorted(seen, key=lambda name: (-wrong[name], -seen[name], name))
        shown = order if len(order) <= MAX_CONFUSED else [*order[: MAX_CONFUSED - 1], _OTHERS]
        known = {name: place for place, name in enumerate(shown)}
        counts = np.zeros((len(shown), len(shown)), int)
        for (label, answer), count in pairs.items():
            counts[known.get(label, len(shown) - 1), known.get(answer, len(shown) - 1)] += count
        return Confusion(shown, list(shown), counts.tolist())

    def plane(self, space: Space) -> NDArray[np.float32] | None:
        """Return the first two principal components (N, 2) of the embeddings of the inputs, or of the first maps; None where there are
        none. NaN for a row without an embedding.
        """
        with self._lock:
            if space not in self._planes:
                self._planes[space] = principal_components(lambda: self._embeddings(space))
            return self._planes[space]

    def _embeddings(self, space: Space) -> Iterator[NDArray[np.float32]]:
        """Yield the embeddings of the rows, some at a time, (n, D); those of another length than the first are NaN."""
        import pyarrow.parquet as pq

        column = "embedding" if space == "inputs" else "maps.list.element.embedding"
        width = 0
        path = self.collection.folder / ROWS
        with _damage(path), pq.ParquetFile(path) as file:
            for batch in file.iter_batches(ROWS_AT_ONCE, columns=[column]):
                values = batch.column(0).to_pylist()
                vectors = values if space == "inputs" else [each[0]["embedding"] if each else [] for each in values]
                width = width or next((len(vector) for vector in vectors if vector), 0)
                unknown = [math.nan] * width
                yield np.array([vector if len(vector) == width else unknown for vector in vectors], np.float32).reshape(len(vectors), width)


def _readings_of(rows: Sequence[Mapping[str, Any]], first: Sequence[Mapping[str, Any]], shared: NDArray[np.float64]) -> Readings:
    """Return what suspicion is judged by, of ``rows`` and the ``first`` map of each; ``shared`` is their reading ``shared_place``."""
    grids = [row["grid"] for row in rows]
    borders = [1 - max(0, grid[0] - 2) * max(0, grid[1] - 2) / (grid[0] * grid[1]) if grid else None for grid in grids]
    return Readings(
        right=_numbers(row["right"] for row in rows),
        probability=_numbers(row["probability"] for row in rows),
        agreement=_numbers(row["agreement"] for row in rows),
        on_object=_numbers(each["share_on_object"] for each in first),
        object_area=_numbers(row["object_area"] for row in rows),
        on_border=_numbers(each["share_on_border"] for each in first),
        border_area=_numbers(borders),
        falls=_numbers(each["falls"] for each in first),
        without=_numbers(each["probability_without"] for each in first),
        shared_place=shared,
    )


def _class_names(rows: Sequence[Mapping[str, Any]], classes: Sequence[str]) -> dict[str, str]:
    """Return the name of the model's class for each first label of ``rows``: the answer of the rows with that label that are right, else
    the one of ``classes`` with the same spelling, else the label itself.
    """
    labels = dict.fromkeys(row["labels"][0] for row in rows if row["labels"])
    names = {label: label if (index := index_of_name(label, classes)) is None else classes[index] for label in labels}
    return names | {row["labels"][0]: str(row["answer"]) for row in rows if row["right"] and len(row["labels"]) == 1}


def _searched(row: Mapping[str, Any]) -> Iterator[str]:
    yield from (row["input"], row["text"] or "", row["text_pair"] or "", row["answer"], *row["labels"], *row["own_columns"].values())


def _numbers(values: Any) -> NDArray[np.float64]:
    return np.array([math.nan if value is None else float(value) for value in values], np.float64)


def _natural(text: str) -> tuple[bool, int, str]:
    """Sort numbers by their size, before other texts."""
    return (False, int(text), "") if text.isdecimal() and text.isascii() else (True, 0, text.casefold())


@contextmanager
def _damage(path: Path) -> Iterator[None]:
    """Convert an error of reading the file ``path`` inside this context to an ExplainerError that says what to do."""
    from pyarrow import ArrowException

    try:
        yield
    except (ArrowException, OSError, KeyError) as problem:
        raise ExplainerError(f"{path} is damaged, or of another version of Vitrine: collect it again.") from problem
