"""Work on a model as a host runs it: between two passes of other work, and once more where memory ran out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from explainers.errors import MemoryShortageError, may_lack_memory
from explainers.models.passes import Ran, attempt, bytes_needed, settle_shortages, unsettled_shortages
from vitrine_server.http.problems import out_of_memory

#: Is told how many inputs of how many the model has answered.
TellAnswers = Callable[[int, int], None]
#: What a study runs in the thread of the model: a function of the model, of whether to stop, and of ``TellAnswers``, to the answer.
Work = Callable[[Any, Callable[[], bool], TellAnswers], dict[str, Any]]

#: Moves models away from the device, at least one, until its argument, the bytes that are needed, is free there (None: not known; one
#: model), and returns whether it has.
MakeRoom = Callable[[int | None], bool]


@contextmanager
def between_passes() -> Iterator[None]:
    """Restore the state of torch's random number generator on the CPU at the end of this context, for work that runs between two passes of
    other work.
    """
    with torch.random.fork_rng(devices=[]):
        yield


def run_with_memory_retry(work: Callable[[], None], model: str, device: str, send: str, make_room: MakeRoom) -> None:
    """Run ``work``, for ``model`` on ``device``, whose result is not kept. If memory ran out, have other models make room (``make_room``),
    at first as much as the shortage says that it needs, then all that can help, and run it once more after each. Raises Problem 503, with
    ``send`` as advice, if that fails too.
    """
    since = unsettled_shortages()
    error, tries = _shortage_of(work), 1
    while error is not None:
        needed = bytes_needed(error)
        has_room = make_room(needed)
        while has_room and (needed is None or tries > 1) and make_room(needed):
            pass
        if not has_room and (tries > 1 or isinstance(error, MemoryShortageError)):  # an estimate would forbid it again
            words = str(error) if isinstance(error, MemoryShortageError) else f"{model} needs more memory than {device} has for this."
            raise out_of_memory(words, send) from None
        error, tries = _shortage_of(work), tries + 1
    if tries > 1:
        settle_shortages("made-room", since)


def _shortage_of(work: Callable[[], None]) -> Exception | None:
    """Run ``work()``; return the error if memory was short, after freeing what it had made, else None. One that may be no shortage is
    raised as any other: fewer rows did not mend it, and each question that asks for what a GPU cannot do would have all models leave.
    """
    tried = attempt(work)
    if isinstance(tried, Ran):
        return None
    if may_lack_memory(tried):
        raise tried
    return tried
