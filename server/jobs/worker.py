"""One thread that owns the device: it loads models, explains and answers studies, one thing at a time, behind bounded queues.

Questions take turns. An explanation gives the device to another one after any of its methods: at once to a new one, else to the one that
had it for the shortest time; what it has made stays, and what is left is asked for in its next turn. A long study (the deletion test asks
a model hundreds of times) and a slow method let what is lighter pass: between two of their forward passes the thread does what has come in
meanwhile, and then goes on.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from explainers import Cancelled
from explainers.errors import ExplainerError, ran_out_of_memory
from explainers.models.threads import Threads
from server.http.metrics import Metrics
from server.http.problems import Problem, out_of_memory, unforeseen
from server.jobs.costs import COSTS_FILE, Costs
from server.jobs.job import Job
from server.jobs.model_registry import ModelEntry, ModelFacts, ModelRegistry, check_facts, facts_of
from server.jobs.model_source import ModelSource
from server.jobs.store import Store
from server.jobs.task_queue import EVERYTHING, SLICE, Task, TaskQueue
from server.jobs.tasks import FEW_PASSES, Study, free_memory, in_between, interrupted, problem_of, run_with_memory_retry
from server.jobs.turn import Turn, is_slow, prepare
from server.json_text import json_text
from server.settings import Settings

log = logging.getLogger(__name__)
_IDLE_BEAT = 5.0  # seconds between heart-beats with nothing to do
_SHORTEST_TURN = 1e-6  # seconds: whoever had a turn has begun
_MOST_SECONDS_OF_A_PASS = 120.0  # between two polls of the token; longer without one means that the worker hangs


def _in_public(error: ExplainerError, entry: ModelEntry) -> str:
    """What an error says, without the paths of a model that somebody brought."""
    return str(error) if entry.place is None else str(error).replace(str(entry.place), entry.place.name)


class Worker(threading.Thread):
    """The owner of one device. Web threads call ``submit``, ``study``, ``load``, ``cancel``, ``find``; nothing else touches a model."""

    def __init__(self, source: ModelSource, registry: ModelRegistry, store: Store, settings: Settings, metrics: Metrics) -> None:
        super().__init__(name="worker", daemon=True)
        self._source, self._registry, self._store, self._settings, self._metrics = source, registry, store, settings, metrics
        self._device = None if settings.device == "auto" else settings.device
        self._threads = Threads()
        self._change = threading.Condition(threading.RLock())
        self._queue = TaskQueue(self._ready, self._is_quick)
        self._live: dict[str, Job] = {}  # queued, running, and those that the store would not take
        self._running: list[Job] = []  # the one that has the device last: the others wait between two of their passes
        self._costs = Costs(settings.home / COSTS_FILE)
        self._in_between = 0.0  # seconds that were spent on other tasks between two passes of those that have begun
        self._stopping = False
        self._beat = time.monotonic()

    # --- for the web threads ---------------------------------------------------------------------------------------------

    def submit(self, job: Job) -> None:
        """Queue a job; raises Problem 429 where the queue is full."""
        with self._change:
            if self._stopping:
                raise interrupted()
            self._check_room(len(self._queue.jobs), "explanations")
            self._store.add(job.document(), job.images, job.question.image)
            self._live[job.id] = job
            self._queue.jobs.append(job)
            self._tell_positions()
            self._change.notify_all()

    def study(self, study: Study) -> None:
        """Queue a study, before the explanations that wait, a long one behind them; raises Problem 429 where too many studies wait."""
        with self._change:
            if self._stopping:
                raise interrupted()
            self._queue.studies = [study for study in self._queue.studies if not study.cancelled.is_set()]
            self._check_room(len(self._queue.studies), "studies")
            self._queue.studies.append(study)
            self._change.notify_all()

    def _check_room(self, waiting: int, what: str) -> None:
        if waiting >= self._settings.queue_size:
            raise Problem(
                429,
                "queue-full",
                f"{waiting} {what} are waiting already.",
                send="Send the same request again in a moment.",
                headers={"Retry-After": str(self._retry_after())},
            )

    def load(self, entry: ModelEntry) -> None:
        """Fetch the files of ``entry`` in a thread of their own (embedded ones are there), then load it in this thread."""
        if entry.embedded or entry.place is not None:
            self._load_soon(entry)
        else:
            threading.Thread(target=self._fetch, args=(entry,), name=f"fetch {entry.name}", daemon=True).start()

    def find(self, explanation_id: str) -> Job | None:
        """The job with this id, unless it has gone to the store."""
        with self._change:
            return self._live.get(explanation_id)

    def cancel(self, explanation_id: str) -> bool:
        """Drop a waiting job, or ask a running one to stop at the next pass; False where neither is there."""
        with self._change:
            job = self._live.get(explanation_id)
            if job is None or job.final:
                return False
            job.cancelled.set()
            is_waiting = job in self._queue.jobs
            if is_waiting:
                self._queue.jobs.remove(job)
            self._tell_positions()
        if is_waiting:
            self._finish(job, "cancelled")
        return True

    def stop_early(self, explanation_id: str) -> None:
        """End an explanation with the maps that are there; where there are none it is cancelled. One that is finished stays as it is."""
        with self._change:
            job = self._live.get(explanation_id)
            if job is None or job.final:
                return
            job.stopped.set()
            if job not in self._queue.jobs:
                return
            self._queue.jobs.remove(job)
            self._tell_positions()
        self._finish(job, *self._cut_short(job), seconds=job.used)

    def forget(self, explanation_id: str) -> bool:
        """Drop a finished job that the store would not take."""
        with self._change:
            return self._live.pop(explanation_id, None) is not None

    @property
    def depth(self) -> int:
        """How many explanations wait."""
        with self._change:
            return len(self._queue.jobs)

    @property
    def healthy(self) -> bool:
        """Whether the thread is alive and has been heard of lately."""
        return self.is_alive() and time.monotonic() - self._beat < _MOST_SECONDS_OF_A_PASS

    def stop(self) -> None:
        """End after the current pass; what is unfinished is marked as interrupted."""
        with self._change:
            self._stopping = True
            self._change.notify_all()
        self.join()

    # --- the thread ------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Load, answer and explain until stopped."""
        while (task := self._take()) is not None:
            self._do(task)
        self._costs.save()
        with self._change:
            left, self._queue.jobs = self._queue.jobs, []
            unanswered, self._queue.studies = self._queue.studies, []
        for study in unanswered:
            study.refuse(interrupted())
        for job in left:
            self._finish(job, "failed", interrupted())

    def _do(self, task: Task, quick: bool = False) -> None:
        if isinstance(task, ModelEntry):
            self._load(task)
        elif isinstance(task, Study):
            self._answer(task)
        else:
            self._explain(task, quick)

    def _take(self) -> Task | None:
        """Wait for something to do; None when the server stops."""
        with self._change:
            while True:
                self._beat = time.monotonic()
                self._threads.fit(None)
                if self._stopping:
                    return None
                if (task := self._next_task()) is not None:
                    return task
                self._change.wait(_IDLE_BEAT)

    def _next_task(self, below: int = EVERYTHING) -> Task | None:
        """What comes next; see :meth:`TaskQueue.take`."""
        task = self._queue.take(below)
        if isinstance(task, Job):
            self._running.append(task)
            self._tell_positions()
        return task

    def _is_quick(self, job: Job) -> bool:
        """Whether the next map of an explanation is there soon, as far as is known."""
        if job.entry.facts is None:
            return False
        try:
            prepare(job, job.entry.facts, self._costs)
        except Problem:
            return True  # it is said soon
        spec = job.next_of(job.left)
        return spec is None or not is_slow(spec, job, job.entry.facts)

    def _ready(self, entry: ModelEntry) -> bool:
        """Whether the model is loaded, or has failed to; it is loaded again where another took its room meanwhile."""
        if entry.state == "available":
            self.load(self._registry.begin_loading(entry))
        return entry.state in ("loaded", "failed")

    def _fetch(self, entry: ModelEntry) -> None:
        def progress(text: str, fraction: float | None = None) -> None:
            self._registry.tell(entry, "progress", {"text": text} if fraction is None else {"text": text, "fraction": fraction})

        try:
            self._source.fetch(entry.name, progress)
        except Exception as error:
            self._load_failed(entry, error)
        else:
            self._load_soon(entry)

    def _load_soon(self, entry: ModelEntry) -> None:
        self._registry.tell(entry, "progress", {"text": f"Loading {entry.name}"})
        with self._change:
            self._queue.loads.append(entry)
            self._change.notify_all()

    def _load(self, entry: ModelEntry) -> None:
        try:
            model = self._source.load(entry.name if entry.place is None else entry.place, self._device, **entry.ways)
            facts = facts_of(model)
            if model.kind == "clip":
                with suppress(ExplainerError):  # one whose text tower cannot be told has an image side alone
                    facts = replace(facts, text_side=facts_of(model.seen_from("text")))
            check_facts(facts)
            self._registry.loaded(entry, model, facts)
        except Exception as error:
            self._load_failed(entry, error)
        else:
            log.info("loaded %s on %s", entry.name, facts.device)

    def _load_failed(self, entry: ModelEntry, error: Exception) -> None:
        if ran_out_of_memory(error):
            log.warning("no memory to load %s", entry.name, exc_info=error)
            problem = out_of_memory(f"{entry.name} needs more memory than there is.", "Choose a smaller model, or try again later.")
        elif isinstance(error, ExplainerError):
            log.warning("%s could not be loaded: %s", entry.name, error)
            problem = Problem(422, "model-failed", _in_public(error, entry), send="Choose another model, or try again.")
        else:
            problem = unforeseen(error, f"Loading {entry.name}", "model-failed", send="Choose another model, or try again.")
        failure = error.report() if isinstance(error, ExplainerError) and entry.place is not None else None
        self._registry.failed(entry, problem, failure)
        free_memory()
        with self._change:
            self._change.notify_all()  # the jobs that wait for it fail now

    def _polled(self, is_unwanted: Callable[[], bool], model: Any) -> Callable[[], bool]:
        """Says between two passes whether to stop, and that the thread lives; chooses the number of CPU threads for the next pass."""

        def cancelled() -> bool:
            self._beat = time.monotonic()
            self._threads.fit(model)
            return is_unwanted() or self._stopping

        return cancelled

    def _now(self) -> float:
        """Seconds of a clock that stands still for a task while others are done between two of its passes."""
        return time.monotonic() - self._in_between

    def _let_pass(self, below: int, quick: bool) -> bool:
        """Between two passes of something: do one thing that may go first. False where there is none."""
        with self._change:
            task = self._next_task(below)
        if task is None:
            return False
        before, began = self._in_between, time.monotonic()
        with in_between():
            self._do(task, quick)
        self._in_between = before + time.monotonic() - began
        return True

    def _letting_pass(self, study: Study, model: Any) -> Callable[[], bool]:
        """As :meth:`_polled` for a study; between two passes of a long one the thread first does what is lighter and has come in."""
        cancelled = self._polled(study.cancelled.is_set, model)
        if not study.is_long:
            return cancelled

        def others_first() -> bool:
            while not cancelled():
                if not self._let_pass(study.weight, quick=study.weight <= FEW_PASSES):
                    return False
            return True

        return others_first

    def _answer(self, study: Study) -> None:
        if not study.future.set_running_or_notify_cancel():
            return
        answers: list[dict[str, Any]] = []
        try:
            model, facts = self._loaded(study.entry)
            if study.kind and (seconds := self._costs.seconds(study.entry.name, study.kind, 0)) is not None:
                study.expect(seconds)
            began, cancelled = self._now(), self._letting_pass(study, model)
            send = "Ask for less at once, or explain a shorter text."
            run_with_memory_retry(lambda: answers.append(study.work(model, cancelled, study.tell)), study.entry.name, facts.device, send)
            json_text(answers[-1])  # it can be sent
            if study.kind:
                self._costs.note(study.entry.name, study.kind, self._now() - began, 0)
        except Cancelled:
            study.future.set_exception(interrupted())
        except Exception as error:
            study.future.set_exception(problem_of(error, "study", "cannot-answer"))
        else:
            study.future.set_result(answers[-1])

    def _loaded(self, entry: ModelEntry) -> tuple[Any, ModelFacts]:
        """The model and what is known of it; raises the Problem with which it failed to load."""
        if entry.state == "failed" and entry.problem is not None:
            raise entry.problem
        return self._registry.take(entry)

    def _explain(self, job: Job, quick: bool) -> None:
        """Give an explanation its turn; where it is not done, it waits for the next one."""
        began = self._now()
        outcome: tuple[str, Problem | None] | None = ("done", None)
        try:
            if not job.is_left:
                self._run(job, quick)
            if job.plan is None or (job.left and (job.is_left or job.stopped.is_set())):
                outcome = self._cut_short(job)
            elif job.left:
                outcome = None
        except Cancelled:
            outcome = ("failed", interrupted()) if self._stopping else self._cut_short(job)
        except Exception as error:
            outcome = ("failed", problem_of(error, "explanation", "cannot-explain"))
        job.used += max(self._now() - began, _SHORTEST_TURN)
        if outcome is None:
            with self._change:
                self._running.remove(job)
                if not job.cancelled.is_set():  # it may be so since its last pass
                    self._queue.jobs.append(job)
                    self._tell_positions()
                    return
            outcome = ("cancelled", None)
        self._metrics.job(outcome[0], job.used)
        self._finish(job, *outcome, seconds=job.used)

    def _cut_short(self, job: Job) -> tuple[str, Problem | None]:
        """How an explanation ends that is not to go on: with the maps that are there, if anybody wanted these."""
        return ("done", None) if not job.cancelled.is_set() and job.cut_short() else ("cancelled", None)

    def _run(self, job: Job, quick: bool) -> None:
        model, facts = self._loaded(job.entry)
        prepare(job, facts, self._costs)
        assert job.plan is not None
        if not job.has_begun:
            self._store.save(job.running(facts, job.plan), key=job.key)
        began = self._now()

        def is_over() -> bool:
            used = self._now() - began
            return (quick and used >= SLICE) or self._should_yield(job.used + used)

        turn = Turn(job, self._settings, self._costs, self._now, is_over, quick)
        polled = self._polled(lambda: job.cancelled.is_set() or job.stopped.is_set() or job.is_left, model)

        def cancelled() -> bool:
            return polled() or (turn.is_slow and self._let_pass(FEW_PASSES, quick=True) and polled())  # one thing between two passes

        send = "Ask for fewer methods at once, for fewer targets, or for a shorter text."
        run_with_memory_retry(lambda: turn.run(model, facts, cancelled), job.entry.name, facts.device, send)

    def _should_yield(self, used: float) -> bool:
        """Whether after a method of an explanation that had the device for so long another task goes on."""
        with self._change:
            return self._queue.goes_before(used)

    def _finish(self, job: Job, state: str, problem: Problem | None = None, seconds: float | None = None) -> None:
        document = job.finished(state, problem, seconds)
        is_stored = True
        try:
            self._store.save(document, job.images, job.key)
            if (title := job.document().get("title")) != document.get("title"):
                self._store.rename(job.id, title)  # it was named in between
        except Exception as error:  # whatever it is, the worker goes on
            log.error("explanation %s could not be stored", job.id, exc_info=error)
            is_stored = False  # it stays in memory until the server stops
        with self._change:
            if job in self._running:
                self._running.remove(job)
            if is_stored:
                self._live.pop(job.id, None)
        job.end()

    def _tell_positions(self) -> None:
        """An explanation that was cancelled stops at its next pass, and is before nobody."""
        self._queue.tell_positions(any(not job.cancelled.is_set() for job in self._running))

    def _retry_after(self) -> int:
        """Seconds until there is likely to be room: what one explanation has taken so far."""
        return max(1, round(self._metrics.mean_job_seconds()))
