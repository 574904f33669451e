"""What maps cost where the device counts its memory, with a counter in place of a GPU's."""

from __future__ import annotations

import pytest
import torch

from explainers.evaluation.costs import device_name, memory_of_maps


class Counter:
    """Bytes that lie there, and the most since the count began."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = self.most = 1000
        monkeypatch.setattr(torch.cuda, "synchronize", lambda device: None)
        monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: self.now)
        monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: self.most)
        monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", self.begin)

    def begin(self, device: torch.device) -> None:
        self.most = self.now

    def use(self, number: int, kept: int = 0) -> None:
        self.most = max(self.most, self.now + number)
        self.now += kept


def test_each_map_is_counted_alone_beyond_what_lay_there(monkeypatch: pytest.MonkeyPatch) -> None:
    counter, sizes = Counter(monkeypatch), {"a": (700, 50), "b": (300, 0)}
    assert memory_of_maps(torch.device("cuda"), ["a", "b"], lambda spec: counter.use(*sizes[spec])) == {"a": 700, "b": 300}


def test_a_cpu_says_nothing_of_memory() -> None:
    def explain_alone(spec: str) -> None:
        raise AssertionError("nothing is made for it")

    assert memory_of_maps(torch.device("cpu"), ["a"], explain_alone) == {}
    assert device_name(torch.device("cpu")) == "cpu"
