"""What a map costs: seconds, and on a GPU the most memory that making it alone takes.

Seconds count the backward passes that a method needs, also where it shares them with others, and leave out the forward pass, which all
share. They differ from run to run, as rows do not: they have a file of their own.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import Any

import torch

#: The columns of a row on costs: seconds, bytes (None: not measured), and the device.
COST_COLUMNS = ("seconds", "memory", "device")
#: The largest number of inputs whose maps are each made once more, alone, to measure their memory.
INPUTS_FOR_MEMORY = 3


def device_name(device: torch.device) -> str:
    """Return the name of a device for people: that of the GPU, or the kind of device."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def memory_of_maps(device: torch.device, specs: Sequence[str], explain_alone: Callable[[str], Any]) -> dict[str, int]:
    """Return for each spec the peak of the bytes allocated while ``explain_alone`` makes its map, beyond what was allocated before.

    The result is empty on a device that keeps no such count, such as a CPU.
    """
    if device.type != "cuda":
        return {}
    peaks = {}
    for spec in specs:
        gc.collect()  # what a recording before it left
        torch.cuda.synchronize(device)
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        explain_alone(spec)
        torch.cuda.synchronize(device)
        peaks[spec] = torch.cuda.max_memory_allocated(device) - before
    return peaks
