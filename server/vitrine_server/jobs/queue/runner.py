"""The runner: a thread that takes items from the scheduler and has its model host run them, one at a time.

Explanations take turns. After each method the device may pass to another explanation: to a new one at once, else to the one that has used
the device least. Finished maps are kept; the next turn makes the others. A long study (the deletion test asks a model hundreds of times)
and a slow method can be interrupted by lighter items between any two of their forward passes.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any

from explainers.records.session import Cancelled
from vitrine_server.http.limits import limits
from vitrine_server.http.problems import OUT_OF_MEMORY, Problem
from vitrine_server.jobs.catalogue.model_facts import ModelFacts, ResidentModel
from vitrine_server.jobs.catalogue.model_registry import ModelEntry
from vitrine_server.jobs.failures import interrupted, load_problem, problem_of
from vitrine_server.jobs.host.interface import (
    DropRequest,
    ExplainRequest,
    Host,
    HostLostError,
    HostRequest,
    LoadRequest,
    LoadStage,
    Message,
    Pause,
    Progress,
    Reply,
    Residents,
    Result,
    StudyRequest,
    Watch,
    follow,
)
from vitrine_server.jobs.queue.device_queue import SLICE, WorkItem
from vitrine_server.jobs.queue.job import Job
from vitrine_server.jobs.queue.scheduler import Scheduler, cut_short
from vitrine_server.jobs.queue.study import BACKGROUND, FEW_PASSES, SHORT, Study
from vitrine_server.jobs.queue.turn import Turn, prepare

log = logging.getLogger(__name__)
_IDLE_BEAT = 5.0  # seconds after which an idle runner looks for chores again
_SHORTEST_TURN = 1e-6  # seconds: a job counts as begun after any turn
#: Seconds of silence after which a process is killed whose work is cancelled or over its time; passes are usually shorter.
GRACE = 5.0
_GRACE_AT_STOP = 1.0
_LONGEST_LOAD = 900.0  # seconds: a host sends no messages while it loads
_LEFT_SECONDS = 60.0  # after which a host tries again to load a model for which its memory was too short


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
        self._shortages = 0  # that the host last told of
        self._left: dict[str, float] = {}  # models that this host could not load and another holds: until when it leaves them to that one
        self._at_start = 0  # memory of the host in bytes once it had loaded its models

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
            self._load(task)
            return
        self._open.append(task.entry)
        try:
            if isinstance(task, Study):
                self._answer(task)
            else:
                self._explain(task, quick)
        finally:
            self._open.pop()

    def _has_room(self, entry: ModelEntry, begun: Collection[ModelEntry]) -> bool:
        """Return whether the model of ``entry`` fits on the device next to the models of the items under way, and to those of ``begun``
        explanations that are there. One that the device cannot hold is left to a larger one, if another host has that, and one that
        could not be loaded to a host that holds it.
        """
        if self._is_for_another_host(entry) or self._is_left(entry):
            return False
        there = {name for name, model in self.host.models.items() if model.place == "device"}
        there |= {other.name for other in self._open}
        others = {other.name: other.bytes or 0 for other in (*self._open, *begun) if other.name in there}
        if not others or entry.name in others or self.host.budget is None:
            return True
        return sum(others.values()) + (entry.bytes or 0) <= self.host.budget.room

    def _is_for_another_host(self, entry: ModelEntry) -> bool:
        """Return whether the device cannot hold the model of ``entry``, for what other processes hold of it, and that of another host has
        more memory.
        """
        budget = self.host.budget
        if budget is None or entry.bytes is None or entry.name in self.host.models:
            return False
        here = budget.total - budget.others
        return entry.bytes > here and any(other.total - other.others > here for other in self._scheduler.registry.budgets)

    def _is_left(self, entry: ModelEntry) -> bool:
        """Return whether the model of ``entry`` is left to another host that holds it, since this one could not load it."""
        return time.monotonic() < self._left.get(entry.name, -math.inf) and self._is_held_elsewhere(entry)

    def _is_held_elsewhere(self, entry: ModelEntry) -> bool:
        return entry.state == "loaded" and any(entry.name in host.models for host in self._scheduler.hosts if host is not self.host)

    def _take(self) -> WorkItem | None:
        """Wait for the next item and return it; None when the server stops."""
        scheduler, is_tidy = self._scheduler, False
        while True:
            with scheduler.change:
                if scheduler.stopping:
                    return None
                if (task := scheduler.take(has_room=self._has_room)) is not None:
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
        registry, host = self._scheduler.registry, self.host
        if self._at_start and self._own_memory() - self._at_start > self._settings.grown_mb * 1e6:
            log.info("the process of the models (%s) holds %d MB: it is restarted", host.pid, host.memory // 1_000_000)
            self._scheduler.metrics.worker_ended("memory")
            host.close()
        for entry in registry.all():
            if entry.state == "loaded" and entry.name not in host.models and self._has_room(entry, registry.all()):
                self._bring(entry)
                return True
        return False

    # --- models ----------------------------------------------------------------------------------------------------------

    def _load(self, entry: ModelEntry) -> None:
        registry = self._scheduler.registry
        if entry.is_early and not self._has_room(entry, registry.all()):
            log.info("%s is loaded when somebody asks for it: it does not fit next to the other models", entry.name)
            registry.put_off(entry)
            return
        self._bring(entry)
        if entry.facts is not None:
            log.info("loaded %s on %s", entry.name, entry.facts.device)

    def _follow(self, request: HostRequest[Result], watch: Watch, handle: Callable[[Message], Reply] = lambda _: None) -> Result:
        """Send ``request`` to the host, reply to its messages with what ``handle(message)`` returns, and return the result. ``watch`` is
        called while the host is silent. The registry is told which models the host holds and which it dropped.
        """

        def handle_each(message: Message) -> Reply:
            if not isinstance(message, Residents):
                return handle(message)
            dropped = self.host.models.keys() - message.models.keys()
            self._count_moves(message.models)
            self._count_shortages(message)
            self.host.models, self.host.budget = message.models, message.budget
            self._scheduler.registry.note_residents(id(self.host), message.models, dropped, message.budget)
            return None

        return follow(self.host.ask(request, watch), handle_each)

    def _count_moves(self, models: Mapping[str, ResidentModel]) -> None:
        """Count the models that came to the device, left it for host memory or were dropped, since the host last said what it holds."""
        before = self.host.models
        for name in before.keys() | models.keys():
            was, now = (each[name].place if name in each else "disk" for each in (before, models))
            if was != now:
                self._scheduler.metrics.model_moved(now, (models.get(name) or before[name]).device)

    def _count_shortages(self, message: Residents) -> None:
        """Count the times that memory was too short on the host's device since it last said how many there were; a new process begins at
        0.
        """
        before, self._shortages = self._shortages, message.shortages
        if message.budget is not None:
            new = message.shortages - before if message.shortages >= before else message.shortages
            self._scheduler.metrics.memory_was_short(message.budget.device, new)

    def _bring(self, entry: ModelEntry) -> Problem | None:
        """Have the host load the model of ``entry``, and drop those that the registry has dropped. Returns the Problem if that fails."""
        registry, watch = self._scheduler.registry, self._watch(lambda: None, longest=_LONGEST_LOAD)
        before = self._own_memory() if self.host.models else 0
        request = LoadRequest(entry.name, entry.place, entry.open_options)

        def handle(message: Message) -> None:
            if isinstance(message, LoadStage) and entry.state == "loading":  # else it is known, and only brought back into memory
                registry.tell(entry, "progress", {"text": f"{entry.name_to_show} is {message.stage}", "stage": message.stage})

        try:
            try:
                facts = self._follow(request, watch, handle)
            except HostLostError as lost:
                if lost.problem.slug != "worker-ended":
                    raise
                facts = self._follow(request, watch, handle)  # whatever killed it may have had nothing to do with this model
            if entry.state != "loaded" or entry.facts is None or entry.facts.weights_digest != facts.weights_digest:
                registry.loaded(entry, facts)
            if released := frozenset(self.host.models.keys() - set(registry.in_memory)):
                self._follow(DropRequest(released), watch)
        except HostLostError as lost:
            return self._not_loaded(entry, lost.problem)
        except Exception as error:
            return self._not_loaded(entry, load_problem(entry.name, error))
        self._left.pop(entry.name, None)
        self._at_start = (self._at_start if before else 0) + self._own_memory() - before
        return None

    def _not_loaded(self, entry: ModelEntry, problem: Problem) -> Problem:
        """Mark the model of ``entry`` as failed to load, unless another host holds it: then it is left to that one. Returns ``problem``."""
        if self._is_held_elsewhere(entry):
            log.warning("%s could not be loaded here and is left to the host that holds it: %s", entry.name, problem.detail)
            self._left[entry.name] = time.monotonic() + _LEFT_SECONDS if problem.slug == OUT_OF_MEMORY else math.inf
        else:
            self._scheduler.load_failed(entry, problem)
        return problem

    def _own_memory(self) -> int:
        """Return the resident memory of the host in bytes, without the weights that were moved there from a GPU."""
        return self.host.memory - sum(model.bytes for model in self.host.models.values() if model.place == "host")

    def _loaded(self, entry: ModelEntry) -> ModelFacts:
        """Return the facts of the model of ``entry``, after loading it into the host if need be. Raises the Problem with which it failed to
        load.
        """
        facts = self._scheduler.registry.use(entry)
        self.host.look_after()
        if entry.name in self.host.models:
            return facts
        if (problem := self._bring(entry)) is not None:  # another host has loaded it, or one that has ended
            raise problem
        return self._scheduler.registry.use(entry)

    # --- lighter items between two passes -------------------------------------------------------------------------------

    def _now(self) -> float:
        """Return the time in seconds of a clock that leaves out the time in which other items ran between the passes of the current one."""
        return time.monotonic() - self._in_between

    def _let_pass(self, below: int, quick: bool) -> bool:
        """Run one waiting item whose weight is less than ``below``, while the item that is being run pauses between two of its passes;
        return False if no such item waits. With ``quick`` an explanation gets a short turn.
        """
        task = self._scheduler.take(below, self._has_room)
        if task is None:
            return False
        before, began = self._in_between, time.monotonic()
        self._do(task, quick)
        self._in_between = before + time.monotonic() - began
        return True

    def _watch(
        self, limit_passed: Callable[[], Problem | None], is_unwanted: Callable[[], bool] = lambda: False, longest: float | None = None
    ) -> Watch:
        """Return the watch of a request: a function from the seconds for which the host has been silent to a Problem, if the host is to be
        killed for it, or to None.

        It returns a Problem after ``longest`` seconds (None: as the settings say), and after ``GRACE`` seconds if ``is_unwanted()`` is true
        or ``limit_passed()`` returns a Problem.
        """
        most = self._settings.silence_seconds if longest is None else longest

        def watch(silence: float) -> Problem | None:
            if self._scheduler.stopping and silence > _GRACE_AT_STOP:
                return interrupted()
            if silence > GRACE:
                if is_unwanted():
                    return Problem(
                        409, "cancelled", "Nobody waited for this any more, and the model did not stop by itself.", send="Ask again."
                    )
                if (problem := limit_passed()) is not None:
                    return problem
            if silence > most:
                detail = f"The model gave no sign of life for {most:g} seconds, and was ended."
                return Problem(503, "worker-hung", detail, send="Ask for less, or choose another model or other methods.")
            return None

        return watch

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
        self._loaded(study.entry)
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

        watch = self._watch(limit_passed, study.cancelled.is_set)
        answer = self._follow(StudyRequest(study.entry.name, task.work), watch, handle)
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
            outcome = None if is_short_beside or self._is_left(job.entry) else ("failed", problem)
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
        facts = self._loaded(job.entry)
        prepare(job, facts, self._costs)
        assert job.plan is not None
        if not job.is_running:
            document = job.begin(facts, job.plan)
            with suppress(Problem):  # a store that fails is no reason not to answer
                self._scheduler.store.save(document, key=job.key)

        def is_over() -> bool:
            return (quick and turn.used >= SLICE) or self._scheduler.should_yield(job, job.used + turn.used, self._has_room)

        def is_unwanted() -> bool:
            return job.cancelled.is_set() or job.stopped.is_set() or job.is_left

        def polled() -> bool:
            if (problem := turn.limit_passed()) is not None:
                raise problem
            return is_unwanted() or self._scheduler.stopping

        def cancelled() -> bool:
            return polled() or (turn.is_slow and self._let_pass(FEW_PASSES, quick=True) and polled())  # one thing between two passes

        turn = Turn(job, facts, self._settings, self._costs, self._scheduler.metrics, self._now, is_over, cancelled, quick)
        watch = self._watch(turn.limit_passed, is_unwanted)
        request = ExplainRequest(job.entry.name, job.question, job.plan.targets, job.left)
        self._follow(request, watch, turn.handle)
