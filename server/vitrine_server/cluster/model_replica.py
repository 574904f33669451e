"""One of several processes that make explanations of a shared store: the worker of one machine, which takes them from the store.

Each replica queues everything in the store that waits for a model it has loaded, so that the queue of one machine decides what runs next:
the order in which explanations reach the processes does not matter. An explanation is claimed when its first turn begins; the other
replicas then drop it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from vitrine_server.cluster.replicas import FactsRequest, MakeRequest, ReplicaRequest
from vitrine_server.http.metrics import GaugeValues, Metrics
from vitrine_server.http.problems import Problem
from vitrine_server.jobs.catalogue.device_gauges import gauges_by_device
from vitrine_server.jobs.catalogue.model_registry import ModelEntry, ModelRegistry
from vitrine_server.jobs.catalogue.model_source import ModelSource, open_options_of
from vitrine_server.jobs.failures import interrupted
from vitrine_server.jobs.feed import event
from vitrine_server.jobs.queue.job import Job
from vitrine_server.jobs.queue.study import Study, Task
from vitrine_server.jobs.queue.worker import MakeHost, Worker
from vitrine_server.jobs.recovery import job_of
from vitrine_server.settings import Settings
from vitrine_server.store.shared_store import MOST_ATTEMPTS, SharedStore

log = logging.getLogger(__name__)
BEAT_SECONDS = 2.0  # seconds between two claims of what is worked at
_LOOK_SECONDS = 0.25  # seconds between two looks for what waits, and between two writes of what is made


@dataclass
class _Saved:
    """What the store has of a claimed explanation: the names of its files, and the number of its maps (-1: no answer yet)."""

    files: set[str]
    maps: int = -1


class ModelReplica:
    """A process of the cluster that makes explanations and answers studies with the models of ``source``. Each finished map is written to
    the store. Its coroutines may run concurrently; its worker does one thing at a time. Which models it keeps in memory its host decides,
    as on one machine (:class:`vitrine_server.jobs.host.residency.Residency`); one that has left is loaded again for the next request.
    """

    def __init__(self, settings: Settings, store: SharedStore, source: ModelSource, make_host: MakeHost) -> None:
        self._settings, self._store = settings, store
        self._registry = ModelRegistry(source.catalogue)
        self.worker = Worker(source, self._registry, store, settings, Metrics(), [make_host], claim=self._claim)
        self._claimed: dict[str, _Saved] = {}  # by the id of the explanation
        self._queueing = threading.Lock()  # two threads must not queue the same explanation
        self._ended = threading.Event()
        self._beat = threading.Thread(target=self._beat_until_end, name="claims", daemon=True)
        self.worker.start()
        self._beat.start()

    # --- models ------------------------------------------------------------------------------------------------------------

    async def bring(self, name: str) -> ModelEntry:
        """Load the model ``name`` unless it is loaded, and return its entry. Raises the Problem with which it failed to load."""
        entry = self._registry.ask(name, self.worker.load, trusted=True, open_options=open_options_of(name, self._settings))
        async for _ in entry.feed.follow():
            pass
        if entry.has_failed and entry.problem is not None:
            raise entry.problem
        return entry

    def gauges(self) -> list[GaugeValues]:
        """Return the gauges of the memory of the device and of the models on it."""
        return gauges_by_device(self._registry.residents, self._registry.budgets)

    # --- requests ----------------------------------------------------------------------------------------------------------

    async def ask(self, name: str, request: ReplicaRequest) -> AsyncIterator[tuple[str, Any]]:
        """Yield the answers to ``request``, about the model ``name``, as (kind, value): see
        :class:`vitrine_server.cluster.replicas.Replicas`.
        """
        match request:
            case FactsRequest():
                while (facts := (await self.bring(name)).facts) is None:
                    pass  # it has made room for another one since
                yield "done", facts
            case MakeRequest(explanation_id):
                await self._explain(explanation_id)
                yield "done", None
            case Task():
                study = Study(await self.bring(name), request)
                study.on_begin = lambda: study.feed.publish(event(0, "begun", {}))
                self.worker.study(study)
                try:
                    async for notice in study.feed.follow():
                        if notice.name not in ("done", "failed"):
                            yield notice.name, json.loads(notice.data)
                    problem = study.future.exception()
                    yield ("done", study.future.result()) if problem is None else ("failed", problem)
                finally:
                    study.cancel()

    # --- explanations ------------------------------------------------------------------------------------------------------

    async def _explain(self, explanation_id: str) -> None:
        """Queue the stored explanation with this id; return once it has ended here, or another process has claimed it."""
        documents = dict(await asyncio.to_thread(self._store.takeable))
        if explanation_id in documents:
            await asyncio.to_thread(self._queue, documents[explanation_id])
        while self.worker.find(explanation_id) is not None:
            await asyncio.sleep(_LOOK_SECONDS)

    def _queue(self, document: dict[str, Any]) -> None:
        """Queue the stored explanation ``document`` unless it is queued here already; if it cannot be made, store it as failed."""
        with self._queueing:
            if self._ended.is_set() or self.worker.find(document["id"]) is not None:
                return
            try:
                self.worker.resume(job_of(document, self._store, self._registry))
            except (Problem, ValueError, TypeError) as error:
                log.warning("explanation %s cannot be made: %s", document["id"], error)
                if self._store.claim(document["id"]) is not None:
                    self._fail(document)

    def _queue_waiting(self) -> None:
        """Queue what waits in the store for a model that is loaded here, and drop what other processes have claimed."""
        models = {entry.name for entry in self._registry.all() if entry.state == "loaded"}
        here = {job.id for job in self.worker.live()}
        takeable = dict(self._store.takeable())
        for explanation_id in here - takeable.keys() - self._claimed.keys():
            self.worker.withdraw(explanation_id)
        for explanation_id in takeable.keys() - here:
            if takeable[explanation_id].get("model") in models:
                self._queue(takeable[explanation_id])

    def _claim(self, job: Job) -> bool:
        """Claim the explanation of ``job`` in the store, when its turn on the device begins first; return True if that succeeds. Return
        False if another process has claimed it, or if it was begun so often that it counts as failed.
        """
        if self._ended.is_set():
            return False
        try:
            attempts = self._store.claim(job.id)
        except Problem:  # a store that is away: it is queued again once it is back
            return False
        if attempts is None:
            return False
        if attempts <= MOST_ATTEMPTS:
            self._claimed[job.id] = _Saved(set(job.images))
            return True
        log.warning("explanation %s was begun %d times, and may be why: it has failed", job.id, MOST_ATTEMPTS)
        self._fail(job.document())
        return False

    def _fail(self, document: dict[str, Any]) -> None:
        """Store the claimed explanation ``document`` as failed: it was interrupted."""
        with suppress(Problem):  # a store that is away: the claim ends, and the next process tries again
            self._store.save({**document, "state": "failed", "problem": interrupted().to_json()})

    def _save_progress(self) -> None:
        """Store the answers and maps that have been made since the last call."""
        live = {job.id: job for job in self.worker.live()}
        for explanation_id in [known for known in self._claimed if known not in live]:
            del self._claimed[explanation_id]
        for explanation_id, saved in list(self._claimed.items()):
            job = live[explanation_id]
            document = job.document()
            if "targets" not in document or len(document["maps"]) == saved.maps or job.final:
                continue
            new = {name: data for name, data in dict(job.images).items() if name not in saved.files}
            self._store.save(document, new, job.key)
            saved.maps = len(document["maps"])
            saved.files |= set(new)

    def _beat_until_end(self) -> None:
        pause, renewed = _LOOK_SECONDS, float("-inf")
        while not self._ended.wait(min(pause, BEAT_SECONDS)):
            try:
                if time.monotonic() - renewed >= BEAT_SECONDS:
                    claimed = set(self._claimed)  # before it is asked what is claimed: of these each is
                    self._apply_wishes(claimed, self._store.renew())
                    renewed = time.monotonic()
                self._queue_waiting()
                self._save_progress()
                pause = _LOOK_SECONDS
            except Exception as error:  # whatever it is: the next beat tries again, and without a claim others take what is here
                log.error("the store could not be asked what waits, nor told what is made here", exc_info=error)
                pause = BEAT_SECONDS

    def _apply_wishes(self, claimed: set[str], wishes: dict[str, dict[str, Any]]) -> None:
        """Apply the wishes of visitors (cancel, stop, order) to claimed explanations, and cancel those whose claim this
        process has lost.
        """
        for job in self.worker.live():
            if job.id not in claimed:
                continue
            wish = wishes.get(job.id, {"end": "cancel"})
            if "order" in wish:
                job.put_first(wish["order"])
            if wish.get("end") == "cancel":
                self.worker.cancel(job.id)
            elif wish.get("end") == "stop":
                self.worker.stop_early(job.id)

    @property
    def healthy(self) -> bool:
        """True if the worker and the thread that renews the claims make progress."""
        return self.worker.healthy and self._beat.is_alive()

    def stop(self) -> None:
        """Stop after the current pass, and release unfinished explanations for other processes."""
        if self._ended.is_set():
            return
        self._ended.set()
        self.worker.stop()
        self._beat.join()
        with suppress(Problem):  # else the claims end by themselves
            self._store.release()
