"""Collecting the inputs of a data set for the page: the check of a request, and the collection itself, in the model's process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from explainers.errors import ExplainerError
from explainers.models.model import Model
from vitrine_server.jobs.host.work import TellAnswers
from vitrine_server.jobs.runs.data_sources import source_from_json, without_paths
from vitrine_server.jobs.runs.run_kind import RunKind
from vitrine_server.schemas.collections import CollectionRequest

if TYPE_CHECKING:
    from explainers.collection.sources import Sources
    from explainers.datasets import Dataset

FOLDER = "collections"  # of those that visitors made, in the server's home
_MOST_KEPT, _MOST_OF_ONE = 32, 8


def _sources(wanted: Mapping[str, Any], model: Model) -> Sources:
    """Return the names of the inputs: the file or folder that was sent, else the data set of the server."""
    from explainers.collection.sources import Sources

    source = source_from_json(wanted["source"])
    names_classes = model.kind == "clip"
    if wanted["source"]["is_sent"]:
        return Sources(str(source.folder), names_classes=names_classes)
    return Sources(source.dataset, source.folder, names_classes=names_classes)


def _open(wanted: Mapping[str, Any], sources: Sources) -> Dataset:
    """Open the inputs. Raises ExplainerError for a table that was sent and names files, which would be those of this machine."""
    data = sources.open()
    if wanted["source"]["is_sent"] and Path(sources.data).is_file() and data.kind == "image":
        raise ExplainerError("A table that is sent cannot name picture files: leave out the column path, or send a .zip of the pictures.")
    return data


def check_collection(wanted: Mapping[str, Any], model: Model, cancelled: Callable[[], bool], tell: TellAnswers) -> dict[str, Any]:
    """Check the request ``wanted`` of a collection for ``model``. Raises ExplainerError, without any path in its message, for one that is
    refused.
    """
    from explainers.collection.collect import make_setup

    sources = _sources(wanted, model)
    try:
        options = {name: wanted[name] for name in ("labels", "skip_broken")}
        setup = make_setup(model, _open(wanted, sources), wanted["methods"] or None, **options)
    except ExplainerError as problem:
        raise without_paths(problem, source_from_json(wanted["source"]).folder) from None
    return {"methods": list(setup.methods)}


def make_collection(
    wanted: Mapping[str, Any], folder: Path, model: Model, cancelled: Callable[[], bool], tell: TellAnswers
) -> dict[str, Any]:
    """Collect the inputs of the request ``wanted`` with ``model`` into ``folder`` until ``cancelled()`` is true; return ``{"finished":
    whether it reached its end}``. Raises ExplainerError, without any path in its message, for what cannot be collected.
    """
    from explainers.collection.collect import collect

    sources = _sources(wanted, model)
    options = {name: wanted[name] for name in ("limit", "labels", "seed", "removal", "skip_broken")}
    try:
        data, methods = _open(wanted, sources), wanted["methods"] or None
        made = collect(model, data, folder, methods, sources=sources, progress=tell, cancelled=cancelled, **options)
    except ExplainerError as problem:
        raise without_paths(problem, source_from_json(wanted["source"]).folder, folder) from None
    return {"finished": made is not None}


COLLECTING = RunKind(
    "collection",
    FOLDER,
    CollectionRequest,
    make_collection,
    check_collection,
    keeps_data=True,
    most_kept=_MOST_KEPT,
    most_of_one=_MOST_OF_ONE,
)
