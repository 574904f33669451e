"""What is not asked of numbers on a GPU, which would be waited for: the same signals without the shortcuts that look at numbers."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from explainers.autograd import relevance, rounding, rows
from explainers.autograd.queued import Stopwatch
from explainers.autograd.recording import Recording
from explainers.autograd.rules import RULES, operands
from tests.explainers.support.wrapped import all_signals, chosen, inputs, one_hot, wrapped

USERS = (relevance, rounding, rows, operands)


class Waits(TorchDispatchMode):
    """Counts the operators for which a GPU would be waited for: those that make a number of Python of a tensor, or a shape."""

    def __init__(self) -> None:
        super().__init__()
        self.counted: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.removeprefix("aten::")
        if name in ("_local_scalar_dense", "nonzero", "masked_select", "equal", "_unique2", "unique_dim"):
            self.counted[name] += 1
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("rule", ["gradient", "libra", "conservative", "attnlrp", "lrp", "deep_taylor"])
@pytest.mark.parametrize("name", ["vit", "bert"])
def test_a_backward_pass_on_a_gpu_asks_for_no_number_and_gives_the_same(monkeypatch: pytest.MonkeyPatch, name: str, rule: str) -> None:
    recording = Recording(wrapped(name), inputs(name))
    start = one_hot(recording)
    expected = all_signals(recording.backward(RULES[rule], start))
    for module in USERS:
        monkeypatch.setattr(module, "is_queued", lambda tensor: True)
    with Waits() as waits:
        signals = recording.backward(RULES[rule], start)
    assert waits.counted == {}
    for ours, theirs in zip(all_signals(signals), expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-10 * float(theirs.abs().max() + 1))


def test_signals_of_one_target_are_found_again_without_reading_it() -> None:
    recording = Recording(wrapped("vit"), inputs("vit"))
    target, rule = chosen(recording), RULES["libra"]
    recording.structure  # noqa: B018  what is found out once
    first = recording.cached_backward(rule, recording.start_of(target, rule))
    with Waits() as waits:
        assert recording.cached_backward(rule, recording.start_of(target, rule)) is first
    assert waits.counted == {}
    recording.forget_signals()
    assert recording.cached_backward(rule, recording.start_of(target, rule)) is not first


def test_a_stopwatch_measures_what_is_between() -> None:
    began = time.perf_counter()
    watch = Stopwatch(torch.device("cpu"))
    sum(range(100_000))
    watch.stop()
    passed = time.perf_counter() - began
    assert 0 < watch.seconds <= passed


def test_on_a_gpu_the_events_are_in_the_queue_of_the_gpu_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which need not be the one of this thread: an event without a queue would be recorded on the first GPU, and take memory of it."""
    recorded: list[str] = []

    class Event:
        def __init__(self, enable_timing: bool) -> None:
            assert enable_timing

        def record(self, queue: str) -> None:
            recorded.append(queue)

        def synchronize(self) -> None:
            recorded.append("waited")

        def elapsed_time(self, end: object) -> float:
            return 1500.0

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: f"queue of {device}")
    watch = Stopwatch(torch.device("cuda:1"))
    watch.stop()
    assert recorded == ["queue of cuda:1"] * 2
    assert watch.seconds == 1.5
    assert recorded[2:] == ["waited"]
