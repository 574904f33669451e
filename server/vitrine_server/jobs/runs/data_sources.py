"""The data sets that runs of the page are measured on: those that ship, those whose folders the operator named, those that people sent."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from explainers.errors import ExplainerError

if TYPE_CHECKING:  # loading it loads scikit-learn and SciPy, which nothing else of the server needs
    from explainers.datasets import Dataset

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class DataSource:
    """A data set and the place of its files.

    name     its name in requests
    dataset  a name of ``explainers.datasets.DATASETS``
    folder   the folder of its files (or its file); None for one that needs none
    title    its name on the page
    is_sent  whether a visitor sent it for a run
    """

    name: str
    dataset: str
    folder: Path | None = None
    title: str = ""
    is_sent: bool = False

    def open(self) -> Dataset:
        """Open the data set and return it as a :class:`explainers.datasets.Dataset`, which reads an input when it is asked for. Raises
        ExplainerError, without any path in its message, if the data set cannot be read.
        """
        from explainers.datasets import open_dataset

        try:
            return open_dataset(self.dataset, self.folder)
        except ExplainerError as problem:
            raise without_paths(problem, self.folder) from None

    def to_json(self) -> dict[str, Any]:
        """Return the name, data set, folder (as text, or None), title and whether it was sent as a dict for JSON, to send to the process
        of a model.
        """
        folder = None if self.folder is None else str(self.folder)
        return {"name": self.name, "dataset": self.dataset, "folder": folder, "title": self.title, "is_sent": self.is_sent}


def source_from_json(document: Mapping[str, Any]) -> DataSource:
    """Return the data source of ``document``, the dict of :meth:`DataSource.to_json`; ``is_sent`` gets its default, as does
    the title of a run that an earlier version stored without one.
    """
    folder = document["folder"]
    return DataSource(document["name"], document["dataset"], None if folder is None else Path(folder), document.get("title", ""))


def without_paths(problem: ExplainerError, *folders: Path | None) -> ExplainerError:
    """Return an error with the message of ``problem`` without the paths of these ``folders``, since visitors read it over the network. A
    folder of None is ignored.
    """
    text = str(problem)
    for folder in folders:
        if folder is not None:
            text = text.replace(f"{folder}/", "").replace(str(folder), "the data set")
    return ExplainerError(text)


@dataclass
class DataCatalogue:
    """The data sets on which models can be measured, by name: the ones that ship, the operator's, and the ones that visitors sent. Any
    thread may call.

    folders    name -> folder of the data sets that the operator named
    find_sent  returns the source of this name that a visitor sent; None if there is none
    """

    folders: Mapping[str, Path]
    find_sent: Callable[[str], DataSource | None]
    _opened: dict[str, Dataset] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def check(self) -> None:
        """Open the data sets that the operator named; one that cannot be opened is logged and no longer offered."""
        if not self.folders:
            return
        from explainers.datasets import open_dataset

        usable = {}
        for name, folder in self.folders.items():
            try:
                self._opened[name] = open_dataset(name, folder)
                usable[name] = folder
            except (ExplainerError, OSError) as problem:
                log.warning("the data set %s is not offered: %s", name, str(problem).replace("\n", " "))
        self.folders = usable

    def listed(self) -> list[DataSource]:
        """Return the sources of the data sets that ship, then of the data sets that the operator named. Data sets that visitors sent are
        left out.
        """
        from explainers.datasets import DATASETS

        inside = [DataSource(name, name, title=entry.title) for name, entry in DATASETS.items() if not entry.layout]
        return inside + [DataSource(name, name, folder, DATASETS[name].title) for name, folder in self.folders.items()]

    def find(self, name: str) -> DataSource | None:
        """Return the source of the data set called ``name``; None if there is none."""
        return next((source for source in self.listed() if source.name == name), None) or self.find_sent(name)

    def opened(self, source: DataSource) -> Dataset:
        """Return the opened data set of ``source``, a :class:`explainers.datasets.Dataset`; one that is open already is not opened again,
        unless a visitor sent it. Raises ExplainerError if it cannot be read.
        """
        with self._lock:
            if source.name not in self._opened:
                if source.is_sent:  # which come and go
                    return source.open()
                self._opened[source.name] = source.open()
            return self._opened[source.name]
