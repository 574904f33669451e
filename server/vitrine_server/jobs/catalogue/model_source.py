"""Where the models of a server come from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import explainers
from explainers.models.catalogue import CATALOGUE, CatalogueEntry, embedded_names
from explainers.models.libraries.hub import DownloadProgress
from explainers.models.loading import DTYPES_BY_NAME, fetch, is_downloaded
from explainers.models.opening.stored_size import bytes_when_loaded
from explainers.models.threads import Threads
from explainers.self_check.opening import check_model
from vitrine_server.settings import Settings

#: Is told what has been done of the opening of a model: ``opened``, ``checked``.
TellStage = Callable[[str], None]
#: From the name or the path of a model, and the type of its weights, to the bytes that these will take; None where that is not known.
BytesOf = Callable[[str | Path, torch.dtype], int | None]


def bytes_not_known(place: str | Path, dtype: torch.dtype) -> int | None:
    """Return None for any ``place`` and type of weights: the size of no model is known before it is loaded."""
    return None


def load_model(
    name: str | Path,
    device: str | None,
    /,
    on_stage: TellStage = lambda _: None,
    dtype: torch.dtype = torch.float32,
    **open_options: Any,
) -> explainers.Model:
    """Load a model by its name or path, its weights in ``dtype``. Unless it ships with the library, it is checked, and its report then
    warns with every map about checks that failed.

    ``device`` None: the library chooses. ``on_stage`` is called with "opened" and "checked"; ``open_options`` are arguments of
    :func:`explainers.open`.
    """
    if str(name) in embedded_names():
        return explainers.load(str(name), device, dtype=dtype)
    model = explainers.open(name, device=device, check="none", dtype=dtype, **open_options)
    on_stage("opened")
    Threads().fit(model)
    model = check_model(model)
    on_stage("checked")
    return model


def dtype_of(name: str, settings: Settings) -> torch.dtype:
    """Return the type in which the weights of the model ``name`` are loaded: float32 for an embedded one, else that of ``settings``."""
    return torch.float32 if name in embedded_names() else DTYPES_BY_NAME[settings.model_dtype]


def open_options_of(name: str, settings: Settings) -> dict[str, Any]:
    """Return the arguments of ``explainers.open`` for the model ``name``, named in ``settings``: their architecture and labels if it is a
    file or folder, else none.
    """
    if not Path(name).expanduser().exists():
        return {}
    return {way: value for way, value in (("architecture", settings.architecture), ("labels", settings.labels)) if value}


@dataclass(frozen=True)
class ModelSource:
    """A catalogue of models, and the functions that fetch and load one by its name; the models of ``explainers`` by default.

    catalogue  the models to list, embedded ones first
    load       called with a name or path, a device (None: the library chooses) and arguments of ``explainers.open``; returns the model
    bytes_of   returns the bytes that the weights of a model on this machine will take, without reading them
    fetch      downloads the files of a hub model into the local cache; needs no device, so it may run while the worker works
    is_downloaded  returns whether the files of a hub model of the catalogue are in the local cache
    """

    catalogue: Sequence[CatalogueEntry] = tuple(CATALOGUE)
    load: Callable[..., Any] = load_model
    fetch: Callable[[str, DownloadProgress], None] = fetch
    bytes_of: BytesOf = bytes_when_loaded
    is_downloaded: Callable[[str], bool] = is_downloaded
