"""Free memory as the system says it, and the bytes of a forward pass."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
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
    monkeypatch.setattr(memory, "_MEMBERSHIPS", tmp_path / "not Linux")
    assert (free_memory(CPU), total_memory(CPU)) == (8000, 50000)
    (tmp_path / "memory.current").write_text("5000\n")
    (tmp_path / "memory.stat").write_text("anon 4000\ninactive_file 0\n")
    (tmp_path / "memory.max").write_text("max\n")
    assert (free_memory(CPU), total_memory(CPU)) == (8000, 50000)
    (tmp_path / "memory.max").write_text("9000\n")
    memory._limiting_groups.cache_clear()  # as in a process that begins now
    assert (free_memory(CPU), total_memory(CPU)) == (4000, 9000)
    (tmp_path / "memory.stat").write_text("anon 4000\ninactive_anon 7\ninactive_file 600\n")  # files that were read, given back when needed
    assert free_memory(CPU) == 4600
    (tmp_path / "memory.max").write_text("99000\n")
    assert (free_memory(CPU), total_memory(CPU)) == (8000, 50000)
    assert free_memory(torch.device("meta")) is total_memory(torch.device("meta")) is None


@dataclass
class MadeUpGroups:
    """Control groups of Linux in a folder, on a machine of 50,000 bytes, of which 40,000 are available."""

    folder: Path

    def limit(self, group: str, limit: object, taken: int, files: int = 0, name: str = "max") -> None:
        """Write the files of a group, of the first version if it is in the folder "memory"."""
        is_first = group.startswith("memory")
        place = self.folder / group
        place.mkdir(parents=True, exist_ok=True)
        names = ("limit_in_bytes", "usage_in_bytes", "total_inactive_file") if is_first else (name, "current", "inactive_file")
        (place / f"memory.{names[0]}").write_text(f"{limit}\n")
        (place / f"memory.{names[1]}").write_text(f"{taken}\n")
        (place / "memory.stat").write_text(f"anon 1\n{names[2]} {files}\n")
        memory._limiting_groups.cache_clear()  # as in a process that begins now

    def join(self, *memberships: str) -> None:
        (self.folder / "memberships").write_text("".join(f"{line}\n" for line in memberships))


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> MadeUpGroups:
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(total=50_000, available=40_000))
    monkeypatch.setattr(memory, "_GROUP", tmp_path)
    monkeypatch.setattr(memory, "_MEMBERSHIPS", tmp_path / "memberships")
    return MadeUpGroups(tmp_path)


def test_each_group_that_a_service_is_in_limits_its_memory(groups: MadeUpGroups) -> None:
    """As ``MemoryMax=`` and ``MemoryHigh=`` of systemd do, which no container hides."""
    groups.join("0::/system.slice/vitrine.service")
    groups.limit("system.slice/vitrine.service", "max", 1_000)
    assert (free_memory(CPU), total_memory(CPU)) == (40_000, 50_000)
    groups.limit("system.slice", 30_000, 5_000)
    assert (free_memory(CPU), total_memory(CPU)) == (25_000, 30_000)
    groups.limit("system.slice/vitrine.service", 9_000, 4_000, files=500)
    assert (free_memory(CPU), total_memory(CPU)) == (5_500, 9_000)
    groups.limit("system.slice/vitrine.service", 8_000, 4_000, name="high")
    assert (free_memory(CPU), total_memory(CPU)) == (4_000, 8_000)
    groups.limit("system.slice/vitrine.service", 8_000, 8_200, name="high")
    assert free_memory(CPU) == 0


@pytest.mark.parametrize("group", ["memory", "memory/docker/abc"])
def test_a_container_of_the_first_version_limits_its_memory(groups: MadeUpGroups, group: str) -> None:
    """It sees its own group as the root, or that of the machine as a path."""
    groups.join("9:name=systemd:/docker/abc", "4:memory:/docker/abc", "0::/")
    groups.limit("memory", 9223372036854771712, 10_000)  # no limit
    assert (free_memory(CPU), total_memory(CPU)) == (40_000, 50_000)
    groups.limit(group, 9_000, 4_000, files=600)
    assert (free_memory(CPU), total_memory(CPU)) == (5_600, 9_000)


def test_a_limit_that_changes_is_read_again_and_its_group_is_looked_for_once(groups: MadeUpGroups) -> None:
    groups.limit("", 9_000, 4_000)
    assert (free_memory(CPU), total_memory(CPU)) == (5_000, 9_000)
    looked_for = memory._limiting_groups.cache_info().misses
    (groups.folder / "memory.max").write_text("8000\n")
    assert (free_memory(CPU), total_memory(CPU)) == (4_000, 8_000)
    (groups.folder / "memory.max").write_text("max\n")
    assert (free_memory(CPU), total_memory(CPU)) == (40_000, 50_000)
    (groups.folder / "memory.max").unlink()
    assert (free_memory(CPU), total_memory(CPU)) == (40_000, 50_000)
    assert memory._limiting_groups.cache_info().misses == looked_for


def test_what_other_processes_hold_of_a_machine_is_what_is_neither_available_nor_its_own(
    monkeypatch: pytest.MonkeyPatch, groups: MadeUpGroups
) -> None:
    own = SimpleNamespace(rss=7_000, shared=3_000)
    monkeypatch.setattr("psutil.Process", lambda: SimpleNamespace(memory_info=lambda: own))
    assert measure_memory(CPU) == DeviceMemory(50_000, others=50_000 - 40_000 - 4_000)
    groups.limit("", 20_000, 9_000)
    assert measure_memory(CPU) == DeviceMemory(20_000, others=9_000 - 4_000)
    del own.shared  # which not every system says
    assert measure_memory(CPU) == DeviceMemory(20_000, others=9_000 - 7_000)
    own.rss = 70_000
    assert measure_memory(CPU) == DeviceMemory(20_000)


def test_what_is_free_is_a_part_of_the_machine() -> None:
    free = free_memory(CPU)
    assert free is not None
    assert 2**20 < free <= psutil.virtual_memory().total


class MadeUpGpus:
    """The calls of ``torch.cuda`` on memory, as a driver with two GPUs of 80,000 bytes would answer them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.free = {0: 30_000, None: 30_000, 1: 79_000}
        self.reserved, self.allocated, self.peak = 20_000, 15_000, 18_000
        self.is_integrated = False
        self.limits: list[tuple[float, torch.device]] = []
        self.restarted: list[torch.device] = []
        answers = {
            "mem_get_info": lambda device: (self.free[device.index], 80_000),
            "memory_reserved": lambda device: self.reserved if device.index != 1 else 0,
            "memory_allocated": lambda device: self.allocated if device.index != 1 else 0,
            "max_memory_allocated": lambda device: self.peak,
            "get_device_properties": lambda device: SimpleNamespace(is_integrated=self.is_integrated),
            "reset_peak_memory_stats": self.restarted.append,
            "set_per_process_memory_fraction": lambda part, device: self.limits.append((part, device)),
        }
        for name, answer in answers.items():
            monkeypatch.setattr(torch.cuda, name, answer)
        monkeypatch.setattr(memory, "_LIMITS", {})


def test_what_other_processes_hold_of_a_gpu_is_what_is_neither_free_nor_torchs(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = MadeUpGpus(monkeypatch)
    first, second = torch.device("cuda:0"), torch.device("cuda:1")
    assert measure_memory(first) == DeviceMemory(total=80_000, others=80_000 - 30_000 - 20_000, peak=18_000, cached=5_000)
    assert measure_memory(second) == DeviceMemory(total=80_000, others=1_000, peak=18_000)
    gpus.free[0] = 61_000  # the driver counts what was given back a moment earlier than torch
    measured = measure_memory(first)
    assert measured is not None
    assert measured.others == 0
    restart_peak(first)
    restart_peak(CPU)
    assert gpus.restarted == [first]
    assert measure_memory(torch.device("meta")) is None


def test_a_gpu_of_a_board_has_the_memory_of_the_machine(monkeypatch: pytest.MonkeyPatch, groups: MadeUpGroups) -> None:
    """The driver takes for full what files have that were read, which the system gives back."""
    gpus, board = MadeUpGpus(monkeypatch), torch.device("cuda:0")
    gpus.is_integrated = True
    gpus.free[0] = 1_000
    assert measure_memory(board) == DeviceMemory(80_000, others=80_000 - 40_000 - 20_000, peak=18_000, is_host=True, cached=5_000)
    assert free_memory(board) == 40_000 + 20_000 - 15_000
    gpus.free[0] = 60_000  # the container may take less than the board has
    assert free_memory(board) == 60_000 + 20_000 - 15_000


def test_a_gpu_of_apple_has_the_memory_of_the_machine(monkeypatch: pytest.MonkeyPatch, groups: MadeUpGroups) -> None:
    held = {"recommended_max_memory": 36_000, "driver_allocated_memory": 6_000, "current_allocated_memory": 5_000}
    for name, value in held.items():
        monkeypatch.setattr(torch.mps, name, lambda value=value: value)
    gpu = torch.device("mps:0")
    assert measure_memory(gpu) == DeviceMemory(36_000, is_host=True, cached=1_000)
    assert (free_memory(gpu), total_memory(gpu)) == (30_000 + 1_000, 36_000)
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(total=50_000, available=10_000))
    assert measure_memory(gpu) == DeviceMemory(36_000, others=36_000 - 10_000 - 6_000, is_host=True, cached=1_000)
    assert free_memory(gpu) == 10_000 + 1_000
    emptied: list[str] = []
    monkeypatch.setattr(torch.mps, "empty_cache", lambda: emptied.append("mps"))
    release_memory()
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    release_memory()
    assert emptied == ["mps"]


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
