"""How often an explanation brings numbers from the device to the CPU, for which a GPU is waited for."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import explainers
from tests.explainers.support.wrapped import inputs, wrapped


def transfers(monkeypatch: pytest.MonkeyPatch, batch: int, specs: list[str]) -> int:
    """Count the calls of ``Tensor.cpu`` of an explanation, after one that finds out what is found out once for a model."""
    model, given = wrapped("vit", torch.float32), inputs("vit", batch, torch.float32)
    explainers.explain(model, given, 1, specs)
    found, cpu = [], Tensor.cpu

    def counted(tensor: Tensor, *args: Any, **how: Any) -> Tensor:
        found.append(tensor)
        return cpu(tensor, *args, **how)

    with monkeypatch.context() as patch:
        patch.setattr(Tensor, "cpu", counted)
        explainers.explain(model, given, 1, specs)
    return len(found)


@pytest.mark.parametrize(
    ("spec", "most"),
    [("rollout", 1), ("input_x_gradient:libra", 2), ("attcat", 1), ("saliency?at=pixels", 2)],
)
def test_a_map_is_waited_for_a_few_times_whatever_the_batch(monkeypatch: pytest.MonkeyPatch, spec: str, most: int) -> None:
    before = {batch: transfers(monkeypatch, batch, ["random"]) for batch in (1, 4)}
    counts = {batch: transfers(monkeypatch, batch, ["random", spec]) - before[batch] for batch in (1, 4)}
    assert counts[1] == counts[4] <= most, counts


@pytest.mark.parametrize("spec", ["lrp", "transformer_attribution"])
def test_a_map_of_relevance_is_waited_for_a_few_times_more(monkeypatch: pytest.MonkeyPatch, spec: str) -> None:
    """Twice more where samples need float64, and others do not."""
    counts = {batch: transfers(monkeypatch, batch, ["random", spec]) - transfers(monkeypatch, batch, ["random"]) for batch in (1, 4)}
    assert max(counts.values()) <= 7, counts
