"""Free memory as the system says it, and the bytes of a forward pass."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from weakref import ref

import psutil
import pytest
import torch

from explainers.models import memory
from explainers.models.memory import (
    DeviceMemory,
    _Counting,
    bytes_of_pass,
    free_memory,
    indexed,
    limit_memory,
    measure_memory,
    on_device,
    release_memory,
    restart_peak,
    total_memory,
)
from explainers.models.wrapping import wrap
from tests.families import FAMILIES

CPU = torch.device("cpu")


def test_bytes_are_counted_as_long_as_something_holds_them() -> None:
    with _Counting() as counting:
        first = torch.zeros(1000)
        view = first.view(10, 100)
        del first
        assert counting.live == 4000
        second = view + 1
        assert counting.live == 8000
        del view, second
        third = torch.ones(500)
        third.add_(1)
    assert counting.peak == 8000
    assert counting.live == 2000


def test_more_inputs_cost_a_pass_more() -> None:
    family = FAMILIES["vit"]
    model = wrap(family.build(), device="cpu")
    one, two, three = (bytes_of_pass(model, family.inputs(batch)) for batch in (1, 2, 3))
    hidden = 4 * max(module.out_features for module in model.module.modules() if isinstance(module, torch.nn.Linear)) * 13
    assert hidden < one < two < three
    assert three < 3 * one
    assert three - two >= hidden


def test_what_is_free_is_what_the_system_and_the_container_leave(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(total=50000, available=8000))
    monkeypatch.setattr(memory, "_GROUP", tmp_path)
    assert (free_memory(CPU), total_memory(CPU)) == (8000, 50000)
    (tmp_path / "memory.current").write_text("5000\n")
    (tmp_path / "memory.stat").write_text("anon 4000\ninactive_file 0\n")
    (tmp_path / "memory.max").write_text("max\n")
    assert (free_memory(CPU), total_memory(CPU)) == (8000, 50000)
    (tmp_path / "memory.max").write_text("9000\n")
    assert (free_memory(CPU), total_memory(CPU)) == (4000, 9000)
    (tmp_path / "memory.stat").write_text("anon 4000\ninactive_anon 7\ninactive_file 600\n")  # files that were read, given back when needed
    assert free_memory(CPU) == 4600
    (tmp_path / "memory.max").write_text("99000\n")
    assert (free_memory(CPU), total_memory(CPU)) == (8000, 50000)
    assert free_memory(torch.device("meta")) is total_memory(torch.device("meta")) is None


def test_what_is_free_is_a_part_of_the_machine() -> None:
    free = free_memory(CPU)
    assert free is not None
    assert 2**20 < free <= psutil.virtual_memory().total


class MadeUpGpus:
    """The calls of ``torch.cuda`` on memory, as a driver with two GPUs of 80,000 bytes would answer them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.free = {0: 30_000, None: 30_000, 1: 79_000}
        self.reserved, self.allocated, self.peak = 20_000, 15_000, 18_000
        self.limits: list[tuple[float, torch.device]] = []
        self.restarted: list[torch.device] = []
        answers = {
            "mem_get_info": lambda device: (self.free[device.index], 80_000),
            "memory_reserved": lambda device: self.reserved if device.index != 1 else 0,
            "memory_allocated": lambda device: self.allocated if device.index != 1 else 0,
            "max_memory_allocated": lambda device: self.peak,
            "reset_peak_memory_stats": self.restarted.append,
            "set_per_process_memory_fraction": lambda part, device: self.limits.append((part, device)),
        }
        for name, answer in answers.items():
            monkeypatch.setattr(torch.cuda, name, answer)
        monkeypatch.setattr(memory, "_LIMITS", {})


def test_what_other_processes_hold_of_a_gpu_is_what_is_neither_free_nor_torchs(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = MadeUpGpus(monkeypatch)
    first, second = torch.device("cuda:0"), torch.device("cuda:1")
    assert measure_memory(first) == DeviceMemory(total=80_000, others=80_000 - 30_000 - 20_000, peak=18_000)
    assert measure_memory(second) == DeviceMemory(total=80_000, others=1_000, peak=18_000)
    gpus.free[0] = 61_000  # the driver counts what was given back a moment earlier than torch
    measured = measure_memory(first)
    assert measured is not None
    assert measured.others == 0
    restart_peak(first)
    restart_peak(CPU)
    assert gpus.restarted == [first]
    assert measure_memory(CPU) == DeviceMemory(total_memory(CPU) or 0)
    assert measure_memory(torch.device("meta")) is None


def test_a_process_that_shares_a_gpu_takes_its_part(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus, gpu = MadeUpGpus(monkeypatch), torch.device("cuda")
    assert free_memory(gpu) == 30_000 + 5_000  # with what torch holds and does not use
    for device, part in ((CPU, 0.5), (gpu, 1.0), (gpu, 0.5)):
        limit_memory(device, part)
    assert gpus.limits == [(0.5, torch.device("cuda:0"))]
    assert free_memory(torch.device("cuda:0")) == (40_000 - 20_000) + 5_000
    gpus.free[0] = 7_000
    assert free_memory(torch.device("cuda:0")) == 7_000 + 5_000
    gpus.reserved = 41_000  # over its part, from before it was told
    assert free_memory(torch.device("cuda:0")) == 41_000 - 15_000


def test_a_device_is_named_with_its_index() -> None:
    named = [str(indexed(torch.device(name))) for name in ("cpu", "cuda", "cuda:1", "mps")]
    assert named == ["cpu", "cuda:0", "cuda:1", "mps:0"]


@pytest.mark.parametrize(("is_used", "emptied"), [(False, 0), (True, 1)])
def test_memory_is_returned_to_a_gpu_that_is_used_and_no_other_is_begun_with(
    monkeypatch: pytest.MonkeyPatch, is_used: bool, emptied: int
) -> None:
    calls: list[str] = []
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: is_used)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: calls.append("it loads the driver"))
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: calls.append("emptied"))
    release_memory()
    assert calls == ["emptied"] * emptied


def test_the_gpu_of_a_thread_is_that_of_its_model(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "device", lambda device: (chosen.append(device), nullcontext())[1])
    with on_device(CPU), on_device(torch.device("cuda:1")), on_device(torch.device("cuda")):
        pass
    assert [str(device) for device in chosen] == ["cuda:1", "cuda:0"]


def test_both_sides_of_a_model_let_go_of_what_they_cached() -> None:
    """It may be on the device that the model leaves."""
    model = wrap(FAMILIES["hf-clip"].build(), device="cpu")
    model.clear_caches()
    kept = [model.cached("a", Large), model.seen_from("text").cached("b", Large)]
    assert model.seen_from("text").cached("b", lambda: pytest.fail("it is cached")) is kept[1]
    references = [ref(each) for each in kept]
    kept.clear()
    model.clear_caches()
    assert [each() for each in references] == [None, None]


class Large:
    """Something that is kept for the inputs that were asked last."""
