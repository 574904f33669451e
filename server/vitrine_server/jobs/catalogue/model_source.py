"""Where the models of a server come from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import explainers
from explainers.models.catalogue import CATALOGUE, CatalogueEntry, embedded_names
from explainers.models.libraries.hub import DownloadProgress
from explainers.models.loading import fetch
from explainers.models.threads import Threads
from explainers.self_check.opening import check_model
from vitrine_server.settings import Settings

#: Is told what has been done of the opening of a model: ``opened``, ``checked``.
TellStage = Callable[[str], None]


def load_model(name: str | Path, device: str | None, /, on_stage: TellStage = lambda _: None, **open_options: Any) -> explainers.Model:
    """Load a model by its name or path. Unless it ships with the library, it is checked, and its report then warns with every map about
    checks that failed.

    ``device`` None: the library chooses. ``on_stage`` is called with "opened" and "checked"; ``open_options`` are arguments of
    :func:`explainers.open`.
    """
    if str(name) in embedded_names():
        return explainers.load(str(name), device)
    model = explainers.open(name, device=device, check="none", **open_options)
    on_stage("opened")
    Threads().fit(model)
    model = check_model(model)
    on_stage("checked")
    return model


def open_options_of(name: str, settings: Settings) -> dict[str, Any]:
    """Return the arguments of ``explainers.open`` for a model named in the settings: their architecture and labels if it is a file or
    folder, else none.
    """
    if not Path(name).expanduser().exists():
        return {}
    return {way: value for way, value in (("architecture", settings.architecture), ("labels", settings.labels)) if value}


@dataclass(frozen=True)
class ModelSource:
    """A catalogue of models, and the functions that fetch and load one by its name; the models of ``explainers`` by default.

    catalogue  the models to list, embedded ones first
    load       called with a name or path, a device (None: the library chooses) and arguments of ``explainers.open``; returns the model
    fetch      downloads the files of a hub model into the local cache; needs no device, so it may run while the worker works
    """

    catalogue: Sequence[CatalogueEntry] = tuple(CATALOGUE)
    load: Callable[..., Any] = load_model
    fetch: Callable[[str, DownloadProgress], None] = fetch
