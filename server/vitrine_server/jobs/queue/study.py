"""A study as the queue of a device has it: a question to a loaded model, with a future for its answer."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from vitrine_server.http.problems import Problem
from vitrine_server.http.visitors import NOBODY, Visitor
from vitrine_server.jobs.catalogue.model_registry import ModelEntry
from vitrine_server.jobs.feed import Feed, event
from vitrine_server.jobs.host.work import TellAnswers, Work

#: Weights of studies. Between two passes of a study lighter items run first; nothing is lighter than a short one.
SHORT, FEW_PASSES, MANY_PASSES, BACKGROUND = range(4)


@dataclass(frozen=True)
class Task:
    """What a study has a model do, as plain data: it may go to another process.

    work     a function of a module, or a ``partial`` of one
    weight   ``SHORT``, ``FEW_PASSES``, ``MANY_PASSES`` or ``BACKGROUND``
    cost     its name in the table of costs; empty if its cost does not predict that of the next one
    visitor  the visitor who asked
    """

    work: Work
    weight: int = SHORT
    cost: str = ""
    visitor: Visitor = NOBODY


@dataclass(eq=False)
class Study:
    """A task for the model of ``entry``; ``future`` gets the answer, or the Problem.

    on_progress  called with its progress, in addition to the feed
    on_begin     called when it no longer waits
    feed     its events: ``expected`` seconds if these are known, ``progress``, then ``done`` with the answer or ``failed`` with the
             problem
    """

    entry: ModelEntry
    task: Task
    on_progress: TellAnswers | None = None
    on_begin: Callable[[], None] = lambda: None
    future: Future[dict[str, Any]] = field(default_factory=Future)
    cancelled: threading.Event = field(default_factory=threading.Event)
    feed: Feed = field(default_factory=Feed)

    def __post_init__(self) -> None:
        self.future.add_done_callback(self._end)

    def begin(self) -> bool:
        """Mark the study as running; return False if it was cancelled."""
        is_wanted = self.future.set_running_or_notify_cancel()
        if is_wanted:
            self.on_begin()
        return is_wanted

    def tell(self, done: int, total: int) -> None:
        """Publish that the model has answered ``done`` of ``total`` inputs."""
        if self.on_progress is not None:
            self.on_progress(done, total)
        self.feed.publish(event(0, "progress", {"asked": done, "total": total}))

    def expect(self, seconds: float) -> None:
        """Publish the estimated ``seconds`` of the study, when it begins."""
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
        """Drop the study if it waits, or stop it at its next pass: nobody waits for the answer any more."""
        self.cancelled.set()
        self.future.cancel()

    def refuse(self, problem: Problem) -> None:
        """Set ``problem`` in place of the answer, unless the study was cancelled."""
        if self.future.set_running_or_notify_cancel():
            self.future.set_exception(problem)
