"""A server's models, one of which has a task."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import explainers
from tests.server.support.turnstile import Gated
from vitrine_server.jobs.catalogue.model_source import ModelSource


class TaskModel:
    """A model with a task in the place of the model of texts."""

    def __init__(self, make: Callable[[], explainers.Model]) -> None:
        self.make = make

    def load(self, name: str, device: str | None = None, /, **ways: Any) -> explainers.Model:
        return replace(self.make(), name=name) if name == "reviews-bert" else Gated().load(name, device)

    def source(self) -> ModelSource:
        return replace(Gated().source(), load=self.load)
