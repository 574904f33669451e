"""A study as the queue of a device has it: a question to a loaded model, with a future for its answer."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from server.http.problems import Problem
from server.http.visitors import NOBODY, Visitor
from server.jobs.feed import Feed, event
from server.jobs.model_registry import ModelEntry
from server.jobs.work import TellAnswers, Work

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
