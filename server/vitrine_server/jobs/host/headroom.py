"""How much of a device weights leave free for what models compute: a fixed share at first, then what was measured."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from explainers.models.memory import DeviceMemory

#: Uses of a model (a turn of an explanation, a study) after which what they took replaces the fixed share.
ENOUGH_USES = 8
#: The latest uses of a model that count: what none of these took is no longer kept free.
RECENT_USES = 64
#: What is kept free, relative to the largest use: allocators cannot use all of it, and the next question may be larger.
PEAK_FACTOR = 1.25
#: However little was measured, this much of the fixed share stays free; however much, no more than this share of the device.
MIN_SHARE_OF_START, MAX_DEVICE_SHARE = 0.25, 0.5


@dataclass(eq=False)
class _Use:
    """The use of a model that is under way on ``device``.

    peak  the most bytes beyond weights that were on the device during it; None: not measured
    """

    device: torch.device
    peak: int | None = None


class Headroom:
    """The bytes of a device that are kept free of weights, by what recent uses of the models on it took beyond the weights.

    A device that does not count what is taken, such as a CPU, keeps the fixed share.
    """

    def __init__(
        self,
        share: float,
        memory: Callable[[torch.device], DeviceMemory | None],
        restart_peak: Callable[[torch.device], None],
        weights_on: Callable[[torch.device], int],
    ) -> None:
        """``share`` of a device is for weights at first. ``memory`` measures a device and ``restart_peak`` begins a new peak, as the
        functions of :mod:`explainers.models.memory`; ``weights_on`` returns the bytes of the weights on a device.
        """
        self._share, self._memory, self._restart_peak, self._weights_on = share, memory, restart_peak, weights_on
        self._peaks: dict[tuple[str, torch.device], deque[int]] = {}  # of the recent uses of each model on each device
        self._uses: list[_Use] = []
        self._is_paused = False

    @contextmanager
    def measuring(self, name: str, device: torch.device) -> Iterator[None]:
        """Count the bytes beyond weights inside this context as those of a use of the model ``name``. Where one use stands while another
        one runs, it is counted with that, since both are on the device.
        """
        self._note(device)
        use = _Use(device)
        self._uses.append(use)
        try:
            yield
        finally:
            self._note(device)
            self._uses.remove(use)
            if use.peak is not None:
                self._peaks.setdefault((name, device), deque(maxlen=RECENT_USES)).append(use.peak)

    @contextmanager
    def paused(self, device: torch.device) -> Iterator[None]:
        """Count nothing inside this context, in which models are loaded or moved."""
        if self._is_paused:
            yield
            return
        self._note(device)
        self._is_paused = True
        try:
            yield
        finally:
            self._is_paused = False
            if (memory := self._memory(device)) is not None and memory.peak is not None:
                self._restart_peak(device)

    def _note(self, device: torch.device) -> None:
        """Add what was taken since the last call to each use on ``device``, and begin a new peak."""
        if self._is_paused or (memory := self._memory(device)) is None or memory.peak is None:
            return
        beyond = max(0, memory.peak - self._weights_on(device))
        for use in self._uses:
            if use.device == device:
                use.peak = max(use.peak or 0, beyond)
        self._restart_peak(device)

    def peak(self, name: str, device: torch.device) -> int | None:
        """Return the most bytes beyond weights that a recent use of the model ``name`` took on ``device``; None if none was measured."""
        return max(self._peaks.get((name, device), ()), default=None)

    def bytes_for(self, names: Collection[str], device: torch.device, available: int) -> int:
        """Return the bytes to keep free, for the models ``names``, of a device of which ``available`` bytes may be used."""
        start = (1 - self._share) * available
        kept = [max(self._part_of(start, name, device), PEAK_FACTOR * (self.peak(name, device) or 0)) for name in names]
        return round(min(max(kept, default=start), max(start, MAX_DEVICE_SHARE * available)))

    def _part_of(self, start: float, name: str, device: torch.device) -> float:
        """Return how much of ``start``, the fixed share, stays free for a model whatever was measured."""
        return start * MIN_SHARE_OF_START if len(self._peaks.get((name, device), ())) >= ENOUGH_USES else start
