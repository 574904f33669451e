"""The runner: a thread that takes items from the scheduler and has its model host run them, one at a time.

Explanations take turns. After each method the device may pass to another explanation: to a new one at once, else to the one that has used
the device least. Finished maps are kept; the next turn makes the others. A long study (the deletion test asks a model hundreds of times)
and a slow method can be interrupted by lighter items between any two of their forward passes.
"""

from __future__ import annotations

import logging
import threading
import time
from contextlib import suppress
from typing import Any

from explainers.records.session import Cancelled
from vitrine_server.http.limits import limits
from vitrine_server.http.problems import OUT_OF_MEMORY, Problem
from vitrine_server.jobs.catalogue.model_registry import ModelEntry
from vitrine_server.jobs.failures import interrupted, problem_of
from vitrine_server.jobs.host.interface import (
    ExplainRequest,
    Host,
    HostLostError,
    Message,
    Pause,
    Progress,
    Reply,
    StudyRequest,
)
from vitrine_server.jobs.queue.device_queue import SLICE, WorkItem
from vitrine_server.jobs.queue.host_client import HostClient
from vitrine_server.jobs.queue.job import Job
from vitrine_server.jobs.queue.room import Room
from vitrine_server.jobs.queue.scheduler import Scheduler, cut_short
from vitrine_server.jobs.queue.study import BACKGROUND, FEW_PASSES, SHORT, Study
from vitrine_server.jobs.queue.turn import Turn, prepare

log = logging.getLogger(__name__)
_IDLE_BEAT = 5.0  # seconds after which an idle runner looks for chores again
_SHORTEST_TURN = 1e-6  # seconds: a job counts as begun after any turn


class Runner(threading.Thread):
    """A thread, called ``name``, that runs the items of work of ``scheduler`` on ``host``."""

    def __init__(self, scheduler: Scheduler, host: Host, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.host = host
        self._scheduler = scheduler
        self._settings, self._costs = scheduler.settings, scheduler.costs
        self._study_limit = limits(self._settings)["job_seconds"]
        self._open: list[ModelEntry] = []  # the models of the items under way, the innermost last
        self._in_between = 0.0  # seconds spent on other items between two passes of an open one
        self._room = Room(scheduler, host, self._open)
        self._client = HostClient(scheduler, host, self._room)

    @property
    def healthy(self) -> bool:
        """True if the thread is alive and its host has a device, and either sent a sign of life lately or can be killed."""
        host = self.host
        return self.is_alive() and not host.has_lost_device and (host.can_be_ended or host.silence < self._settings.silence_seconds)

    def run(self) -> None:
        """Run items until the server stops."""
        while (task := self._take()) is not None:
            try:
                self._do(task)
            except Exception:
                log.exception("a task failed unexpectedly; the worker continues")
        self.host.close()

    def _do(self, task: WorkItem, quick: bool = False) -> None:
        if isinstance(task, ModelEntry):
            self._client.load(task)
            return
        self._open.append(task.entry)
        try:
            if isinstance(task, Study):
                self._answer(task)
            else:
                self._explain(task, quick)
        finally:
            self._open.pop()

    def _take(self) -> WorkItem | None:
        """Wait for the next item and return it; None when the server stops."""
        scheduler, is_tidy = self._scheduler, False
        while True:
            with scheduler.change:
                if scheduler.stopping:
                    return None
                task = scheduler.take(has_room=self._room.may_begin)
                self._client.tell_what_waits()
                if task is not None:
                    return task
                if is_tidy:
                    scheduler.change.wait(_IDLE_BEAT)
                    is_tidy = False
                    continue
            is_tidy = not self._tidy_up()

    def _tidy_up(self) -> bool:
        """Do one chore of an idle runner: tidy the store, restart a host whose memory grew, reload a model for which no other has to leave.
        Returns False if there is nothing left to do.
        """
        self._scheduler.tidy_store()
        self.host.look_after()
        self._client.restart_if_grown()
        for entry in self._scheduler.registry.all():
            if entry.state == "loaded" and entry.name not in self.host.models and self._room.has_spare_room(entry):
                self._client.bring(entry)
                return True
        return False

    # --- lighter items between two passes -------------------------------------------------------------------------------

    def _now(self) -> float:
        """Return the time in seconds of a clock that leaves out the time in which other items ran between the passes of the current one."""
        return time.monotonic() - self._in_between

    def _let_pass(self, below: int, quick: bool) -> bool:
        """Run one waiting item whose weight is less than ``below``, while the item that is being run pauses between two of its passes;
        return False if no such item waits. With ``quick`` an explanation gets a short turn.
        """
        task = self._scheduler.take(below, self._room.may_begin)
        if task is None:
            self._client.tell_what_waits()
            return False
        before, began = self._in_between, time.monotonic()
        self._do(task, quick)
        self._in_between = before + time.monotonic() - began
        return True

    # --- studies ---------------------------------------------------------------------------------------------------------

    def _answer(self, study: Study) -> None:
        if not study.begin():
            return
        try:
            study.future.set_result(self._answer_with_host(study))
        except Cancelled:
            study.future.set_exception(interrupted())
        except Exception as error:
            study.future.set_exception(problem_of(error, "study", "cannot-answer"))

    def _answer_with_host(self, study: Study) -> dict[str, Any]:
        try:
            return self._answer_once(study)
        except HostLostError as lost:
            if lost.is_guilty:
                raise lost.problem from None
        try:
            return self._answer_once(study)  # an item that ran between its passes lost the host
        except HostLostError as lost:
            raise lost.problem from None

    def _answer_once(self, study: Study) -> dict[str, Any]:
        task = study.task
        self._client.loaded(study.entry)
        if task.cost and (seconds := self._costs.seconds(study.entry.name, task.cost, 0)) is not None:
            study.expect(seconds)
        began = self._now()

        def limit_passed() -> Problem | None:
            is_over = task.weight < BACKGROUND and self._now() - began > self._study_limit.most
            return self._study_limit.problem() if is_over else None

        def cancelled() -> bool:
            if (problem := limit_passed()) is not None:
                raise problem
            return study.cancelled.is_set() or self._scheduler.stopping

        def others_first() -> bool:
            while not cancelled():
                if not self._let_pass(task.weight, quick=task.weight <= FEW_PASSES):
                    return False
            return True

        def handle(message: Message) -> Reply:
            if isinstance(message, Progress):
                study.tell(message.done, message.total)
            elif isinstance(message, Pause):
                return cancelled() if task.weight == SHORT else others_first()
            return None

        watch = self._client.watch(limit_passed, study.cancelled.is_set)
        answer = self._client.follow(StudyRequest(study.entry.name, task.work), watch, handle)
        if task.cost:
            self._costs.note(study.entry.name, task.cost, self._now() - began, 0)
        return answer

    # --- explanations ----------------------------------------------------------------------------------------------------

    def _explain(self, job: Job, quick: bool) -> None:
        """Give ``job``, an explanation, one turn, without slow methods if ``quick``; an unfinished one is queued again, and one that
        another process has taken is dropped.
        """
        if not self._scheduler.may_begin(job):
            return
        began = self._now()
        outcome: tuple[str, Problem | None] | None = ("done", None)
        try:
            if not job.is_left:
                self._run(job, quick)
            if job.plan is None or (job.left and (job.is_left or job.stopped.is_set())):
                outcome = cut_short(job)
            elif job.left:
                outcome = None
        except Cancelled:
            outcome = self._stopped(job)
        except HostLostError as lost:
            if job.cancelled.is_set() or job.stopped.is_set() or self._scheduler.stopping:
                outcome = self._stopped(job)
            else:  # an item between two of its passes lost the host: the job goes on with another one
                outcome = ("failed", lost.problem) if lost.is_guilty else None
        except Exception as error:
            problem = problem_of(error, "explanation", "cannot-explain")
            is_short_beside = problem.slug == OUT_OF_MEMORY and len(self._open) > 1  # the item that waits between two passes holds memory
            job.needs_device_alone = is_short_beside
            outcome = None if is_short_beside or self._room.is_left(job.entry) else ("failed", problem)
        seconds = max(self._now() - began, _SHORTEST_TURN)
        job.used += seconds
        self._scheduler.note(job, seconds)
        if outcome is None:
            if self._scheduler.put_back(job):
                return
            outcome = ("cancelled", None)
        self._scheduler.metrics.job(outcome[0], job.used)
        self._scheduler.finish(job, *outcome, seconds=job.used)

    def _stopped(self, job: Job) -> tuple[str, Problem | None] | None:
        """Return the final state and problem of a job that was stopped during its turn; None if the server stops and resumes the job at its
        next start.
        """
        is_wanted = not (job.cancelled.is_set() or job.stopped.is_set() or job.is_left)
        return None if self._scheduler.stopping and is_wanted else cut_short(job)

    def _run(self, job: Job, quick: bool) -> None:
        facts = self._client.loaded(job.entry)
        prepare(job, facts, self._costs)
        assert job.plan is not None
        if not job.is_running:
            document = job.begin(facts, job.plan)
            with suppress(Problem):  # a store that fails is no reason not to answer
                self._scheduler.store.save(document, key=job.key)

        def is_over() -> bool:
            return (quick and turn.used >= SLICE) or self._scheduler.should_yield(job, job.used + turn.used, self._room.may_begin)

        def is_unwanted() -> bool:
            return job.cancelled.is_set() or job.stopped.is_set() or job.is_left

        def polled() -> bool:
            if (problem := turn.limit_passed()) is not None:
                raise problem
            return is_unwanted() or self._scheduler.stopping

        def cancelled() -> bool:
            return polled() or (turn.is_slow and self._let_pass(FEW_PASSES, quick=True) and polled())  # one thing between two passes

        turn = Turn(job, facts, self._settings, self._costs, self._scheduler.metrics, self._now, is_over, cancelled, quick)
        watch = self._client.watch(turn.limit_passed, is_unwanted)
        request = ExplainRequest(job.entry.name, job.question, job.plan.targets, job.left)
        self._client.follow(request, watch, turn.handle)
