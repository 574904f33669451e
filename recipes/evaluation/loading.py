"""Models that several figures are measured on, loaded once."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import torch

import explainers
from explainers.models.loading import device_named
from explainers.models.model import Model


def load_cached(folder: Path, device: str | None = None) -> Model:
    """Load the model in ``folder`` onto ``device`` as ``explainers.load`` does, and return it; the last two are cached, so do not change
    them.
    """
    return _load_cached(folder, device_named(device), max(file.stat().st_mtime_ns for file in folder.iterdir()))


@lru_cache(maxsize=2)
def _load_cached(folder: Path, device: torch.device, changed: int) -> Model:
    """Load the model in ``folder`` onto ``device`` and return it; ``changed``, the time of the folder's last change, is part of the cache's
    key.
    """
    return explainers.load(folder, device)
