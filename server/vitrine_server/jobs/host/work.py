"""Work on a model as a host runs it: between two passes of other work, and once more where memory ran out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from explainers.errors import MemoryShortageError
from explainers.models.passes import Ran, attempt
from vitrine_server.http.problems import out_of_memory

#: Is told how many inputs of how many the model has answered.
TellAnswers = Callable[[int, int], None]
#: What a study runs in the thread of the model: a function of the model, of whether to stop, and of ``TellAnswers``, to the answer.
Work = Callable[[Any, Callable[[], bool], TellAnswers], dict[str, Any]]

#: Moves one model away from the device and returns whether it has; its argument is the bytes that are needed (None: not known).
MakeRoom = Callable[[int | None], bool]


@contextmanager
def between_passes() -> Iterator[None]:
    """Restore the state of torch's random number generator on the CPU at the end of this context, for work that runs between two passes of
    other work.
    """
    with torch.random.fork_rng(devices=[]):
        yield


def run_with_memory_retry(work: Callable[[], None], model: str, device: str, send: str, make_room: MakeRoom) -> None:
    """Run ``work``, for ``model`` on ``device``, whose result is not kept; if memory ran out, have other models make room (``make_room``)
    and run it once more. Raises Problem 503, with ``send`` as advice, if that fails too.
    """
    error, has_room = _shortage_of(work), False
    if error is None:
        return
    needed = error.needed if isinstance(error, MemoryShortageError) else None
    while make_room(needed):
        has_room = True
    if has_room or not isinstance(error, MemoryShortageError):  # else the estimate would forbid it again
        error = _shortage_of(work)
    if error is not None:
        words = str(error) if isinstance(error, MemoryShortageError) else f"{model} needs more memory than {device} has for this."
        raise out_of_memory(words, send) from None


def _shortage_of(work: Callable[[], None]) -> Exception | None:
    """Run ``work()``; return the error if memory was short, after freeing what it had made, else None."""
    tried = attempt(work)
    return None if isinstance(tried, Ran) else tried
