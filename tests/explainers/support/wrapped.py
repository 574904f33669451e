"""The families of tests/families, wrapped once a data type; and small helpers over a recording."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
import torch
from torch import Tensor

import explainers
from explainers.autograd.recording import Recording
from explainers.autograd.rules import RULES
from explainers.autograd.signals import Signals
from explainers.methods import METHODS
from explainers.models.model import Model
from explainers.records.targets import Classes, ResolvedTarget, resolve
from explainers.records.trace import Trace
from tests.explainers.support.double import in_double
from tests.families import FAMILIES

every_family = pytest.mark.parametrize("name", list(FAMILIES))


@cache
def wrapped(name: str, dtype: torch.dtype = torch.float64) -> Model:
    """The family's model: shared by tests, so never change it. In float64 it casts nothing to float32 on the way."""
    model = explainers.wrap(FAMILIES[name].build().to(dtype))
    return model if dtype != torch.float64 else replace(model, forward=in_double(model.forward))


def inputs(name: str, batch: int = 2, dtype: torch.dtype = torch.float64, seed: int = 0) -> dict[str, Tensor]:
    tensors = FAMILIES[name].inputs(batch, seed)
    return {key: value.to(dtype) if value.is_floating_point() else value for key, value in tensors.items()}


def chosen(recording: Recording, target: int = 1) -> ResolvedTarget:
    return resolve(target, Classes([str(i) for i in range(recording.logits.shape[1])]), recording.logits)


def one_hot(recording: Recording, target: int = 1) -> Tensor:
    return chosen(recording, target).output_gradient(recording.logits, RULES["gradient"])


def all_signals(signals: Signals) -> list[Tensor]:
    maps = [a for a in signals.attentions if a is not None]
    return [*signals.block_inputs, *signals.block_outputs, *maps, signals.bias, signals.unplaced]


def trace_of(recording: Recording, rule: str | None, target: int = 1) -> Trace:
    return Trace(recording, chosen(recording, target), None if rule is None else RULES[rule])


def read(recording: Recording, method: str, rule: str | None, target: int = 1, **options: object) -> Tensor:
    """Scores (B, S) of a method under a rule."""
    return METHODS[method].read(trace_of(recording, rule, target), **options).scores.detach()


def scores(name: str, *specs: str, batch: int = 1, target: int = 1) -> list[Tensor]:
    """Scores of the first sample of a family by each method, (S,) each."""
    result = explainers.explain(wrapped(name), inputs(name, batch), target=target, methods=list(specs))
    first = result[0] if isinstance(result, list) else result
    return [first[spec].scores.double() for spec in specs]


def specs_for(model: Model) -> list[str]:
    """One spec of every method that runs, under the rule that differs most from the ordinary gradient where it takes several."""
    specs = []
    for variant in explainers.variants(model):
        method = METHODS[variant.method_name]
        runs = variant.reason is None and variant.method_name != "random" and not (method.rule is None and method.slow)
        if runs and variant.rule in (None, "libra", *method.rules[-1:]):
            few = [f"{option}=2" for option in ("steps", "draws") if option in method.options]  # runs of the model
            specs.append(f"{variant.spec}?{'&'.join(few)}" if few else variant.spec)
    return specs
