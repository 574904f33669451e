"""The collections that a server shows: those in the folders that the operator named, and those that visitors made here."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from explainers.collection.result import open_collection
from explainers.collection.table import CollectionTable
from explainers.errors import ExplainerError
from explainers.json_records import Record, describe
from vitrine_server.http.problems import Problem, suggestion
from vitrine_server.http.visitors import Visitor

RECORD, ROWS = "run.json", "rows.parquet"  # files of a collection
KEPT_TABLES = 4  # collections whose columns stay in memory
MAX_SHOWN = 200_000  # rows of a collection whose columns are read


@dataclass(frozen=True)
class CollectionEntry(Record):
    """A finished collection on the page: its id, title, model, kind of inputs and number of rows."""

    id: str
    title: Annotated[str, describe("The name of its data.")]
    model: str
    kind: Annotated[str, describe("image, text or molecule.")]
    rows: int
    is_own: Annotated[bool, describe("Whether the visitor made it here, and may delete it.")]


@dataclass(frozen=True)
class ShelvedCollection:
    """A finished collection: its id, its folder, the contents of its run.json, the number of its rows, and its owner's title if a visitor
    made it.
    """

    id: str
    folder: Path
    record: dict[str, Any]
    rows: int
    made_title: str | None = None

    @property
    def title(self) -> str:
        """The title on the page: the name of the data, without folders."""
        return self.made_title or f"{self.folder.name}"

    @property
    def model(self) -> str:
        """The name of its model; of a folder, the last part of its path, as visitors see no paths."""
        name = str(self.record.get("model", ""))
        return Path(name).name if Path(name).is_absolute() else name

    def entry(self) -> CollectionEntry:
        """Return what the list of collections says of it."""
        is_own = self.made_title is not None
        return CollectionEntry(self.id, self.title, self.model, str(self.record.get("input_kind", "image")), self.rows, is_own)


@dataclass
class Shelf:
    """Finds the finished collections that a visitor may see, and opens them. Any thread may call.

    named    folders of the operator: collections, or folders of collections
    made     lists id, folder and title of the finished collections that a visitor made
    """

    named: Sequence[Path]
    made: Callable[[Visitor], Sequence[tuple[str, Path, str]]] = lambda visitor: ()
    _tables: OrderedDict[tuple[str, int], CollectionTable] = field(default_factory=OrderedDict)
    _known: dict[Path, tuple[tuple[int, int], ShelvedCollection]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def all(self, visitor: Visitor) -> list[ShelvedCollection]:
        """Return the collections that ``visitor`` may see: their own first, then the operator's by name. One that cannot be read, or is not
        finished, is left out.
        """
        theirs = [self._shelved(name, folder, title) for name, folder, title in self.made(visitor)]
        named = {path.resolve(): path for folder in self.named for path in _below(folder)}
        operators = [self._shelved(_id_of(path), path, None) for path in sorted(named.values(), key=lambda path: path.name)]
        return [each for each in (*theirs, *operators) if each is not None]

    def find(self, name: str, visitor: Visitor) -> ShelvedCollection:
        """Return the collection with this id. Raises Problem 404 if there is none that ``visitor`` may see."""
        known = self.all(visitor)
        for each in known:
            if each.id == name:
                return each
        send = f"{suggestion(name, [each.id for each in known])}GET /api/collections lists them."
        raise Problem(404, "no-such-collection", f"There is no collection {name[:100]!r} here.", send=send)

    def _shelved(self, name: str, folder: Path, title: str | None) -> ShelvedCollection | None:
        """Return the collection in ``folder``, read again where a file of it has changed; None if it is not one."""
        try:
            stamp = ((folder / RECORD).stat().st_mtime_ns, (folder / ROWS).stat().st_mtime_ns)
        except OSError:
            return None
        known = self._known.get(folder)
        if known is not None and known[0] == stamp:
            return known[1]
        if (shelved := _read(name, folder, title)) is not None:
            self._known[folder] = (stamp, shelved)
        return shelved

    def table(self, shelved: ShelvedCollection) -> CollectionTable:
        """Return the rows of a collection; the last few that were asked for stay in memory. Raises Problem 413 for one that is too large
        for the page, 422 for files that cannot be read.
        """
        if shelved.rows > MAX_SHOWN:
            detail = f"The collection has {shelved.rows} rows, and the page shows at most {MAX_SHOWN}."
            raise Problem(413, "collection-too-large", detail, send="Read its rows.parquet with DuckDB or pandas.")
        key = (str(shelved.folder), (shelved.folder / ROWS).stat().st_mtime_ns)
        with self._lock:
            if (table := self._tables.get(key)) is None:
                try:
                    table = CollectionTable(open_collection(shelved.folder))
                except ExplainerError as problem:
                    detail = str(problem).replace(str(shelved.folder), "the collection")
                    raise Problem(422, "broken-collection", detail, send="Collect it again with vitrine collect.") from None
                self._tables[key] = table
            self._tables.move_to_end(key)
            while len(self._tables) > KEPT_TABLES:
                self._tables.popitem(last=False)
            return table


def _below(folder: Path) -> Iterator[Path]:
    """Yield the folders of finished collections: ``folder`` itself, or those in it."""
    for path in (folder, *(sorted(folder.iterdir()) if folder.is_dir() else ())):
        if (path / RECORD).is_file() and (path / ROWS).is_file():
            yield path


def _id_of(folder: Path) -> str:
    """Return the id of an operator's collection, which tells nothing of the path but its last part."""
    return f"{folder.name}-{hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:8]}"


def _read(name: str, folder: Path, title: str | None) -> ShelvedCollection | None:
    """Return the collection in ``folder``; None if it is not one, or cannot be read."""
    import pyarrow.parquet as pq
    from pyarrow import ArrowException

    try:
        record = json.loads((folder / RECORD).read_text("utf-8"))
        if not isinstance(record, dict) or record.get("kind") != "collection":
            return None
        return ShelvedCollection(name, folder, record, int(pq.read_metadata(folder / ROWS).num_rows), title)
    except (OSError, ValueError, ArrowException):
        return None
