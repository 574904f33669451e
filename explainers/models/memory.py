"""Memory of a device: what it has, what others hold of it, what was taken at most; and the memory that a forward pass takes."""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import psutil
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from explainers.models.eval_mode import evaluating
from explainers.models.model import Model

__all__ = [
    "DeviceMemory",
    "allocated_memory",
    "bytes_of_pass",
    "bytes_of_weights",
    "free_memory",
    "indexed",
    "limit_memory",
    "measure_memory",
    "on_device",
    "release_memory",
    "restart_peak",
    "total_memory",
]

_GROUP = Path("/sys/fs/cgroup")  # what a container or a service may take, where it may not take all
_MEMBERSHIPS = Path("/proc/self/cgroup")  # the control groups of this process, a line each: number:controllers:path
_NO_LIMIT = 2**62  # the first version of control groups says a number of about 2^63 bytes where there is no limit
#: Where the versions of control groups keep the memory of one: folder, files with its limit and with what is taken, and in memory.stat the
#: files that were read and are given back when needed. Above memory.high a process is held up until it has given memory back.
_GROUP_FILES = (
    ("", "memory.max", "memory.current", "inactive_file"),
    ("", "memory.high", "memory.current", "inactive_file"),
    ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
_LIMITS: dict[torch.device, float] = {}  # the part of each GPU that this process may take, where it may not take all: see limit_memory


@dataclass(frozen=True)
class DeviceMemory:
    """The memory of a device at one moment, in bytes.

    total    what the device has in all; in a container, what that may take
    others   what of it this process can never get: what other processes hold, and what the driver holds for this one
    peak     the most that tensors of this process took at once since :func:`restart_peak`; None if the device does not count it
    is_host  whether it is the machine's own memory, so that a model which is moved from it to host memory frees nothing
    cached   what torch's allocator holds of it and no tensor uses: memory in pieces, where it stays while memory is short
    """

    total: int
    others: int = 0
    peak: int | None = None
    is_host: bool = False
    cached: int = 0


@dataclass(frozen=True)
class _Memory:
    """The bytes of memory that may be taken in all, how many of them are free, and how many torch's allocator holds (0 on a CPU)."""

    total: int
    free: int
    reserved: int = 0


def indexed(device: torch.device) -> torch.device:
    """Return ``device`` with its index, as tensors on it name it: ``cuda`` is ``cuda:0``; a CPU has none."""
    return device if device.type == "cpu" or device.index is not None else torch.device(device.type, 0)


def measure_memory(device: torch.device) -> DeviceMemory | None:
    """Return the memory of a device: a CPU, a GPU of Nvidia or one of Apple; None for another device.

    On a CPU others hold what is neither available, as the system says it, nor this process's own. The GPUs of Apple and of Nvidia's boards
    share the machine's memory.
    """
    if (memory := _memory_of(device)) is None:
        return None
    held = memory.reserved if device.type != "cpu" else _own_memory()
    others = max(0, memory.total - memory.free - held)
    if device.type == "cpu":
        return DeviceMemory(memory.total, others)
    peak = torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None
    return DeviceMemory(memory.total, others, peak, _shares_host_memory(device), max(0, memory.reserved - _allocated(device)))


def restart_peak(device: torch.device) -> None:
    """Have the ``peak`` of :func:`measure_memory` count from now on."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


def limit_memory(device: torch.device, part: float) -> None:
    """Have torch refuse this process more than ``part`` of the memory of a GPU, as if that were full, so that processes that share the GPU
    leave each other their parts. Nothing happens on another device, or for all of it.
    """
    if device.type == "cuda" and part < 1:
        torch.cuda.set_per_process_memory_fraction(part, indexed(device))  # which takes none without its index
        _LIMITS[indexed(device)] = part


def free_memory(device: torch.device) -> int | None:
    """Return the free bytes on a device, a CPU or a GPU of Nvidia or Apple: of a GPU those that :func:`limit_memory` leaves, and those that
    torch's allocator holds and does not use. None for another device.
    """
    if (memory := _memory_of(device)) is None or device.type == "cpu":
        return None if memory is None else memory.free
    allowed = int(_LIMITS.get(indexed(device), 1.0) * memory.total) - memory.reserved
    return int(max(0, min(memory.free, allowed)) + memory.reserved - _allocated(device))


def _allocated(device: torch.device) -> int:
    """Return the bytes that tensors of this process hold on a GPU."""
    return int(torch.cuda.memory_allocated(device) if device.type == "cuda" else torch.mps.current_allocated_memory())


def allocated_memory(gpu: int) -> int:
    """Return the bytes that tensors of this process hold on the GPU number ``gpu``; 0 if it has not used one."""
    return int(torch.cuda.memory_allocated(gpu)) if torch.cuda.is_initialized() else 0


def total_memory(device: torch.device) -> int | None:
    """Return the bytes of memory that a device has in all, a CPU or a GPU of Nvidia or Apple; in a container, what it may take. None for
    another device.
    """
    return None if (memory := _memory_of(device)) is None else memory.total


def _memory_of(device: torch.device) -> _Memory | None:
    """Return the memory of a device; None for one that is no CPU and no GPU of Nvidia or Apple."""
    if device.type == "cpu":
        return _machine_memory()
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        if _shares_host_memory(device):  # where the driver counts files that were read, and are given back when needed, as taken
            free = max(free, min(total, _machine_memory().free))
        return _Memory(int(total), int(free), int(torch.cuda.memory_reserved(device)))
    if device.type == "mps":
        total, reserved = torch.mps.recommended_max_memory(), torch.mps.driver_allocated_memory()
        return _Memory(total, max(0, min(total - reserved, _machine_memory().free)), reserved)
    return None


def _shares_host_memory(device: torch.device) -> bool:
    """Return whether the memory of a GPU is that of the machine, as of Apple's and of Nvidia's Jetson boards."""
    return device.type == "mps" or bool(getattr(torch.cuda.get_device_properties(device), "is_integrated", False))


def _own_memory() -> int:
    """Return the bytes of the machine's memory that this process holds and that nothing else shares, as far as the system says it."""
    memory = psutil.Process().memory_info()
    return int(memory.rss) - int(getattr(memory, "shared", 0))


def _machine_memory() -> _Memory:
    """Return the memory of the machine, or of the container or service where that may take less."""
    machine = psutil.virtual_memory()
    total, free = int(machine.total), int(machine.available)
    for limit, taken in _limits_of_groups():
        total, free = min(total, limit), min(free, limit - taken)
    return _Memory(total, max(0, free))


def _limits_of_groups() -> Iterator[tuple[int, int]]:
    """Yield the limit in bytes, and the bytes taken, of each control group of Linux that limits this process, those that enclose its own
    too.
    """
    for limit_file, taken_file, given_back in _limiting_groups(_GROUP, _MEMBERSHIPS):
        try:
            limit, taken, counts = (file.read_text("utf-8") for file in (limit_file, taken_file, limit_file.parent / "memory.stat"))
        except OSError:  # it has gone since
            continue
        if limit.strip() != "max":
            files = next((int(line.split()[1]) for line in counts.splitlines() if line.startswith(f"{given_back} ")), 0)
            yield int(limit), int(taken) - files


@cache
def _limiting_groups(root: Path, memberships_file: Path) -> tuple[tuple[Path, Path, str], ...]:
    """Return the control groups below ``root`` that limit this process, whose groups ``memberships_file`` lists: of each the files with its
    limit and with what is taken, and the name of what is given back. It is looked for once, since opening a file takes as long as asking
    for the machine's memory.
    """
    try:
        memberships = [line.split(":", 2) for line in memberships_file.read_text("utf-8").splitlines()]
    except OSError:
        memberships = []
    paths = {"memory" if controllers else "": path for _, controllers, path in memberships if not controllers or "memory" in controllers}
    groups = []
    for folder, limit_name, taken_name, given_back in _GROUP_FILES:
        top = root / folder
        inner = top / paths.get(folder, "/").strip("/")
        for group in (inner, *inner.parents[: len(inner.parts) - len(top.parts)]):
            try:
                limit = (group / limit_name).read_text("utf-8").strip()
            except OSError:  # a group of the machine, which a container does not see, or no such limit
                continue
            if limit != "max" and int(limit) < _NO_LIMIT:
                groups.append((group / limit_name, group / taken_name, given_back))
    return tuple(groups)


def bytes_of_weights(module: nn.Module) -> int:
    """Return the bytes of a module's parameters and buffers; those that share their memory count once."""
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage() for tensor in (*module.parameters(), *module.buffers())}
    return sum(storage.nbytes() for storage in storages.values())


def release_memory() -> None:
    """Collect garbage, and return to the device what torch's allocator of GPU memory holds but does not use. A process that has not used a
    GPU of Nvidia does not begin to.
    """
    gc.collect()
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()
    if torch.backends.mps.is_available():
        torch.mps.empty_cache()


def on_device(device: torch.device) -> AbstractContextManager[object]:
    """Return a context in which a GPU is the one of this thread, which has the first one otherwise: what names no GPU, such as an event,
    would take memory of that.
    """
    return torch.cuda.device(indexed(device)) if device.type == "cuda" else nullcontext()


def bytes_of_pass(model: Model, tensors: Mapping[str, Tensor]) -> int:
    """Return the peak number of bytes, without the weights, of a forward pass of ``model`` over ``tensors``.

    Only tensors are counted, not the memory that kernels need inside.
    """
    with torch.no_grad(), evaluating(model.module), _Counting() as counting:
        model.forward(tensors)
    peak: int = counting.peak
    return peak


class _Counting(TorchDispatchMode):
    """A torch dispatch mode that counts the bytes of the results of operators as long as something refers to them."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.holders: Counter[int] = Counter()
        self.live = self.peak = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor):
                self._hold(tensor)
        return result

    def _hold(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        address, size = storage.data_ptr(), storage.nbytes()
        if not self.holders[address]:
            self.live += size
            self.peak = max(self.peak, self.live)
        self.holders[address] += 1
        weakref.finalize(tensor, self._release, address, size)

    def _release(self, address: int, size: int) -> None:
        self.holders[address] -= 1
        if not self.holders[address]:
            self.live -= size
