"""A tiny model of the engine beside its twin."""

from __future__ import annotations

import torch
from torch import Tensor

from explainers.autograd.recording import Recording
from explainers.autograd.rules import RULES, Rule
from explainers.models.model import Model
from tests.explainers.support import twins
from tests.explainers.support.twins import Pass
from tests.explainers.support.wrapped import inputs, read, wrapped

TARGET = 1
CLOSE = {"rtol": 1e-7, "atol": 1e-10}


class Pair:
    """A recording of the engine, and a twin's pass under any rule over the same x^1."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.model: Model = wrapped(name)
        self.tensors = inputs(name, 2)
        self.recording = Recording(self.model, self.tensors)
        self.mask = self.recording.mask
        self.passes: dict[str, Pass] = {}

    def twin(self, rule: Rule, x1: Tensor | None = None) -> Pass:
        x1 = self.recording.block_inputs[0].detach() if x1 is None else x1
        if self.name == "vit":
            return twins.vit(self.model.module, x1, rule)
        return twins.bert(self.model.module, x1, rule, self.mask)

    def under(self, rule: str) -> Pass:
        if rule not in self.passes:
            self.passes[rule] = self.twin(RULES[rule])
        return self.passes[rule]

    def read(self, method: str, rule: str | None, **options: object) -> Tensor:
        """The engine's scores, those of padding left out (0)."""
        return read(self.recording, method, rule, TARGET, **options) * self.mask

    def same(self, ours: Tensor, theirs: Tensor) -> None:
        torch.testing.assert_close(ours, theirs.detach() * self.mask, **CLOSE)
