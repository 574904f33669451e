"""Work that a GPU has in its queue: what waits for it, and how long it took.

A GPU works behind the program that asks it. Whoever asks for a number of a tensor, as a condition does, waits until all that was asked
before is done, and the GPU then waits for the program. So shortcuts that look at numbers are taken on a CPU alone.
"""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import Tensor


def is_queued(tensor: Tensor) -> bool:
    """Return whether a tensor is on a CUDA device, where work is queued: reading its numbers would wait until the GPU has computed them."""
    return tensor.device.type == "cuda"


class Stopwatch:
    """A measurement of the seconds of work on a device, from its creation to :meth:`stop`. It waits for the device only when the seconds
    are read.
    """

    def __init__(self, device: torch.device) -> None:
        self._device, self._is_queued = device, device.type == "cuda"
        self._began = self._now()
        self._ended = self._began

    def stop(self) -> None:
        """End the measurement at this point of the device's work."""
        self._ended = self._now()

    @property
    def seconds(self) -> float:
        """The measured seconds; reading them on a GPU waits until it has finished the measured work."""
        if not self._is_queued:
            return float(self._ended - self._began)
        self._ended.synchronize()
        return float(self._began.elapsed_time(self._ended)) / 1000

    def _now(self) -> Any:
        if not self._is_queued:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self._device))  # the model's GPU need not be the one of this thread
        return event
