"""The real engine on tiny models whose passes without gradients, those of the studies, wait to be let through one by one."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

import explainers
from explainers.models.catalogue import CatalogueEntry
from tests.server.support.gated_models import PATIENCE
from tests.server.support.tiny_models import make_tiny
from vitrine_server.jobs.catalogue.model_source import ModelSource


@dataclass
class Turnstile:
    """Lets everything through until it is shut, then as many passes as it is told to."""

    left: int | None = None  # None: all
    passes: int = 0
    waiting: bool = False
    change: threading.Condition = field(default_factory=threading.Condition)

    def pass_through(self) -> None:
        with self.change:
            self.waiting = True
            self.change.notify_all()
            assert self.change.wait_for(lambda: self.left is None or self.left > 0, PATIENCE), "nobody opened the turnstile"
            self.waiting = False
            self.passes += 1
            if self.left is not None:
                self.left -= 1

    def let(self, passes: int | None) -> None:
        """Let so many more through, None all."""
        with self.change:
            self.left = passes
            self.change.notify_all()

    def wait(self) -> None:
        """Until a pass is held."""
        with self.change:
            assert self.change.wait_for(lambda: self.waiting and self.left == 0, PATIENCE), "no pass came"


@dataclass
class Gated:
    """Models whose images pass through a turnstile; in the form that a server in the browser tests takes."""

    turnstile: Turnstile = field(default_factory=Turnstile)

    def load(self, name: str, device: str | None = None) -> explainers.Model:
        model = make_tiny(name, device)

        def hold(module: nn.Module, args: Any) -> None:
            if not torch.is_grad_enabled():
                self.turnstile.pass_through()

        if model.kind == "image":
            model.blocks[-1].register_forward_pre_hook(hold)
        return model

    def source(self) -> ModelSource:
        kinds = {"scenes-vit": "image", "clip": "clip", "reviews-bert": "text"}
        catalogue: Any = [CatalogueEntry(name, kind, name, "", True, "") for name, kind in kinds.items()]  # type: ignore[arg-type]
        return ModelSource(catalogue, self.load)
