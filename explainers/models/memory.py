"""Memory of a device: what it has, what others hold of it, what was taken at most; and the memory that a forward pass takes."""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
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

_GROUP = Path("/sys/fs/cgroup")  # what a container may take, where it may not take all
_LIMITS: dict[torch.device, float] = {}  # the part of each GPU that this process may take, where it may not take all: see limit_memory


@dataclass(frozen=True)
class DeviceMemory:
    """The memory of a device at one moment, in bytes.

    total   what the device has in all; in a container, what that may take
    others  what of it this process can never get: what other processes hold, and what the driver holds for this one
    peak    the most that tensors of this process took at once since :func:`restart_peak`; None if the device does not count it
    """

    total: int
    others: int = 0
    peak: int | None = None


@dataclass(frozen=True)
class _MachineMemory:
    """The bytes of memory that this process and its children may take in all, and how many of them are free."""

    total: int
    free: int


def indexed(device: torch.device) -> torch.device:
    """Return ``device`` with its index, as tensors on it name it: ``cuda`` is ``cuda:0``; a CPU has none."""
    return device if device.type == "cpu" or device.index is not None else torch.device(device.type, 0)


def measure_memory(device: torch.device) -> DeviceMemory | None:
    """Return the memory of a device, a CPU or a GPU of Nvidia; None for another device. On a CPU the system moves memory between processes,
    so nothing counts as held by others.
    """
    if device.type != "cuda":
        total = total_memory(device)
        return None if total is None else DeviceMemory(total)
    free, total = torch.cuda.mem_get_info(device)
    others = max(0, int(total - free) - torch.cuda.memory_reserved(device))
    return DeviceMemory(int(total), others, torch.cuda.max_memory_allocated(device))


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
    """Return the free bytes on a device, a CPU or a GPU of Nvidia: of a GPU those that :func:`limit_memory` leaves. None for another
    device.
    """
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        reserved, allocated = torch.cuda.memory_reserved(device), torch.cuda.memory_allocated(device)
        allowed = int(_LIMITS.get(indexed(device), 1.0) * total) - reserved
        return max(0, min(int(free), allowed)) + reserved - allocated
    return _machine_memory().free if device.type == "cpu" else None


def allocated_memory(gpu: int) -> int:
    """Return the bytes that tensors of this process hold on the GPU number ``gpu``; 0 if it has not used one."""
    return int(torch.cuda.memory_allocated(gpu)) if torch.cuda.is_initialized() else 0


def total_memory(device: torch.device) -> int | None:
    """Return the bytes of memory that a device has in all, a CPU or a GPU of Nvidia; in a container, what it may take. None for another
    device.
    """
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[1])
    return _machine_memory().total if device.type == "cpu" else None


def _machine_memory() -> _MachineMemory:
    """Return the memory of the machine, or of the container where that may take less."""
    machine = psutil.virtual_memory()
    total, free = int(machine.total), int(machine.available)
    try:
        most, taken, counts = ((_GROUP / name).read_text("utf-8").strip() for name in ("memory.max", "memory.current", "memory.stat"))
    except OSError:
        return _MachineMemory(total, free)
    if most == "max":
        return _MachineMemory(total, free)
    files = next((int(line.split()[1]) for line in counts.splitlines() if line.startswith("inactive_file ")), 0)  # given back when needed
    return _MachineMemory(min(total, int(most)), max(0, min(free, int(most) - int(taken) + files)))


def bytes_of_weights(module: nn.Module) -> int:
    """Return the bytes of a module's parameters and buffers; those that share their memory count once."""
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage() for tensor in (*module.parameters(), *module.buffers())}
    return sum(storage.nbytes() for storage in storages.values())


def release_memory() -> None:
    """Collect garbage, and return to the device what torch's allocator of GPU memory holds but does not use. A process that has not used a
    GPU does not begin to.
    """
    gc.collect()
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()


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
