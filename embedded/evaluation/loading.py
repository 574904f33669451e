"""Models that several figures are measured on, loaded once."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import torch

import explainers
from explainers.models.loading import device_named
from explainers.models.model import Model


def loaded(folder: Path, device: str | None = None) -> Model:
    """The model of a folder, as ``explainers.load`` gives it; the last two are kept, so leave them as they are."""
    return _loaded(folder, device_named(device), max(file.stat().st_mtime_ns for file in folder.iterdir()))


@lru_cache(maxsize=2)
def _loaded(folder: Path, device: torch.device, changed: int) -> Model:
    """``changed``: when the folder last was, since a model trained anew is another one."""
    return explainers.load(folder, device)
