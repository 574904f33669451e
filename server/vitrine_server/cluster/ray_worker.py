"""The worker of a cluster, as web processes use it: it stores questions, sends their ids to the replicas, and reads the store."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any

from vitrine_server.cluster.replicas import FactsRequest, MakeRequest, ReplicaRequest, Replicas
from vitrine_server.http.problems import Problem
from vitrine_server.jobs import explanation_events
from vitrine_server.jobs.catalogue.model_registry import ModelEntry, ModelRegistry
from vitrine_server.jobs.failures import interrupted
from vitrine_server.jobs.feed import Event, event
from vitrine_server.jobs.queue.admission import check_room
from vitrine_server.jobs.queue.job import Job
from vitrine_server.jobs.queue.study import Study
from vitrine_server.settings import Settings
from vitrine_server.store.shared_store import SharedStore
from vitrine_server.store.tables import FINAL

log = logging.getLogger(__name__)
BEAT_SECONDS = 2.0  # seconds between two looks for what is abandoned
_POLL_SECONDS = 0.25  # seconds between two looks of a follower at the store
_TIDY_SECONDS = 60.0
_STUCK_SECONDS = 60.0


class RayWorker:
    """The worker on a cluster of Ray: it stores explanations, sends their ids to replicas, and reads their events from the store. See
    :class:`vitrine_server.jobs.queue.worker_interface.WorkerInterface`.

    Who may enter the queue is decided by the code of one machine, :func:`vitrine_server.jobs.queue.admission.check_room`: of explanations
    by all that wait in the store, of studies by those that wait in this process.
    """

    def __init__(self, replicas: Replicas, registry: ModelRegistry, store: SharedStore, settings: Settings, most_sent: int = 8) -> None:
        """``registry`` holds the models; ``most_sent`` is the number of explanations for which replicas are called at once; the others
        wait, and a replica that has their model finds them in the store.
        """
        self.stopping = False
        self._replicas, self._registry, self._store, self._settings = replicas, registry, store, settings
        self._sent: set[str] = set()  # explanations that wait here for a replica, or that one makes
        self._tickets = asyncio.Semaphore(most_sent)
        self._waiting: dict[Study, float] = {}  # studies that have not begun, and when they came
        self._tasks: set[asyncio.Task[None]] = set()
        self._lock = threading.Lock()  # of ``_waiting``
        self._beaten = self._tidied = time.monotonic()

    def start(self) -> None:
        """Start to look for abandoned explanations, in the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._begin(self._look_after)

    def stop(self) -> None:
        """Stop looking for abandoned explanations; other processes continue."""
        self.stopping = True
        for task in list(self._tasks):
            self._loop.call_soon_threadsafe(task.cancel)

    def _begin(self, work: Callable[..., Coroutine[Any, Any, None]], *arguments: Any) -> None:
        """Start ``work(*arguments)`` as a task outside of the context of the current request, since Ray Serve would cancel it together with
        the request.
        """

        def begin() -> None:
            task = self._loop.create_task(work(*arguments))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        self._loop.call_soon_threadsafe(begin, context=contextvars.Context())

    # --- explanations ------------------------------------------------------------------------------------------------------

    def submit(self, job: Job) -> None:
        """Store the explanation of ``job`` and send it to a replica. Raises Problem 429 if too many wait in the whole cluster, 503 while
        the server stops.
        """
        if self.stopping:
            raise interrupted()
        waiting, now = self._store.waiting(), datetime.now(UTC)
        waits = [(now - datetime.fromisoformat(created)).total_seconds() for _, created in waiting if created is not None]
        check_room(self._settings, [visitor for visitor, _ in waiting], job.visitor, "explanations", waits)
        self._store.add(job.document(), job.images, job.question.image, job.visitor.owner, job.visitor)
        self._begin(self._send, job.id, job.entry.name)

    async def _send(self, explanation_id: str, model: str) -> None:
        if explanation_id in self._sent:
            return
        self._sent.add(explanation_id)
        try:
            async with self._tickets:
                await self._result(model, MakeRequest(explanation_id))
        except Exception as error:  # it is in the store, and is sent again once nobody has it
            log.warning("explanation %s is sent again: %s", explanation_id, str(error).partition("\n")[0])
        finally:
            self._sent.discard(explanation_id)

    async def _look_after(self) -> None:
        """Until the process ends, renew the hold on explanations that it has sent, and send them again if their replica no longer
        exists.
        """
        while not self.stopping:
            try:
                await asyncio.to_thread(self._store.hold, list(self._sent))
                for explanation_id, document in await asyncio.to_thread(self._store.list_abandoned):
                    if "model" in document:
                        self._begin(self._send, explanation_id, document["model"])
                    else:
                        await asyncio.to_thread(self._store.end_waiting, explanation_id, "failed", interrupted().to_json())
                if time.monotonic() - self._tidied > _TIDY_SECONDS:
                    self._tidied = time.monotonic()
                    await asyncio.to_thread(self._store.forget_old)
            except Exception as error:  # a store that is away: the next look tries again
                log.error("what is abandoned could not be looked for", exc_info=error)
            self._beaten = time.monotonic()
            await asyncio.sleep(BEAT_SECONDS)

    def cancel(self, explanation_id: str) -> bool:
        """Cancel the explanation with this id; return whether there was one to cancel."""
        return self._store.end_waiting(explanation_id, "cancelled") or self._store.ask(explanation_id, end="cancel")

    def stop_early(self, explanation_id: str) -> None:
        """End the explanation with this id with its finished maps, or cancel it if there are none."""
        if not self._store.end_waiting(explanation_id, "cancelled"):
            self._store.ask(explanation_id, end="stop")

    def put_first(self, explanation_id: str, specs: Sequence[str]) -> None:
        """Make the maps of ``specs`` before the others of the explanation with this id."""
        self._store.ask(explanation_id, order=list(specs))

    async def events(self, explanation_id: str, after: int = -1) -> AsyncIterator[Event]:
        """Yield the events of an explanation with an id above ``after``, to its end, by polling the store."""
        seen, position = None, None
        while True:
            stamp = await asyncio.to_thread(self._store.stamp, explanation_id)
            if stamp is None:
                return
            if after < 0 and (stamp[0] == "queued" or position is None):
                before = await asyncio.to_thread(self._store.count_before, explanation_id) if stamp[0] == "queued" else 0
                if before != position:
                    position = before
                    yield event(0, "queued", {"position": before})
            if stamp != seen:
                seen = stamp
                document = await asyncio.to_thread(self._store.document, explanation_id)
                if document is None:
                    return
                for entry in explanation_events.events_so_far(document):
                    if entry.id > max(after, 0):
                        after = entry.id
                        yield entry
                if document["state"] in FINAL:
                    return
            await asyncio.sleep(_POLL_SECONDS)

    def find(self, explanation_id: str) -> Job | None:
        """Return None for any explanation, since those of a cluster are in the store only."""
        return None

    def asked_about(self, explanation_id: str) -> None:
        """Do nothing: an explanation that nobody follows is made in any case."""

    def forget(self, explanation_id: str) -> bool:
        """Return False for any explanation, since this process keeps none."""
        return False

    # --- models and studies ------------------------------------------------------------------------------------------------

    def load(self, entry: ModelEntry) -> None:
        """Start to load the model of ``entry`` in a replica; returns at once."""
        self._begin(self._load, entry)

    async def _load(self, entry: ModelEntry) -> None:
        self._registry.tell(entry, "progress", {"text": f"Loading {entry.name_to_show}"})
        try:
            facts = await self._result(entry.name, FactsRequest())
        except Problem as problem:
            self._registry.failed(entry, problem)
        except Exception as error:
            log.error("%s could not be loaded", entry.name, exc_info=error)
            ended = Problem(503, "worker-ended", f"The replica that loaded {entry.name_to_show} has ended.", send="Try again.")
            self._registry.failed(entry, ended)
        else:
            self._registry.loaded(entry, facts)

    def study(self, study: Study) -> None:
        """Run a study in a replica. Raises Problem 429 if too many wait in this process."""
        if self.stopping:
            raise interrupted()
        with self._lock:
            self._waiting = {waiting: came for waiting, came in self._waiting.items() if not waiting.cancelled.is_set()}
            now = time.monotonic()
            waits = [now - came for came in self._waiting.values()]
            check_room(self._settings, [waiting.task.visitor for waiting in self._waiting], study.task.visitor, "studies", waits)
            self._waiting[study] = now
        study.future.add_done_callback(lambda _: self._has_begun(study))
        self._begin(self._answer, study)

    def _has_begun(self, study: Study) -> None:
        with self._lock:
            self._waiting.pop(study, None)

    async def _answer(self, study: Study) -> None:
        if not study.future.set_running_or_notify_cancel():
            return

        def tell(name: str, data: Any) -> None:
            if name == "begun":
                self._has_begun(study)
            elif name == "progress":
                study.tell(data["asked"], data["total"])
            elif name == "expected":
                study.expect(data["seconds"])

        asking = asyncio.ensure_future(self._result(study.entry.name, study.task, tell))
        while not asking.done():
            await asyncio.wait((asking,), timeout=_POLL_SECONDS)
            if study.cancelled.is_set():
                asking.cancel()
        if asking.cancelled():
            study.future.set_exception(
                Problem(409, "cancelled", "Nobody waits for this answer any more, so it was not computed.", send="Ask again.")
            )
        elif (error := asking.exception()) is not None:
            study.future.set_exception(error)
        else:
            study.future.set_result(asking.result())

    async def _result(self, model: str, request: ReplicaRequest, tell: Callable[[str, Any], None] = lambda name, data: None) -> Any:
        """Send ``request`` to a replica with the model and return its result; ``tell(name, data)`` is called with its other messages.
        Raises the Problem of a failed request, and other errors if the replica's process has ended.
        """
        async with aclosing(self._replicas.ask(model, request)) as messages:  # type: ignore[type-var]
            async for name, data in messages:
                if name == "done":
                    return data
                if name == "failed":
                    raise data
                tell(name, data)
        raise interrupted()

    @property
    def healthy(self) -> bool:
        """True if the search for abandoned explanations ran lately."""
        return time.monotonic() - self._beaten < _STUCK_SECONDS

    @property
    def depth(self) -> int:
        """The number of explanations that wait in the whole cluster."""
        return len(self._store.waiting())

    @property
    def memory(self) -> int:
        """Return 0, since the memory of the replicas is counted by Ray."""
        return 0
