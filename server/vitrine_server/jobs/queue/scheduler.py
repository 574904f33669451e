"""The scheduler: it queues explanations, studies and loads, decides which runs next, and stores what is finished. It is thread-safe."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress

from vitrine_server.http.metrics import Metrics
from vitrine_server.http.problems import Problem
from vitrine_server.http.visitors import Visitor
from vitrine_server.jobs.catalogue.model_registry import ModelEntry, ModelRegistry
from vitrine_server.jobs.failures import interrupted
from vitrine_server.jobs.feed import Event
from vitrine_server.jobs.host.interface import Host
from vitrine_server.jobs.queue.admission import check_room
from vitrine_server.jobs.queue.costs import Costs
from vitrine_server.jobs.queue.device_queue import EVERYTHING, DeviceQueue, HasRoom, WorkItem, always_has_room
from vitrine_server.jobs.queue.job import Job
from vitrine_server.jobs.queue.study import Study
from vitrine_server.jobs.queue.turn import is_slow, prepare
from vitrine_server.settings import Settings
from vitrine_server.store.store import Store

log = logging.getLogger(__name__)
_TIDY_SECONDS = 60.0  # between two looks for what is too old
_WAITS = 20  # the last waits, by which the next one is judged


class Scheduler:
    """The queue of a device, and the explanations that are not in the store yet.

    change    notified when the queue or ``stopping`` changes; its lock guards both
    stopping  True once the server stops
    hosts     those of all runners
    """

    def __init__(
        self,
        registry: ModelRegistry,
        store: Store,
        settings: Settings,
        metrics: Metrics,
        costs: Costs,
        claim: Callable[[Job], bool] = lambda _: True,
    ) -> None:
        """Make an empty queue of explanations with the models of ``registry``, kept in ``store``; ``costs`` estimate their seconds, and
        ``metrics`` count them. ``claim`` is called before the first turn of a job, where several processes queue the same explanations; it
        returns False if another one has taken this.
        """
        self._claim = claim
        self.registry, self.store, self.settings, self.metrics, self.costs = registry, store, settings, metrics, costs
        self.change = threading.Condition(threading.RLock())
        self.stopping = False
        self.hosts: Sequence[Host] = ()
        self._queue = DeviceQueue(self._ready, self._is_quick)
        self._live: dict[str, Job] = {}  # queued, running, and those that the store would not take
        self._unsaved: dict[str, Job] = {}  # finished, and the store would not take them
        self._running: list[Job] = []
        self._waits: deque[float] = deque(maxlen=_WAITS)
        self._tidied = float("-inf")

    # --- for the web threads ---------------------------------------------------------------------------------------------

    def submit(self, job: Job) -> None:
        """Store and queue ``job``, a new explanation. Raises Problem 429 if the queue, or the visitor's share of it, is full."""
        with self.change:
            self._check_open()
            self._check_room([other.visitor for other in self._queue.jobs if not other.has_begun], job.visitor, "explanations")
            self.store.add(job.document(), job.images, job.question.image, job.visitor.owner, job.visitor)
            self._enter(job)

    def resume(self, job: Job) -> None:
        """Queue a job that an earlier process of the server stored and did not finish."""
        with self.change:
            self._enter(job)

    def _enter(self, job: Job) -> None:
        self._live[job.id] = job
        self._queue.enter(job, self._running)
        self._tell_positions()
        self.change.notify_all()

    def study(self, study: Study) -> None:
        """Queue ``study``; raises Problem 429 if too many studies wait."""
        with self.change:
            self._check_open()
            self._queue.studies = [study for study in self._queue.studies if not study.cancelled.is_set()]
            self._check_room([other.task.visitor for other in self._queue.studies], study.task.visitor, "studies")
            self._queue.studies.append(study)
            self.change.notify_all()

    def _check_open(self) -> None:
        if self.stopping:
            raise interrupted()

    def _check_room(self, waiting: list[Visitor], visitor: Visitor, what: str) -> None:
        """Raise Problem 429 if the queue, ``waiting``, or the share of ``visitor`` in it is full, for a request of ``what``, see
        :func:`check_room`.
        """
        now = time.monotonic()
        waits = [*self._waits, *(now - job.waits_since for job in self._queue.jobs if not job.has_begun)]
        check_room(self.settings, waiting, visitor, what, waits)

    def find(self, explanation_id: str) -> Job | None:
        """Return the job with the id ``explanation_id``; None if it is stored completely or unknown."""
        with self.change:
            return self._live.get(explanation_id)

    def cancel(self, explanation_id: str) -> bool:
        """Remove the waiting job with the id ``explanation_id``, or ask it to stop at its next pass if it runs; return False if it does
        neither.
        """
        with self.change:
            job = self._live.get(explanation_id)
            if job is None or job.final:
                return False
            job.cancelled.set()
            is_waiting = job in self._queue.jobs
            if is_waiting:
                self._queue.jobs.remove(job)
            self._tell_positions()
        if is_waiting:
            self.finish(job, "cancelled")
        return True

    def stop_early(self, explanation_id: str) -> None:
        """End the explanation with this id with its finished maps, or cancel it if there are none. A finished one stays unchanged."""
        with self.change:
            job = self._live.get(explanation_id)
            if job is None or job.final:
                return
            job.stopped.set()
            if job not in self._queue.jobs:
                return
            self._queue.jobs.remove(job)
            self._tell_positions()
        self.finish(job, *cut_short(job), seconds=job.used)

    def live(self) -> list[Job]:
        """Return the jobs that are queued, running, or finished and not stored yet."""
        with self.change:
            return list(self._live.values())

    def events(self, explanation_id: str, after: int = -1) -> AsyncIterator[Event] | None:
        """Iterate over the events of the explanation with this id, those with numbers above ``after``, from past ones to its end; None if
        it is stored completely or unknown.
        """
        job = self.find(explanation_id)
        return None if job is None else job.feed.follow(after)

    def put_first(self, explanation_id: str, specs: Sequence[str]) -> None:
        """Set ``specs``, whose maps the explanation with this id makes first; nothing happens if it is not in memory."""
        if (job := self.find(explanation_id)) is not None:
            job.put_first(specs)

    def asked_about(self, explanation_id: str) -> None:
        """Note that a client asked for the explanation with this id without following its events, which keeps it from being dropped."""
        if (job := self.find(explanation_id)) is not None:
            job.feed.asked_about()

    def forget(self, explanation_id: str) -> bool:
        """Drop a finished job that could not be stored; return False if there is none with this id."""
        with self.change:
            self._unsaved.pop(explanation_id, None)
            return self._live.pop(explanation_id, None) is not None

    @property
    def depth(self) -> int:
        """The number of waiting explanations."""
        with self.change:
            return len(self._queue.jobs)

    # --- for the runners -------------------------------------------------------------------------------------------------

    def take(self, below: int = EVERYTHING, has_room: HasRoom = always_has_room) -> WorkItem | None:
        """Remove and return the next item of work whose weight is less than ``below`` and whose model has room by ``has_room``, or None,
        see :meth:`DeviceQueue.take`; an explanation then counts as running.
        """
        with self.change:
            task = self._queue.take(below, has_room)
            if isinstance(task, Job):
                self._running.append(task)
                if not task.has_begun:
                    wait = time.monotonic() - task.waits_since
                    self._waits.append(wait)
                    self.metrics.waited(wait)
                self._tell_positions()
            return task

    def loads_without_room(self, has_room: HasRoom) -> list[ModelEntry]:
        """Return the models to load that somebody waits for and that have no room now, by ``has_room``."""
        with self.change:
            return self._queue.loads_without_room(has_room)

    def load_soon(self, entry: ModelEntry) -> None:
        """Queue the loading of the model of ``entry``, whose files are on the disk."""
        self.registry.tell(entry, "progress", {"text": f"Loading {entry.name_to_show}"})
        with self.change:
            self._queue.loads.append(entry)
            self.change.notify_all()

    def load(self, entry: ModelEntry) -> None:
        """Begin to load the model of ``entry``; each kind of worker implements it."""
        raise NotImplementedError

    def load_failed(self, entry: ModelEntry, problem: Problem) -> None:
        """Mark the model of ``entry`` as failed to load with ``problem``; items that wait for it will fail when they are taken."""
        log.warning("%s could not be loaded: %s", entry.name, problem.detail)
        self.registry.failed(entry, problem)
        with self.change:
            self.change.notify_all()

    def may_begin(self, job: Job) -> bool:
        """Claim a job before its first turn; if another process has taken it, drop it and return False."""
        if job.has_begun or self._claim(job):
            return True
        with self.change:
            self._running.remove(job)
            self._drop(job)
        return False

    def withdraw(self, explanation_id: str) -> None:
        """Drop the waiting job with this id, because another process makes its explanation; a job that has been taken from the queue
        already stays.
        """
        with self.change:
            job = self._live.get(explanation_id)
            if job in self._queue.jobs:
                self._queue.jobs.remove(job)
                self._drop(job)

    def _drop(self, job: Job) -> None:
        """Forget a job whose explanation another process makes, and close its feed without a last event."""
        self._live.pop(job.id, None)
        self._tell_positions()
        job.feed.close()

    def should_yield(self, job: Job, used: float, has_room: HasRoom = always_has_room) -> bool:
        """Return whether ``job``, a running explanation that has used the device for ``used`` seconds, should let another item run, whose
        model has room by ``has_room``.
        """
        with self.change:
            return self._queue.goes_before(job, used, has_room)

    def note(self, job: Job, seconds: float) -> None:
        """Add ``seconds`` of the device to the account of the visitor of ``job``."""
        with self.change:
            self._queue.note(job.visitor, seconds)

    def put_back(self, job: Job) -> bool:
        """Queue a running job for its next turn; return False if it was cancelled meanwhile."""
        with self.change:
            self._running.remove(job)
            if job.cancelled.is_set():
                return False
            self._queue.jobs.append(job)
            self._tell_positions()
            self.change.notify_all()
            return True

    def finish(self, job: Job, state: str, problem: Problem | None = None, seconds: float | None = None) -> None:
        """Set the final ``state`` of ``job``, with its ``problem`` and the ``seconds`` that it took, store it, and publish its last
        event.
        """
        job.finish(state, problem, seconds)
        is_stored = self._save(job)
        with self.change:
            if job in self._running:
                self._running.remove(job)
            if is_stored:
                self._live.pop(job.id, None)
            else:
                self._unsaved[job.id] = job
        job.end()

    def _save(self, job: Job) -> bool:
        document = job.document()
        try:
            self.store.save(document, job.images, job.key)
            if (title := job.document().get("title")) != document.get("title"):
                self.store.rename(job.id, title)  # it was named in between
        except Exception as error:  # whatever it is, the worker goes on
            log.error("explanation %s could not be stored: it stays in memory until it can", job.id, exc_info=error)
            return False
        return True

    def tidy_store(self) -> None:
        """Retry to store finished jobs that could not be stored, and once a minute delete explanations that are too old."""
        self.save_again()
        if time.monotonic() - self._tidied > _TIDY_SECONDS:
            self._tidied = time.monotonic()
            self.store.forget_old()

    def save_again(self) -> None:
        """Retry to store the jobs that could not be stored."""
        with self.change:
            unsaved = list(self._unsaved.values())
        for job in unsaved:
            if not self._save(job):
                return
            self.forget(job.id)

    def drain(self) -> None:
        """Empty the queue when the server stops: explanations stay in the store as queued, and their feeds close without a last event;
        studies get the problem "interrupted".
        """
        with self.change:
            left, self._queue.jobs = self._queue.jobs, []
            unanswered, self._queue.studies = self._queue.studies, []
        for study in unanswered:
            study.refuse(interrupted())
        for job in left:
            with suppress(Problem):  # that nothing can be stored: it is there as it was taken
                self.store.save({**job.document(), "state": "queued"})
            job.feed.close()
        self.save_again()

    def _ready(self, entry: ModelEntry) -> bool:
        """Return whether the model of ``entry`` is loaded or failed to load. A model that was dropped from memory is queued for loading
        again.
        """
        if entry.state == "available":
            self.load(self.registry.begin_loading(entry))
        return entry.state == "loaded" or entry.has_failed

    def _is_quick(self, job: Job) -> bool:
        """Return whether the next map of a job is estimated to be quick; False if the model's facts are unknown."""
        if job.entry.facts is None:
            return False
        try:
            prepare(job, job.entry.facts, self.costs)
        except Problem:
            return True  # it is said soon
        spec = job.next_of(job.left)
        return spec is None or not is_slow(spec, job, job.entry.facts)

    def _tell_positions(self) -> None:
        """Publish the positions of new jobs. A cancelled job, which stops at its next pass, does not count as running."""
        self._queue.tell_positions(any(not job.cancelled.is_set() for job in self._running))


def cut_short(job: Job) -> tuple[str, Problem | None]:
    """Return the final state and problem of a job that is stopped: "done" with its finished maps, or "cancelled" if it was cancelled or has
    none.
    """
    return ("done", None) if not job.cancelled.is_set() and job.cut_short() else ("cancelled", None)
