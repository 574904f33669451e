"""Work on a model as a host runs it: between two passes of other work, and once more where memory ran out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from explainers.errors import ran_out_of_memory
from explainers.models.memory import release_memory
from vitrine_server.http.problems import out_of_memory

#: Is told how many inputs of how many the model has answered.
TellAnswers = Callable[[int, int], None]
#: What a study runs in the thread of the model: a function of the model, of whether to stop, and of ``TellAnswers``, to the answer.
Work = Callable[[Any, Callable[[], bool], TellAnswers], dict[str, Any]]


@contextmanager
def between_passes() -> Iterator[None]:
    """Restore the state of the random numbers at the end of this context, for work that runs between two passes of other work."""
    with torch.random.fork_rng(devices=[]):
        yield


def run_with_memory_retry(work: Callable[[], None], model: str, device: str, send: str, make_room: Callable[[], bool]) -> None:
    """Run ``work``; if memory ran out, have other models make room (``make_room`` moves one and returns whether there was one) and run it
    once more. Raises Problem 503, with ``send`` as advice, if that fails too.
    """
    if _fits(work):
        return
    release_memory()
    while make_room():
        pass
    if not _fits(work):
        release_memory()
        raise out_of_memory(f"{model} needs more memory than {device} has for this.", send)


def _fits(work: Callable[[], None]) -> bool:
    """Run ``work`` and return True; False if memory ran out. On return the failed attempt's frames, and so its tensors, are gone."""
    try:
        work()
    except Exception as error:
        if not ran_out_of_memory(error):
            raise
        return False
    return True
