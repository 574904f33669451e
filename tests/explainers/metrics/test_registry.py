"""What holds for every metric of the registry."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch
from torch import Tensor

from explainers.errors import ExplainerError
from explainers.metrics import METRIC_FAMILIES, METRIC_NEEDS, METRICS, Metric, RemovalCurve, find_metrics, metric

MAPS, CLASSES, TOKENS, SIDE = 3, 4, 16, 16


def given(one: Metric) -> dict[str, Tensor]:
    """Made-up arguments of the shapes that the metric declares."""
    draw = torch.Generator().manual_seed(0)

    def probabilities(*shape: int) -> Tensor:
        return torch.rand(*shape, CLASSES, generator=draw).softmax(-1)

    made: dict[str, Any] = {
        "whole": lambda: probabilities(MAPS),
        "logits": lambda: probabilities(MAPS),
        "target": lambda: torch.eye(MAPS, CLASSES).bool(),
        "gold": lambda: torch.tensor([[1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 1, 1]]).bool(),
        "answer": lambda: torch.tensor([[1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 1, 1]]).bool(),
        "scores": lambda: torch.randn(MAPS, TOKENS, generator=draw),
        "other": lambda: torch.randn(MAPS, TOKENS, generator=draw),
        "word_scores": lambda: torch.randn(MAPS, TOKENS, generator=draw),
        "rationale": lambda: torch.arange(TOKENS).expand(MAPS, -1) % 3 == 0,
        "passages": lambda: torch.stack([torch.arange(TOKENS) < 3, (torch.arange(TOKENS) - 4).abs() < 2]).expand(MAPS, -1, -1),
        "leave_one_out": lambda: torch.randn(MAPS, TOKENS, generator=draw),
        "random_sets": lambda: torch.rand(MAPS, 9, TOKENS, generator=draw).argsort(2) < 4,
        "falls_of_random_sets": lambda: torch.randn(MAPS, 9, generator=draw),
        "sized_sets": lambda: torch.rand(MAPS, 9, TOKENS, generator=draw).argsort(2) < (torch.arange(9) % 3 + 1)[:, None],
        "falls_of_sized_sets": lambda: torch.randn(MAPS, 9, generator=draw),
        "groups": lambda: (torch.arange(TOKENS) % 4 == torch.arange(4)[:, None]).expand(MAPS, -1, -1),
        "falls_of_groups": lambda: torch.randn(MAPS, 4, generator=draw),
        "falls_one_by_one": lambda: torch.randn(MAPS, TOKENS, generator=draw) / 2,
        "aopc_limits": lambda: torch.tensor([[-0.1, 0.1], [-0.5, 0.2], [0.0, 0.6]]),
        "claimed_share": lambda: torch.tensor([0.01, 0.02, 0.3]),
        "part_scores": lambda: torch.randn(MAPS, 4, generator=draw) + 0.5,
        "ground_scores": lambda: torch.randn(MAPS, 2, generator=draw),
        "answer_part_scores": lambda: torch.randn(MAPS, 4, generator=draw) + 0.5,
        "rival_scores": lambda: torch.randn(MAPS, 2, 2, generator=draw),
        "part_falls": lambda: torch.randn(MAPS, 3, generator=draw),
        "ground_falls": lambda: torch.randn(MAPS, 2, generator=draw) / 9,
        "keeps_answer": lambda: torch.rand(MAPS, 2, 2, 2, generator=draw) > 0.5,
        "sufficient": lambda: torch.tensor([[1, 1, 0], [0, 0, 1]]).bool().expand(MAPS, -1, -1),
        "soft": lambda: torch.rand(MAPS, 3, generator=draw) * torch.tensor([0.3, 0.3, 0.01]),
        "shown": lambda: probabilities(MAPS),
        "maps": lambda: torch.randn(MAPS, 4, 4, generator=draw),
        "mask": lambda: torch.rand(MAPS, SIDE, SIDE, generator=draw) > 0.5,
        "labelled": lambda: torch.rand(MAPS, SIDE, SIDE, generator=draw) > 0.1,
        "others": lambda: torch.rand(MAPS, 2, SIDE, SIDE, generator=draw) > 0.5,
        "cell": lambda: torch.tensor([[0, 0], [0, 1], [1, 1]]),
        "error": lambda: torch.rand(MAPS, generator=draw),
        "block_sums": lambda: torch.randn(MAPS, 3, 5, generator=draw),
        "randomised": lambda: torch.randn(MAPS, 2, TOKENS, generator=draw),
        "all_random": lambda: torch.randn(MAPS, TOKENS, generator=draw),
        "disturbed": lambda: torch.randn(MAPS, 2, TOKENS, generator=draw),
    }
    assert made.keys() == METRIC_NEEDS.keys()
    return {
        name: probabilities(MAPS, len(need.fractions)) if isinstance(need, RemovalCurve) else made[need]()
        for name, need in one.takes.items()
    }


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_keeps_its_word(name: str) -> None:
    """It takes what it declares, gives one value (or its parts) a map within its range, and treats each map alone."""
    one = METRICS[name]
    assert set(one.takes) <= set(inspect.signature(one.function).parameters)
    arguments = given(one)
    values = one(**arguments)
    assert values.shape == ((MAPS, len(one.parts)) if one.parts else (MAPS,))
    assert (one.combine is None) == (not one.parts)
    final = values if one.combine is None else torch.as_tensor(one.combine(values.numpy()))
    final = final[final.isfinite()]  # what counts in no input has no value
    assert len(final)
    assert one.lowest is None or float(final.min()) >= one.lowest - 1e-9
    assert one.highest is None or float(final.max()) <= one.highest + 1e-9
    if name != "agreement":  # with the other maps of the batch
        alone = one(**{key: value[1:2] for key, value in arguments.items()})
        torch.testing.assert_close(alone[0], values[1])


@pytest.mark.parametrize("one", METRICS.values(), ids=list(METRICS))
def test_a_metric_says_what_it_is(one: Metric) -> None:
    told = one.to_json()
    assert told["description"].endswith(".")
    assert told["title"]
    assert one.family in METRIC_FAMILIES
    assert one.source is not None or one.family == "sanity" or one.name == "own_object"  # these are ours
    assert all("B" in shape for shape in told["takes"].values())


def test_names() -> None:
    assert [one.name for one in find_metrics(["mif", "ap", "mif"])] == ["mif", "ap"]
    with pytest.raises(ExplainerError, match="did you mean"):
        find_metrics(["miff"])
    with pytest.raises(ExplainerError, match="already a metric mif"):
        metric("mif", title="", family="sanity", takes=["scores"], direction=None)(lambda scores: scores)
    with pytest.raises(ExplainerError, match="which nothing provides"):
        metric("new", title="", family="sanity", takes=["colour"], direction=None)(lambda colour: colour)
