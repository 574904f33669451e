"""What the worker does besides loading and explaining: a study, a question that waits for its answer; and what may go wrong."""

from __future__ import annotations

import gc
import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from explainers.errors import ExplainerError, ran_out_of_memory
from server.http.problems import Problem, out_of_memory, unforeseen
from server.http.visitors import NOBODY, Visitor
from server.jobs.feed import Feed, event
from server.jobs.model_registry import ModelEntry
from server.json_text import NotJsonError

log = logging.getLogger(__name__)
#: Told how many inputs of how many the model has answered.
TellAnswers = Callable[[int, int], None]
#: What a study does in the worker's thread: from the model, what says whether to stop, and what is told of the progress, to the answer.
Work = Callable[[Any, Callable[[], bool], TellAnswers], dict[str, Any]]


FEW_PASSES, MANY_PASSES, BACKGROUND = 1, 2, 3  # weights of long studies


@dataclass(eq=False)
class Study:
    """A question to the model of ``entry``; ``future`` gets the answer, or the Problem.

    is_long  between its forward passes other questions go first
    weight   of a long one: between its passes lighter ones go first, too; ``FEW_PASSES``, ``MANY_PASSES`` or ``BACKGROUND``
    kind     what it is called in the table of costs; empty where what it takes says nothing of the next one
    visitor  who asked it
    on_progress  is told how far it is, too
    feed     events for whoever follows it: ``expected`` seconds where these are known, ``progress``, then ``done`` with the answer or
             ``failed`` with the problem
    """

    entry: ModelEntry
    work: Work
    is_long: bool = False
    weight: int = FEW_PASSES
    kind: str = ""
    visitor: Visitor = NOBODY
    on_progress: TellAnswers | None = None
    future: Future[dict[str, Any]] = field(default_factory=Future)
    cancelled: threading.Event = field(default_factory=threading.Event)
    feed: Feed = field(default_factory=Feed)

    def __post_init__(self) -> None:
        self.future.add_done_callback(self._end)

    def tell(self, done: int, total: int) -> None:
        """So many inputs of so many are answered."""
        if self.on_progress is not None:
            self.on_progress(done, total)
        self.feed.publish(event(0, "progress", {"asked": done, "total": total}))

    def expect(self, seconds: float) -> None:
        """It begins, and takes about so long."""
        self.feed.publish(event(0, "expected", {"seconds": round(seconds, 2)}))

    def _end(self, future: Future[dict[str, Any]]) -> None:
        try:
            if not future.cancelled():
                problem = future.exception()
                if isinstance(problem, Problem):
                    self.feed.publish(event(1, "failed", problem.to_json()))
                else:
                    self.feed.publish(event(1, "done", future.result()))
        finally:
            self.feed.close()

    def cancel(self) -> None:
        """Nobody waits for the answer any more: drop the question, or stop at the next pass."""
        self.cancelled.set()
        self.future.cancel()

    def refuse(self, problem: Problem) -> None:
        """It will not be answered."""
        if self.future.set_running_or_notify_cancel():
            self.future.set_exception(problem)


@contextmanager
def in_between() -> Iterator[None]:
    """Around what is done between two passes of something else: that finds its random numbers as it left them."""
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        yield


def run_with_memory_retry(work: Callable[[], None], model: str, device: str, send: str) -> None:
    """Run ``work``, once more with memory freed where it ran out; raises Problem 503, saying what to ``send``, where that does not help."""
    if _fits(work):
        return
    free_memory()
    if not _fits(work):
        free_memory()
        raise out_of_memory(f"{model} needs more memory than {device} has for this.", send)


def _fits(work: Callable[[], None]) -> bool:
    """Run ``work``; False where memory ran out. On return the failed attempt's frames, and so its tensors, are gone."""
    try:
        work()
    except Exception as error:
        if not ran_out_of_memory(error):
            raise
        return False
    return True


def free_memory() -> None:
    """Give back what nothing holds any more."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def problem_of(error: Exception, kind: str, refusal: str) -> Problem:
    """What to tell a person of an ``error`` of a task of this ``kind``: ``refusal`` is the slug where the engine says what is wrong.

    The words of an error that nobody foresaw go to the log alone.
    """
    if isinstance(error, Problem):
        return error
    if isinstance(error, ExplainerError):
        return Problem(422, refusal, str(error))
    if isinstance(error, NotJsonError):
        log.warning("the answer of the %s cannot be sent", kind, exc_info=error)
        send = "Ask about another input or by another method; where it is so with all of them, the model's weights are not sound."
        return Problem(422, "unusable-numbers", f"The model's answer cannot be shown: {error}.", send=send)
    return unforeseen(error, f"The {kind}", f"{kind}-failed")


def load_problem(name: str, error: Exception, place: Path | None = None) -> Problem:
    """What to tell a person of an ``error`` that kept a model from being loaded; of one that somebody brought, without its ``place``."""
    send = "Choose another model, or try again."
    if isinstance(error, Problem):
        return error
    if ran_out_of_memory(error):
        return out_of_memory(f"{name} needs more memory than there is.", "Choose a smaller model, or try again later.")
    if isinstance(error, ExplainerError):
        if place is None:
            return Problem(422, "model-failed", str(error), send=send)
        problem = Problem(422, "model-failed", str(error).replace(str(place), place.name), send=send)
        problem.failure_report = error.report()
        return problem
    return unforeseen(error, f"Loading {name}", "model-failed", send=send)


def interrupted(send: str = "Ask again.") -> Problem:
    """The server stops before something is done; it is read after its return, too."""
    return Problem(503, "interrupted", "The server was stopped before this was done.", send=send)
