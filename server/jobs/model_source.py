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
from server.settings import Settings


def load_model(name: str | Path, device: str | None, /, **open_options: Any) -> explainers.Model:
    """The model, and but for one that ships inside its report and quick check: what fails is said with every map.

    ``open_options`` are arguments of :func:`explainers.open`.
    """
    if str(name) in embedded_names():
        return explainers.load(str(name), device)
    model = explainers.open(name, device=device, check="none", **open_options)
    Threads().fit(model)
    return check_model(model)


def open_options_of(name: str, settings: Settings) -> dict[str, Any]:
    """How a model that the settings name is opened: what they say besides is about those that are files or folders."""
    if not Path(name).expanduser().exists():
        return {}
    return {way: value for way, value in (("architecture", settings.architecture), ("labels", settings.labels)) if value}


@dataclass(frozen=True)
class ModelSource:
    """The models that a server lists, and how one is had by its name: those of ``explainers``, unless another source is given.

    catalogue  embedded ones first
    load       name or place, device (None: the engine's own choice), and how it is opened as arguments of ``explainers.open`` -> the model
    fetch      gets the files of a hub model into the local cache; needs no device, so it may run beside the worker
    """

    catalogue: Sequence[CatalogueEntry] = tuple(CATALOGUE)
    load: Callable[..., Any] = load_model
    fetch: Callable[[str, DownloadProgress], None] = fetch
