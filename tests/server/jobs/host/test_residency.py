"""Models make room for others in the order of their last use: from a GPU to host memory, and from there out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import nn

from explainers.errors import MemoryShortageError
from explainers.models.memory import bytes_of_weights, total_memory
from vitrine_server.jobs.host.residency import Residency

CPU, GPU = torch.device("cpu"), torch.device("cuda:0")
SIZE = 400  # bytes of the weights of a model


class Movable(nn.Module):
    """A module of 400 bytes that only notes where it is moved, as if there were a GPU."""

    def __init__(self, fails: list[Exception]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(SIZE // 4))
        self.moves: list[str] = []
        self.fails = fails

    def to(self, device: torch.device) -> Any:  # type: ignore[override]
        if device == GPU and self.fails:
            raise self.fails.pop(0)
        self.moves.append(device.type)
        return self


@dataclass
class MadeUp:
    device: torch.device
    fails: list[Exception] = field(default_factory=list)
    cache: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.module = Movable(self.fails)


def memory(gpu: float, host: float) -> Callable[[torch.device], int]:
    """Return the total memory of devices, in models."""
    return lambda device: int(SIZE * (gpu if device == GPU else host))


def places(residency: Residency) -> dict[str, str]:
    return {name: one.place for name, one in residency.resident().items()}


def filled(device: torch.device, gpu: float, host: float, share: float = 1.0) -> Residency:
    residency = Residency(share, memory(gpu, host))
    for name in "abcd":
        residency.add(name, MadeUp(device))
    return residency


def test_models_leave_the_gpu_for_host_memory_and_then_leave_it() -> None:
    residency = filled(GPU, gpu=2, host=1)
    assert places(residency) == {"b": "host", "c": "device", "d": "device"}
    with residency.using("b") as model:
        assert places(residency) == {"c": "host", "d": "device", "b": "device"}
        assert model.module.moves == ["cpu", "cuda"]
    assert {one.bytes for one in residency.resident().values()} == {SIZE}


def test_on_a_cpu_they_leave_at_once() -> None:
    residency = filled(CPU, gpu=0, host=3)
    assert places(residency) == {"b": "device", "c": "device", "d": "device"}
    with residency.using("b"):
        residency.add("e", MadeUp(CPU))
    assert list(places(residency)) == ["d", "b", "e"]


def test_the_share_counts() -> None:
    assert list(places(filled(CPU, gpu=0, host=4, share=0.5))) == ["c", "d"]


def test_a_model_in_use_stays_and_a_single_model_may_take_more() -> None:
    residency = Residency(0.5, memory(1, 10))
    residency.add("a", MadeUp(GPU))
    assert places(residency) == {"a": "device"}
    with residency.using("a"):
        residency.add("b", MadeUp(GPU))
        assert places(residency) == {"a": "device", "b": "device"}
        with residency.using("b"):
            assert not residency.make_room(GPU)
        assert residency.make_room(GPU)
        assert places(residency) == {"a": "device", "b": "host"}


def test_where_the_estimate_is_wrong_others_leave_until_a_model_fits() -> None:
    residency = Residency(1.0, memory(10, 10))
    moved = MadeUp(GPU)
    residency.add("moved", moved)
    for name in "ab":
        residency.add(name, MadeUp(GPU))
    with residency.using("a"), residency.using("b"):
        assert residency.make_room(GPU)
    moved.fails[:] = [torch.OutOfMemoryError("CUDA out of memory")] * 2
    with residency.using("moved"):
        assert places(residency) == {"a": "host", "b": "host", "moved": "device"}
    assert moved.module.moves == ["cpu", "cpu", "cpu", "cuda"]  # after each failure no part of it is left on the GPU


def test_a_model_that_does_not_fit_alone_stays_in_host_memory() -> None:
    residency = Residency(1.0, memory(10, 10))
    moved = MadeUp(GPU)
    residency.add("moved", moved)
    assert residency.make_room(GPU)
    moved.fails[:] = [torch.OutOfMemoryError("CUDA out of memory")]
    with pytest.raises(torch.OutOfMemoryError), residency.using("moved"):
        pass
    assert places(residency) == {"moved": "host"}
    with residency.using("moved"):  # memory is free again
        assert places(residency) == {"moved": "device"}


def test_a_model_that_cannot_leave_the_gpu_whole_is_gone() -> None:
    residency = Residency(1.0, memory(10, 10))
    model = MadeUp(GPU)
    model.cache["a tensor"] = 1
    residency.add("a", model)
    model.module.to = lambda device: (_ for _ in ()).throw(MemoryError())  # type: ignore[method-assign]
    assert residency.make_room(GPU)
    assert places(residency) == {}
    assert not model.cache


def test_what_leaves_the_gpu_keeps_within_host_memory_and_leaves_it_last() -> None:
    residency = Residency(1.0, memory(3, 1))
    for name in "abc":
        residency.add(name, MadeUp(GPU))
    assert residency.make_room(GPU)
    assert places(residency) == {"a": "host", "b": "device", "c": "device"}
    assert residency.make_room()
    assert places(residency) == {"b": "host", "c": "device"}
    with residency.using("c"):
        assert residency.make_room()
        assert places(residency) == {"c": "device"}
        assert not residency.make_room()


def test_models_that_are_dropped_are_gone_and_the_others_stay() -> None:
    residency = filled(GPU, gpu=2, host=4)
    residency.drop({"b", "c", "never there"})
    assert places(residency) == {"a": "host", "d": "device"}
    with pytest.raises(KeyError), residency.using("b"):
        pass


def test_room_is_made_before_a_model_is_loaded() -> None:
    residency, most = Residency(1.0, memory(3, 2)), 0
    for name in "abcdefg":
        residency.make_room_for(name, SIZE, GPU)
        there = list(places(residency).values())
        most = max(most, there.count("device") + 1)
        assert there.count("host") <= 1  # its weights come through host memory
        residency.add(name, MadeUp(GPU))
    assert most == 3
    assert places(residency) == {"d": "host", "e": "device", "f": "device", "g": "device"}


def test_an_earlier_model_of_that_name_makes_room_for_it() -> None:
    residency = Residency(1.0, memory(2, 9))
    for name in "ab":
        residency.add(name, MadeUp(GPU))
    residency.make_room_for("a", SIZE, GPU)
    assert places(residency) == {"b": "device"}


def test_a_model_that_does_not_fit_next_to_those_in_use_is_refused_in_words() -> None:
    residency = Residency(1.0, memory(2, 9))
    for name in "abc":
        residency.add(name, MadeUp(GPU))
    with residency.using("b"), residency.using("c"):
        with pytest.raises(MemoryShortageError, match=r"d takes .* does not fit next to b, c, in use or pinned, .* of the 8e-07 GB"):
            residency.make_room_for("d", SIZE, GPU)
        with pytest.raises(MemoryShortageError, match="a takes"), residency.using("a"):
            pass
        assert places(residency)["a"] == "host"
    with residency.using("a"):
        assert places(residency)["a"] == "device"


def test_a_model_larger_than_its_device_is_refused_and_one_larger_than_the_share_is_held_alone() -> None:
    residency = Residency(0.5, memory(3, 9))
    residency.add("a", MadeUp(GPU))
    with pytest.raises(MemoryShortageError, match=r"b takes 1\.6e-06 GB, and cuda has 1\.2e-06 GB in all.*VITRINE_MODEL_DTYPE"):
        residency.make_room_for("b", 4 * SIZE, GPU)
    residency.make_room_for("b", 2 * SIZE, GPU)
    assert places(residency) == {"a": "host"}


def test_pinned_models_stay() -> None:
    residency = Residency(1.0, memory(2, 1), pinned={"a"})
    for name in "abc":
        residency.add(name, MadeUp(GPU))
    assert places(residency) == {"a": "device", "b": "host", "c": "device"}
    assert residency.make_room()
    assert residency.make_room()
    assert not residency.make_room()
    assert places(residency) == {"a": "device"}


def test_a_device_of_unknown_size_is_never_full() -> None:
    residency = Residency(0.8, lambda device: None)
    for name in "abcd":
        residency.add(name, MadeUp(GPU))
    assert set(places(residency).values()) == {"device"}


def test_weights_that_are_shared_count_once() -> None:
    first, second = nn.Linear(10, 10), nn.Linear(10, 10)
    second.weight = first.weight
    assert bytes_of_weights(nn.ModuleList([first, second])) == 4 * (100 + 10 + 10)


def test_a_machine_has_memory() -> None:
    total = total_memory(CPU)
    assert total is not None
    assert total > 1e9
