"""Free memory of a device, and the memory that a forward pass takes."""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from collections.abc import Mapping
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

__all__ = ["bytes_of_pass", "bytes_of_weights", "free_memory", "release_memory", "total_memory"]

_GROUP = Path("/sys/fs/cgroup")  # what a container may take, where it may not take all


@dataclass(frozen=True)
class _MachineMemory:
    """The bytes of memory that this process and its children may take in all, and how many of them are free."""

    total: int
    free: int


def free_memory(device: torch.device) -> int | None:
    """Return the free bytes on a device, a CPU or a GPU of Nvidia. None for another device."""
    if device.type == "cuda":
        cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + cached
    return _machine_memory().free if device.type == "cpu" else None


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
    """Collect garbage, and return to the device what torch's allocator of GPU memory holds but does not use."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


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
