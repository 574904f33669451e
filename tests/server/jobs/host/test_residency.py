"""Models make room for others in the order of their last use: from a GPU to host memory, and from there out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn

from explainers.errors import MemoryShortageError
from explainers.models.memory import DeviceMemory, bytes_of_weights, total_memory
from explainers.models.passes import Shortages
from tests.server.support.made_up_models import CPU, GPU, SIZE, MadeUp, Movable, memory, places
from vitrine_server.jobs.host.headroom import ENOUGH_USES, RECENT_USES
from vitrine_server.jobs.host.residency import Residency


@dataclass
class Gpu:
    """A GPU of so many bytes, and a machine of ten times as many: other processes hold ``others``, tensors took ``peak`` at most."""

    total: int
    others: int = 0
    peak: int = 0
    restarts: int = 0

    def __call__(self, device: torch.device) -> DeviceMemory:
        return DeviceMemory(self.total, self.others, self.peak) if device == GPU else DeviceMemory(10 * self.total)

    def restart(self, device: torch.device) -> None:
        self.restarts += device == GPU

    def residency(self, share: float, **how: Any) -> Residency:
        return Residency(share, self, restart_peak=self.restart, **how)


def filled(device: torch.device, gpu: float, host: float, share: float = 1.0) -> Residency:
    residency = Residency(share, memory(gpu, host))
    for name in "abcd":
        residency.add(name, MadeUp(device))
    return residency


def test_models_leave_the_gpu_for_host_memory_and_then_leave_it() -> None:
    residency = filled(GPU, gpu=4, host=2, share=0.5)
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
    moved.fails[:] = [torch.OutOfMemoryError("CUDA out of memory") for _ in range(2)]
    before = Shortages.count
    with residency.using("moved"):
        assert places(residency) == {"a": "host", "b": "host", "moved": "device"}
    assert Shortages.count == before + 2
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


def test_nobody_leaves_for_a_question_that_the_whole_device_could_not_hold() -> None:
    """One question that is too large would empty the GPU, again and again."""
    residency = Residency(0.5, memory(10, 10), pinned={"pinned"})
    for name in ("pinned", "asked", "a", "b"):
        residency.add(name, MadeUp(GPU))
    with residency.using("asked"):
        assert not residency.make_room(GPU, 8 * SIZE + 1)
        assert set(places(residency).values()) == {"device"}
        assert residency.make_room(GPU, 8 * SIZE)
        assert not residency.make_room(GPU, 8 * SIZE)
    assert places(residency) == {"pinned": "device", "a": "host", "b": "host", "asked": "device"}


def test_no_more_leave_than_the_question_needs() -> None:
    residency = Residency(0.5, memory(10, 20), pinned={"pinned"})
    for name in ("pinned", "asked", "a", "b", "c"):
        residency.add(name, MadeUp(GPU))
    with residency.using("asked"):
        assert residency.make_room(GPU, 7 * SIZE)
        assert places(residency) == {"pinned": "device", "a": "host", "b": "host", "c": "device", "asked": "device"}
        assert residency.make_room(GPU, SIZE)  # free by count, and yet it was too little: one leaves
        assert places(residency)["c"] == "host"
        assert not residency.make_room(GPU, SIZE)


class Machine:
    """Models that move between a GPU and host memory; ``most`` is the most of them that host memory held at once."""

    def __init__(self, residency: Residency) -> None:
        self.residency, self.there, self.most = residency, set[str](), 0

    def add(self, name: str) -> None:
        model, machine = MadeUp(GPU), self

        class Noted(Movable):
            def to(self, device: torch.device) -> Any:  # type: ignore[override]
                known = machine.residency.resident()
                machine.there = {other for other in machine.there if other in known}
                machine.there |= {name}  # a model that moves is in both until it is there
                machine.most = max(machine.most, len(machine.there))
                super().to(device)
                if device == GPU:
                    machine.there.discard(name)
                return self

        model.module = Noted(model.fails)
        self.residency.add(name, model)


@pytest.mark.parametrize(
    ("host", "share", "expected"),
    [
        (2, 1.0, {"b": "host", "c": "device", "a": "device"}),
        (1, 1.0, {"c": "device", "a": "device"}),  # b is read again from disk
        (2, 0.5, {"b": "host", "c": "device", "a": "device"}),  # what is kept free for computing holds one of them for a moment
    ],
)
def test_an_exchange_never_takes_more_host_memory_than_there_is(host: int, share: float, expected: dict[str, str]) -> None:
    """The model that comes to the GPU is in host memory until it is there, while another one leaves for host memory."""
    residency = Residency(share, memory(2 / share, host))
    machine = Machine(residency)
    for name in "abc":
        machine.add(name)
    assert places(residency) == {"a": "host", "b": "device", "c": "device"}
    with residency.using("a"):
        assert places(residency) == expected
    assert machine.most == host


def test_a_model_counts_where_it_is_after_a_move_that_failed() -> None:
    """Its place on the GPU is free for others, and no more than its own place in host memory is taken."""
    residency = Residency(1.0, memory(2, 2))
    moved = MadeUp(GPU)
    residency.add("moved", moved)
    assert residency.make_room(GPU)
    seen: list[tuple[str, int]] = []

    def fail(device: torch.device) -> Any:
        if device == GPU:
            seen.append((places(residency)["moved"], residency.resident()["moved"].bytes))
            raise RuntimeError("a bug")
        return moved.module

    moved.module.to = fail  # type: ignore[method-assign]
    with pytest.raises(RuntimeError, match="a bug"), residency.using("moved"):
        pass
    assert seen == [("host", SIZE)]
    for name in "ab":
        residency.add(name, MadeUp(GPU))
    assert places(residency) == {"moved": "host", "a": "device", "b": "device"}


def test_a_model_that_refuses_to_be_moved_is_dropped_and_no_question_of_others_fails() -> None:
    """As modules with weights of 8 bits or with hooks that hold parts on several devices do."""
    residency = Residency(1.0, memory(2, 9))
    refusing = MadeUp(GPU)

    def refuse(device: torch.device) -> Any:
        raise ValueError("`.to` is not supported for `8-bit` models")

    refusing.module.to = refuse  # type: ignore[method-assign]
    residency.add("refusing", refusing)
    for name in "ab":
        residency.add(name, MadeUp(GPU))
    assert places(residency) == {"a": "device", "b": "device"}


def test_a_model_that_leaves_a_gpu_with_the_machines_own_memory_is_dropped() -> None:
    """Moved to host memory it would take as much of the same memory."""
    residency = Residency(1.0, lambda device: DeviceMemory(2 * SIZE, is_host=device == GPU))
    models = {name: MadeUp(GPU) for name in "abc"}
    for name, model in models.items():
        residency.add(name, model)
    assert places(residency) == {"b": "device", "c": "device"}
    assert residency.make_room(GPU)
    assert places(residency) == {"c": "device"}
    assert [model.module.moves for model in models.values()] == [[], [], []]


def test_a_model_that_fits_neither_place_whole_is_gone_and_the_others_stay() -> None:
    """Its move to the GPU ran out of memory, and so did the way back."""
    residency = Residency(1.0, memory(10, 10))
    moved = MadeUp(GPU)
    residency.add("moved", moved)
    assert residency.make_room(GPU)
    residency.add("other", MadeUp(GPU))
    moved.fails[:] = [torch.OutOfMemoryError("CUDA out of memory")]
    to = moved.module.to

    def full(device: torch.device) -> Any:
        if device == CPU:
            raise MemoryError
        return to(device)

    moved.module.to = full  # type: ignore[method-assign]
    before = Shortages.count
    with pytest.raises(torch.OutOfMemoryError), residency.using("moved"):
        pass
    assert Shortages.count == before + 2  # of the GPU, and of the machine
    assert places(residency) == {"other": "device"}
    budget = residency.budget(GPU)
    assert budget is not None
    assert budget.room == 10 * SIZE


def test_a_move_that_fails_for_another_reason_leaves_the_model_in_host_memory_and_moves_no_other() -> None:
    residency = Residency(1.0, memory(10, 10))
    moved = MadeUp(GPU)
    residency.add("moved", moved)
    assert residency.make_room(GPU)
    residency.add("other", MadeUp(GPU))
    moved.fails[:] = [RuntimeError("a bug")]
    before = Shortages.count
    with pytest.raises(RuntimeError, match="a bug"), residency.using("moved"):
        pass
    assert Shortages.count == before
    assert places(residency) == {"other": "device", "moved": "host"}


def test_a_model_that_is_dropped_in_use_counts_until_its_last_request_has_ended() -> None:
    """Its weights are there for so long: what is loaded next to them must fit."""
    residency = Residency(1.0, memory(2, 9))
    for name in "ab":
        residency.add(name, MadeUp(GPU))
    with residency.using("a"):
        with residency.using("a"):
            residency.drop({"a", "b"})
            assert places(residency) == {"a": "device"}
            with pytest.raises(MemoryShortageError, match=r"c takes .* does not fit next to a"):
                residency.make_room_for("c", 2 * SIZE, GPU)
        assert places(residency) == {"a": "device"}
    assert places(residency) == {}
    residency.make_room_for("c", 2 * SIZE, GPU)


def test_a_model_in_use_whose_name_another_one_has_counts_until_its_last_request_has_ended() -> None:
    residency = Residency(1.0, memory(2, 10))
    residency.add("a", MadeUp(GPU))
    with residency.using("a"):
        residency.add("a", MadeUp(GPU))
        residency.add("b", MadeUp(GPU))
        assert places(residency) == {"a": "host", "b": "device"}  # the earlier a still takes one of the two places
    with residency.using("a"):
        assert places(residency) == {"b": "device", "a": "device"}


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
    assert residency.make_room(GPU)
    assert places(residency) == {"b": "host", "c": "device"}
    with residency.using("c"):
        assert not residency.make_room(GPU)  # what was moved to host memory takes none of the GPU
        assert places(residency) == {"b": "host", "c": "device"}
        assert residency.make_room(CPU)
        assert places(residency) == {"c": "device"}
        assert not residency.make_room(CPU)


def test_host_memory_has_room_before_a_model_comes_to_it() -> None:
    residency = Residency(1.0, memory(2, 1))
    together: list[int] = []

    class Noticed(Movable):
        def to(self, device: torch.device) -> Any:  # type: ignore[override]
            if device == CPU:
                together.append(1 + list(places(residency).values()).count("host"))
            return super().to(device)

    for name in "abcd":
        model = MadeUp(GPU)
        model.module = Noticed([])
        residency.add(name, model)
    assert places(residency) == {"b": "host", "c": "device", "d": "device"}
    assert together == [1, 1]  # a had gone before b came


def test_a_model_too_large_for_host_memory_leaves_the_gpu_for_good_and_those_there_stay() -> None:
    residency = Residency(1.0, memory(4, 1))
    residency.add("small", MadeUp(GPU))
    assert residency.make_room(GPU)
    large = MadeUp(GPU)
    large.module.weight = nn.Parameter(torch.zeros(SIZE // 2))
    residency.add("large", large)
    assert residency.make_room(GPU)
    assert places(residency) == {"small": "host"}
    assert large.module.moves == []


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


def test_copies_in_host_memory_stay_where_a_model_that_comes_through_has_room_next_to_them() -> None:
    """It is there for a moment alone, in what is kept free for computing, which waits."""
    residency = Residency(0.5, memory(2, 4))
    for name in "abc":
        residency.add(name, MadeUp(GPU))
    assert places(residency) == {"a": "host", "b": "host", "c": "device"}
    residency.make_room_for("d", SIZE, GPU)
    assert places(residency) == {"b": "host", "c": "host"}  # c has left for it, and there is room for two
    residency.add("d", MadeUp(GPU))
    residency.make_room_for("e", SIZE, GPU)
    assert places(residency) == {"c": "host", "d": "host"}
    residency.drop({"c", "d"})
    for name in "fg":
        residency.add(name, MadeUp(GPU))
    residency.make_room_for("h", 3 * SIZE - 1, CPU)
    assert list(places(residency)) == ["g"]


def test_a_model_for_which_host_memory_is_too_small_is_refused_before_others_leave() -> None:
    """It comes through host memory: a system that is out of it ends the process, with all its models."""
    others = [0]
    residency = Residency(1.0, lambda device: DeviceMemory(9 * SIZE) if device == GPU else DeviceMemory(4 * SIZE, others[0]))
    for name in "ab":
        residency.add(name, MadeUp(GPU))
    assert residency.make_room(GPU)
    others[0] = 2 * SIZE  # another process has come
    words = r"c takes 1\.2e-06 GB, and comes to cuda by way of the machine's memory, which has 1\.6e-06 GB in all, of which other .* 8e-07"
    with pytest.raises(MemoryShortageError, match=words):
        residency.make_room_for("c", 3 * SIZE, GPU)
    assert places(residency) == {"a": "host", "b": "device"}
    residency.make_room_for("c", 2 * SIZE, GPU)
    assert places(residency) == {"b": "device"}  # its copy made room
    assert Residency(1.0, lambda device: DeviceMemory(9 * SIZE) if device == GPU else None).make_room_for("c", 9 * SIZE, GPU) is None


def test_a_load_that_cannot_succeed_has_no_other_model_leave() -> None:
    residency = Residency(1.0, memory(4, 9), pinned={"a"})
    for name in "abc":
        residency.add(name, MadeUp(GPU))
    for size in (3.5, 4.5):  # next to the pinned one, and alone
        with pytest.raises(MemoryShortageError):
            residency.make_room_for("d", int(size * SIZE), GPU)
        assert set(places(residency).values()) == {"device"}
        assert not residency.make_room(GPU, int(size * SIZE))
        assert set(places(residency).values()) == {"device"}


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
    assert residency.make_room(GPU)
    assert residency.make_room(CPU)
    assert not residency.make_room(GPU)
    assert not residency.make_room(CPU)
    assert places(residency) == {"a": "device"}


def test_a_device_of_unknown_size_is_never_full() -> None:
    residency = Residency(0.8, lambda device: None)
    for name in "abcd":
        residency.add(name, MadeUp(GPU))
    assert set(places(residency).values()) == {"device"}


def test_a_device_without_its_index_is_the_first_one() -> None:
    residency = Residency(1.0, memory(2, 9))
    for name in "ab":
        residency.add(name, MadeUp(torch.device("cuda")))
    residency.make_room_for("c", SIZE, torch.device("cuda"))
    assert places(residency) == {"a": "host", "b": "device"}
    assert residency.make_room(torch.device("cuda"))
    budget = residency.budget(torch.device("cuda"))
    assert budget is not None
    assert (budget.device, budget.room) == ("cuda:0", 2 * SIZE)


# --- what other processes hold --------------------------------------------------------------------------------------------------


def test_what_other_processes_hold_is_no_room_for_models() -> None:
    gpu = Gpu(4 * SIZE)
    residency = gpu.residency(1.0)
    for name in "abc":
        residency.add(name, MadeUp(GPU))
    assert set(places(residency).values()) == {"device"}
    gpu.others = int(1.5 * SIZE)  # another process has come to the GPU
    budget = residency.budget(GPU)
    assert budget is not None
    assert (budget.total, budget.others, budget.room, budget.headroom) == (1600, 600, 1000, 0)
    with residency.using("c"):
        assert places(residency) == {"a": "host", "b": "device", "c": "device"}
    residency.make_room_for("d", SIZE, GPU)
    assert places(residency) == {"a": "host", "b": "host", "c": "device"}
    gpu.others = 0
    with residency.using("a"):
        assert places(residency)["a"] == "device"


def test_a_model_that_fits_the_device_but_not_next_to_other_processes_is_refused_in_words() -> None:
    gpu = Gpu(4 * SIZE, others=3 * SIZE)
    residency = gpu.residency(0.8)
    with pytest.raises(
        MemoryShortageError, match=r"a takes 8e-07 GB, and cuda has 1\.6e-06 GB in all, of which other processes hold 1\.2e-06"
    ):
        residency.make_room_for("a", 2 * SIZE, GPU)
    residency.make_room_for("a", SIZE, GPU)  # alone, with little left


def test_hosts_that_share_a_device_have_a_part_of_it_each() -> None:
    gpu = Gpu(8 * SIZE, others=3 * SIZE)  # the other host has not taken all of its part
    residency = gpu.residency(0.75, part=lambda device: 0.5 if device == GPU else 0.01)
    budget, machine = residency.budget(GPU), residency.budget(CPU)
    assert budget is not None
    assert machine is not None
    assert (budget.room, budget.headroom) == (3 * SIZE, SIZE)
    assert machine.room + machine.headroom == 0.01 * 80 * SIZE
    gpu.others = 6 * SIZE
    budget = residency.budget(GPU)
    assert budget is not None
    assert (budget.room, budget.headroom) == (1.5 * SIZE, 0.5 * SIZE)


def test_a_model_larger_than_the_part_of_a_gpu_that_its_process_may_take_is_refused_before_it_is_read() -> None:
    """Torch would refuse it at the end of the load."""
    residency = Gpu(8 * SIZE).residency(0.75, part=lambda device: 0.5)
    residency.make_room_for("a", 4 * SIZE, GPU)
    with pytest.raises(
        MemoryShortageError, match=r"a takes 2e-06 GB, and cuda has 3\.2e-06 GB in all, of which this process may take 1\.6e-06"
    ):
        residency.make_room_for("a", 5 * SIZE, GPU)
    residency.make_room_for("a", 50 * SIZE, CPU)


# --- what explanations take -----------------------------------------------------------------------------------------------------


def use(residency: Residency, gpu: Gpu, name: str, beyond: int, times: int = 1) -> None:
    """Use a model, which takes so many bytes beyond the weights that are on the device."""
    for _ in range(times):
        with residency.using(name):
            gpu.peak = SIZE * list(places(residency).values()).count("device") + beyond


def headroom(residency: Residency) -> int:
    budget = residency.budget(GPU)
    assert budget is not None
    assert budget.headroom + budget.room == budget.total
    return budget.headroom


def test_headroom_is_a_share_until_enough_was_measured_and_then_what_was_taken() -> None:
    gpu = Gpu(10 * SIZE)
    residency = gpu.residency(0.8)
    residency.add("a", MadeUp(GPU))
    assert headroom(residency) == 2 * SIZE
    use(residency, gpu, "a", SIZE, ENOUGH_USES - 1)
    assert headroom(residency) == 2 * SIZE
    use(residency, gpu, "a", SIZE)
    assert headroom(residency) == 1.25 * SIZE
    use(residency, gpu, "a", 3 * SIZE)  # more at once, without delay
    assert headroom(residency) == 3.75 * SIZE
    use(residency, gpu, "a", SIZE, RECENT_USES)  # forgotten
    assert headroom(residency) == 1.25 * SIZE
    use(residency, gpu, "a", 8, RECENT_USES)  # a quarter of the share stays free
    assert headroom(residency) == 0.5 * SIZE
    use(residency, gpu, "a", 9 * SIZE)  # and half of the device is for weights
    assert headroom(residency) == 5 * SIZE
    assert residency.budget(GPU).peaks == {"a": 9 * SIZE}  # type: ignore[union-attr]


def test_models_leave_where_explanations_take_more_than_was_left() -> None:
    gpu = Gpu(10 * SIZE)
    residency = gpu.residency(0.8)
    for name in "abcdefgh":
        residency.add(name, MadeUp(GPU))
    assert list(places(residency).values()) == ["device"] * 8
    use(residency, gpu, "h", 3 * SIZE)
    with residency.using("h"):
        assert list(places(residency).values()) == ["host"] * 2 + ["device"] * 6


def test_more_models_fit_where_explanations_take_less_than_was_left() -> None:
    gpu = Gpu(10 * SIZE)
    residency = gpu.residency(0.8)
    for name in "abcdefgh":
        residency.add(name, MadeUp(GPU))
        use(residency, gpu, name, 8, ENOUGH_USES)
    residency.add("i", MadeUp(GPU))
    assert list(places(residency).values()).count("device") == 8  # what the newest takes is not known yet
    use(residency, gpu, "i", 8, ENOUGH_USES)
    with residency.using("a"):
        assert list(places(residency).values()) == ["device"] * 9


def test_what_a_model_needs_is_kept_free_while_it_is_on_the_device() -> None:
    gpu = Gpu(10 * SIZE)
    residency = gpu.residency(0.8)
    for name in "ab":
        residency.add(name, MadeUp(GPU))
    use(residency, gpu, "a", 4 * SIZE, ENOUGH_USES)
    use(residency, gpu, "b", SIZE, ENOUGH_USES)
    assert headroom(residency) == 5 * SIZE
    assert residency.make_room(GPU)
    assert places(residency) == {"a": "host", "b": "device"}
    assert headroom(residency) == 1.25 * SIZE
    machine = residency.budget(CPU)
    assert machine is not None
    assert machine.headroom == pytest.approx(0.2 * 100 * SIZE)  # what a GPU was measured to need says nothing of the machine


def test_loading_and_moving_a_model_does_not_count_as_what_another_one_takes() -> None:
    gpu = Gpu(10 * SIZE)
    residency = gpu.residency(0.8)
    for name in "ab":
        residency.add(name, MadeUp(GPU))
    assert residency.make_room(GPU)
    with residency.using("b"):
        gpu.peak = 2 * SIZE  # weights of one, and as much again
        with residency.loading(GPU):
            gpu.peak = 9 * SIZE
            residency.make_room_for("c", SIZE, GPU)
            residency.add("c", MadeUp(GPU))
        gpu.peak = 2 * SIZE  # as it is counted again
        with residency.using("a"):
            gpu.peak = 3 * SIZE + 7
        assert residency.make_room(GPU)
        gpu.peak = 2 * SIZE
    assert places(residency) == {"c": "host", "b": "device", "a": "device"}
    assert residency.budget(GPU).peaks == {"a": 7, "b": SIZE}  # type: ignore[union-attr]


def test_more_memory_than_the_share_is_refused_only_where_the_share_is_full() -> None:
    """What was measured has others leave; those that cannot are no reason to refuse what the fixed share, or what the queue goes by, has
    room for.
    """
    gpu = Gpu(10 * SIZE)
    residency = gpu.residency(0.8, pinned={"a"})
    residency.add("a", MadeUp(GPU))
    use(residency, gpu, "a", 5 * SIZE, ENOUGH_USES)
    assert headroom(residency) == 5 * SIZE
    residency.make_room_for("b", 7 * SIZE, GPU)
    with pytest.raises(MemoryShortageError, match=r"b takes .* does not fit next to a"):
        residency.make_room_for("b", 8 * SIZE, GPU)
    use(residency, gpu, "a", 8, RECENT_USES)
    assert headroom(residency) == 0.5 * SIZE
    residency.make_room_for("b", 8 * SIZE, GPU)  # the queue has let it begin by this room, though it was not measured itself


def test_weights_that_are_shared_count_once() -> None:
    first, second = nn.Linear(10, 10), nn.Linear(10, 10)
    second.weight = first.weight
    assert bytes_of_weights(nn.ModuleList([first, second])) == 4 * (100 + 10 + 10)


def test_a_machine_has_memory() -> None:
    total = total_memory(CPU)
    assert total is not None
    assert total > 1e9
