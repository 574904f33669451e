"""The embedded models on the CPU, each loaded once in a process: tests share them, so they leave them as they are."""

from __future__ import annotations

from functools import cache

from explainers.models.loading import load
from explainers.models.model import Model


@cache
def loaded(name: str) -> Model:
    return load(name, "cpu")
