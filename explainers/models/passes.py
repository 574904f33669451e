"""Passes that run again with fewer rows where memory runs out: the one place that tries again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

import torch

from explainers.errors import MemoryShortageError, ran_out_of_memory
from explainers.models.memory import release_memory

T = TypeVar("T")
#: The most rows in one pass on a GPU, which many rows fill; how many of them fit is found by memory.
MAX_GPU_ROWS = 256


@dataclass(frozen=True)
class Ran(Generic[T]):
    """The result of a function that did not run out of memory."""

    result: T


def is_memory_shortage(error: BaseException | None) -> bool:
    """Return whether an error says that memory ran out, or that an estimate forbade to take it."""
    return isinstance(error, MemoryShortageError) or ran_out_of_memory(error)


def attempt(run: Callable[[], T]) -> Ran[T] | Exception:
    """Call ``run()`` and return its result; or return the error if memory was short, after freeing what ``run`` had made. Raises any other
    error.
    """
    try:
        return Ran(run())
    except Exception as error:
        if not is_memory_shortage(error):
            raise
        failed = error
    chained: BaseException | None = failed
    while chained is not None:  # the frames of a traceback hold the tensors of the pass
        chained.__traceback__ = None
        chained = chained.__cause__ or chained.__context__
    release_memory()
    return failed


class Passes:
    """A loop over rows that go through a model some at a time: ``rows`` in each pass at first, and half as many after each pass for which
    memory is too short.
    """

    def __init__(self, rows: int) -> None:
        self.rows = max(1, rows)

    def run(self, count: int, run: Callable[[int, int], T]) -> Iterator[T]:
        """Yield the results of ``run(first, number)`` for ``count`` rows in order, ``number`` of them from the row ``first`` on.

        Raises the error itself where memory is too short for a single row.
        """
        first = 0
        while first < count:
            number = min(self.rows, count - first)
            tried = attempt(partial(run, first, number))
            if isinstance(tried, Ran):
                yield tried.result
                first += number
            elif number == 1:
                raise tried
            else:
                self.rows = (number + 1) // 2


def rows_per_pass(device: torch.device, usual: int) -> int:
    """Return the most rows of one pass on a device: on a GPU as many as may fit, elsewhere the ``usual`` number, beyond which a pass is no
    faster.
    """
    return max(usual, MAX_GPU_ROWS) if device.type == "cuda" else usual
