"""The embedded models on the CPU, each loaded once in a process: tests share them, so they leave them as they are."""

from __future__ import annotations

from functools import cache

import explainers
from explainers.models.base import Model


@cache
def loaded(name: str) -> Model:
    return explainers.load(name, "cpu")
