"""The number of CPU threads for a model: as many as its size can use and as other processes leave cores for.

The threads of one torch operator wait for each other at its end. Where another process has taken the core of one of them, all wait for
the scheduler, at every operator: two threads next to a busy neighbour can take fifty times as long as one.
``python -m benchmarks.neighbour`` measures it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import torch

from explainers.models.model import Model

#: Models with fewer parameters gain nothing from a second thread: their operators are over before the threads have met.
MAX_ONE_THREAD_PARAMETERS = 25_000_000
#: Seconds that a count of free cores is taken over, at least.
WINDOW_SECONDS = 0.5
_STAT = Path("/proc/stat")


def busy_seconds(stat: str, cores: set[int], ticks: int) -> float:
    """Return the CPU seconds that all processes have used on ``cores``, from ``stat``, the text of /proc/stat, which counts ``ticks`` a
    second.
    """
    total = 0
    for line in stat.splitlines():
        name, *numbers = line.split()
        if name.startswith("cpu") and name[3:].isdigit() and int(name[3:]) in cores:
            user, nice, system, _idle, _iowait, *rest = (int(n) for n in numbers)
            total += user + nice + system + sum(rest[:3])  # interrupts, and what other machines took
    return total / ticks


def _used_by_all() -> float | None:
    try:
        return busy_seconds(_STAT.read_text(), os.sched_getaffinity(0), os.sysconf("SC_CLK_TCK"))
    except (OSError, AttributeError, ValueError):  # no Linux
        return None


def _used_by_me() -> float:
    times = os.times()
    return times.user + times.system


class FreeCores:
    """A counter of the cores that other processes have left free since its last call, from the CPU seconds used by all processes and by
    this one.

    count how many cores this process may use
    """

    def __init__(
        self,
        count: int | None = None,
        used_by_all: Callable[[], float | None] = _used_by_all,
        used_by_me: Callable[[], float] = _used_by_me,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.count = _cores() if count is None else count
        self._read = (used_by_all, used_by_me, clock)
        self._last = self._sample()
        self._free = self.count

    def _sample(self) -> tuple[float | None, float, float]:
        used_by_all, used_by_me, clock = self._read
        return used_by_all(), used_by_me(), clock()

    def __call__(self) -> int:
        """Return the number of free cores, at least 1; all of them if the system does not report the use of other processes."""
        everybody, me, now = self._sample()
        before, mine, then = self._last
        if everybody is not None and before is not None and now - then >= WINDOW_SECONDS:
            others = max(0.0, (everybody - before) - (me - mine)) / (now - then)
            self._free = max(1, min(self.count, round(self.count - others)))
            self._last = (everybody, me, now)
        return self._free


def _cores() -> int:
    """Return the number of cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


class Threads:
    """Sets the number of threads of the calling thread's torch operators. One for each process: it knows the number at the start. ``free``
    returns how many cores other processes leave free.

    ``most`` is the maximum: the number that torch was given (``OMP_NUM_THREADS``) or found when this was made.
    """

    def __init__(self, free: Callable[[], int] | None = None, most: int | None = None) -> None:
        self._free = FreeCores() if free is None else free
        self.most = torch.get_num_threads() if most is None else most

    def number_for(self, parameters: int) -> int:
        """Return the number of threads for a model with this number of ``parameters``: 1 for a small one, else the cores that other
        processes leave free now.
        """
        free = self._free()  # looked at whatever the size, so that the next look has a short time to judge
        return 1 if parameters < MAX_ONE_THREAD_PARAMETERS else max(1, min(self.most, free))

    def fit(self, model: Model | None) -> None:
        """Give the calling thread the number of threads that fits the model, None for no model; leave it alone for a model on a GPU."""
        number = self.number_for(0 if model is None else int(model.details.get("parameters", 0)))
        if model is not None and model.device.type == "cpu" and torch.get_num_threads() != number:
            torch.set_num_threads(number)
