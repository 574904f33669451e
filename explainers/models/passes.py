"""Passes that run again with fewer rows where memory runs out: the one place that tries again."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Generic, Literal, TypeVar

import torch
from torch import Tensor

from explainers.errors import MemoryShortageError, chain_of, is_memory_shortage, may_lack_memory, ran_out_of_memory
from explainers.models.memory import allocated_memory, release_memory

T = TypeVar("T")
E = TypeVar("E", bound=BaseException)
_IS_COUNTED = "is_counted_shortage"  # an attribute of errors that Shortages has counted
#: How sparing passes are: not; with one row each; or with one row each whose activations are computed again.
Sparing = Literal["no", "rows", "activations"]
_SPARING: ContextVar[Sparing] = ContextVar("how sparing passes are", default="no")
#: The most rows in one pass on a GPU, which many rows fill; how many of them fit is found by memory.
MAX_GPU_ROWS = 256
#: The words, in lower case, in which torch's allocators say how much they were asked for, on which GPU, and how much it holds there.
_SIZE = r"([\d.]+) (bytes|[kmgt]i?b)\b"
_ASKED_FOR, _HELD, _GPU = (re.compile(words) for words in (f"tried to allocate {_SIZE}", f"{_SIZE} is allocated by pytorch", r"gpu (\d+)"))
_UNITS = {"bytes": 1} | {letter + ending: base**i for ending, base in (("b", 1000), ("ib", 1024)) for i, letter in enumerate("kmgt", 1)}


#: What became of a shortage: fewer rows in a pass, activations computed again or other models that left mended it, or nothing did.
Outcome = Literal["smaller-batch", "recomputed", "made-room", "failed"]


class Shortages:
    """The number of times that memory was too short in this process, for what :func:`attempt` ran or in an error given to
    :func:`count_shortage`. One shortage counts once, in however many calls of them, one inside the other, it arrives.

    count     all of them
    outcomes  outcome -> those of which it is known: see :func:`settle_shortages`
    """

    count = 0
    outcomes: ClassVar[Counter[Outcome]] = Counter()


class _Unsettled(threading.local):
    """The shortages of this thread of which it is not known yet what became of them, in order: of each whether it surely is one, and not an
    error that is one only if less memory mends it.
    """

    def __init__(self) -> None:
        self.are_sure: list[bool] = []


_UNSETTLED = _Unsettled()


@dataclass(frozen=True)
class Ran(Generic[T]):
    """The result of a function that did not run out of memory (``result``)."""

    result: T


def attempt(run: Callable[[], T]) -> Ran[T] | Exception:
    """Call ``run()`` and return its result; or return the error if memory was short, or may have been (:func:`may_lack_memory`), after
    freeing what ``run`` had made. Raises any other error.

    Whoever has no way left to take less raises an error that may be no shortage as it is: in words of memory it would mislead.
    """
    try:
        return Ran(run())
    except Exception as error:
        if not (is_memory_shortage(error) or may_lack_memory(error)):
            raise
        failed = error
    count_shortage(failed)
    forget_frames(failed)
    release_memory()
    return failed


def count_shortage(error: Exception) -> None:
    """Count ``error``, which says that memory was short, in :class:`Shortages`, unless it, or one that led to it, was counted before. One
    that may be no shortage counts once less memory has mended it.
    """
    if not any(getattr(each, _IS_COUNTED, False) for each in chain_of(error)):
        is_sure = not may_lack_memory(error)
        _UNSETTLED.are_sure.append(is_sure)
        Shortages.count += is_sure
    as_counted(error)


def unsettled_shortages() -> int:
    """Return the number of shortages that this thread has met and of which it is not known yet what became of them."""
    return len(_UNSETTLED.are_sure)


def settle_shortages(outcome: Outcome | None, since: int) -> None:
    """Note ``outcome`` as what became of the shortages that this thread has met since :func:`unsettled_shortages` was ``since``; None: they
    were none.
    """
    are_sure = _UNSETTLED.are_sure[since:]
    del _UNSETTLED.are_sure[since:]
    if outcome is None:
        Shortages.count -= are_sure.count(True)
        return
    mended = are_sure.count(False) if outcome in ("smaller-batch", "recomputed") else 0
    Shortages.count += mended
    Shortages.outcomes[outcome] += are_sure.count(True) + mended


def as_counted(error: E) -> E:
    """Return ``error`` marked as one that :class:`Shortages` has counted, such as one that says a counted one in other words."""
    setattr(error, _IS_COUNTED, True)
    return error


def bytes_needed(error: BaseException | None) -> int | None:
    """Return the bytes beyond what is held now that must be free, or ``error`` comes again, to be called once its pass was cleared away:
    those that a :class:`MemoryShortageError` says, or those that the pass had taken on its GPU and the ones that torch asked for in vain.
    None where the error says no bytes.
    """
    for each in chain_of(error):
        if isinstance(each, MemoryShortageError):
            return each.needed
        words = str(each).lower()
        if ran_out_of_memory(each) and (asked_for := _ASKED_FOR.search(words)) is not None:
            held, gpu = _HELD.search(words), _GPU.search(words)
            taken = 0 if held is None or gpu is None else max(0, _bytes_in(held) - allocated_memory(int(gpu[1])))
            return taken + _bytes_in(asked_for)
    return None


def _bytes_in(size: re.Match[str]) -> int:
    return int(float(size[1]) * _UNITS[size[2]])


def forget_frames(error: BaseException) -> None:
    """Drop the tracebacks of ``error`` and of every error that led to it: their frames hold the tensors of the pass that failed."""
    seen, waiting = set[int](), [error]
    while waiting:
        each = waiting.pop()
        if id(each) not in seen:
            seen.add(id(each))
            each.__traceback__ = None
            waiting += [other for other in (each.__cause__, each.__context__) if other is not None]


class Passes:
    """A loop over rows that go through a model some at a time: ``rows`` in each pass at first, and half as many after each pass for which
    memory is too short.
    """

    def __init__(self, rows: int) -> None:
        self.rows = rows_at_most(max(1, rows))

    def run(self, count: int, run: Callable[[int, int], T]) -> Iterator[T]:
        """Yield the results of ``run(first, number)`` for ``count`` rows in order, ``number`` of them from the row ``first`` on.

        Raises the error itself where memory is too short for a single row.
        """
        first, since = 0, unsettled_shortages()
        while first < count:
            number = min(self.rows, count - first)
            tried = attempt(partial(run, first, number))
            if isinstance(tried, Ran):
                settle_shortages("recomputed" if is_sparing_activations() else "smaller-batch", since)
                yield tried.result
                first += number
            elif number == 1:
                raise tried
            else:
                self.rows = (number + 1) // 2


@contextmanager
def sparing_memory(how: Sparing) -> Iterator[None]:
    """Have passes inside this context take less memory in the ways that ``how`` names: by having one row each, and by computing activations
    again.
    """
    token = _SPARING.set(how)
    try:
        yield
    finally:
        _SPARING.reset(token)


def is_sparing_activations() -> bool:
    """Return whether activations are computed again here, to save memory: see :func:`sparing_memory`."""
    return _SPARING.get() == "activations"


def rows_at_most(usual: int) -> int:
    """Return the most rows of a pass of which ``usual`` usually fit: one inside :func:`sparing_memory`."""
    return usual if _SPARING.get() == "no" else 1


def rows_per_pass(device: torch.device, usual: int) -> int:
    """Return the most rows of one pass on a device: on a GPU as many as may fit, elsewhere the ``usual`` number, beyond which a pass is no
    faster.
    """
    return rows_at_most(max(usual, MAX_GPU_ROWS) if device.type == "cuda" else usual)


def answers_of_rows(rows: Tensor, device: torch.device, usual: int, ask: Callable[[Tensor], Tensor]) -> Tensor:
    """Return the answers (K, ...) of ``ask`` to ``rows`` (K, ...), from passes over as many of them as fit on ``device``, ``usual`` at most
    on a CPU; see :func:`rows_per_pass`.
    """
    passes = Passes(rows_per_pass(device, usual))
    return torch.cat(list(passes.run(len(rows), lambda first, number: ask(rows[first : first + number]))))
