"""Where the models of a server come from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import explainers
from explainers.models.catalogue import CATALOGUE, CatalogueEntry
from explainers.models.loading import fetch

#: Tells how far a download is: a line for a person, and the fraction done where it is known.
DownloadProgress = Callable[[str, float | None], None]


@dataclass(frozen=True)
class ModelSource:
    """The models that a server lists, and how one is had by its name: those of ``explainers``, unless another source is given.

    catalogue  embedded ones first
    load       name and device (None: the engine's own choice) -> the model
    fetch      gets the files of a hub model into the local cache; needs no device, so it may run beside the worker
    """

    catalogue: Sequence[CatalogueEntry] = tuple(CATALOGUE)
    load: Callable[[str, str | None], Any] = explainers.load
    fetch: Callable[[str, DownloadProgress], None] = fetch
