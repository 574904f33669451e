"""Slices of a collection for the page: the check of a request, and the search itself, in the model's process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from explainers.errors import ExplainerError
from explainers.models.model import Model
from explainers.records.session import Cancelled
from vitrine_server.http.visitors import Visitor
from vitrine_server.jobs.catalogue.model_facts import ModelFacts
from vitrine_server.jobs.catalogue.model_registry import ModelEntry, ModelRegistry
from vitrine_server.jobs.host.work import TellAnswers
from vitrine_server.jobs.runs.data_sources import DataSource, source_from_json, without_paths
from vitrine_server.jobs.runs.measurable import loaded_model
from vitrine_server.jobs.runs.run_kind import RunKind
from vitrine_server.schemas.collections import SlicesRequest
from vitrine_server.shelf import Shelf

FOLDER = "slices"  # of those that visitors began, in the server's home
TESTS = "tests.jsonl"  # of the slices that are tested, in the folder of a search
_MOST_KEPT, _MOST_OF_ONE = 32, 8


@dataclass(frozen=True)
class SearchableCollections:
    """The models (``registry``) and the collections (``shelf``) of a server in which slices can be searched; ``most`` is the maximum number
    of rows. Any thread may call.
    """

    registry: ModelRegistry
    shelf: Shelf
    most: int

    def model(self, name: str, visitor: Visitor) -> tuple[ModelEntry, ModelFacts]:
        """Return the entry and the facts of the loaded model ``name``. Raises Problem 404 for one that is unknown to the ``visitor``, 409
        for one that is not loaded.
        """
        return loaded_model(self.registry, name, visitor)

    def source(self, name: str, facts: ModelFacts, visitor: Visitor) -> DataSource:
        """Return the collection with the id ``name`` as a source. Raises Problem 404 if there is none that ``visitor`` may see."""
        shelved = self.shelf.find(name, visitor)
        return DataSource(name, "collection", shelved.folder, shelved.title)


def check_slices(wanted: Mapping[str, Any], model: Model, cancelled: Callable[[], bool], tell: TellAnswers) -> dict[str, Any]:
    """Check the request ``wanted`` of a search for ``model``. Raises ExplainerError, without any path in its message, for a collection that
    cannot be searched, or whose inputs are gone.
    """
    from explainers.collection.result import open_collection
    from explainers.collection.slices.slices import check_searchable, open_setup

    folder = source_from_json(wanted["source"]).folder
    assert folder is not None
    try:
        collection = open_collection(folder)
        check_searchable(collection)
        open_setup(collection, model)
    except ExplainerError as problem:
        raise _without_paths(problem, folder) from None
    return {}


def find_slices(wanted: Mapping[str, Any], out: Path, model: Model, cancelled: Callable[[], bool], tell: TellAnswers) -> dict[str, Any]:
    """Search the collection of the request ``wanted`` with ``model`` until ``cancelled()`` is true, and write the report into ``out``;
    return ``{"finished": whether it reached its end}``. Raises ExplainerError, without any path in its message, if it cannot.
    """
    from explainers.collection.result import open_collection
    from explainers.collection.slices.report import write_report
    from explainers.collection.slices.slices import slices

    source = source_from_json(wanted["source"])
    folder = source.folder
    assert folder is not None
    try:
        collection = open_collection(folder)
        result = slices(collection, model, seed=wanted["seed"], kept=out / TESTS, progress=tell, cancelled=cancelled)
        write_report(result, collection, out, source.title)
    except Cancelled:
        return {"finished": False}
    except ExplainerError as problem:
        raise _without_paths(problem, folder) from None
    return {"finished": True}


def _without_paths(problem: ExplainerError, folder: Path) -> ExplainerError:
    from explainers.collection.result import open_collection
    from explainers.collection.sources import sources_of

    try:
        sources = sources_of(open_collection(folder).about)
    except ExplainerError:
        sources = None
    return without_paths(problem, folder, None if sources is None else Path(sources.data))


SLICING = RunKind(
    "search",
    FOLDER,
    SlicesRequest,
    find_slices,
    check_slices,
    most_kept=_MOST_KEPT,
    most_of_one=_MOST_OF_ONE,
    in_turns=False,
)
