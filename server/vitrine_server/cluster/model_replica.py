"""One of several processes that make explanations of a shared store: this machine's worker, which is sent the ids of explanations."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from vitrine_server.http.metrics import Metrics
from vitrine_server.http.problems import Problem
from vitrine_server.http.visitors import Visitor
from vitrine_server.jobs.catalogue.model_facts import ModelFacts
from vitrine_server.jobs.catalogue.model_registry import ModelEntry, ModelRegistry
from vitrine_server.jobs.catalogue.model_source import ModelSource, open_options_of
from vitrine_server.jobs.failures import interrupted
from vitrine_server.jobs.host.work import Work
from vitrine_server.jobs.queue.job import Job
from vitrine_server.jobs.queue.study import Study
from vitrine_server.jobs.queue.worker import MakeHost, Worker
from vitrine_server.jobs.recovery import job_of
from vitrine_server.settings import Settings
from vitrine_server.store.shared_store import MOST_ATTEMPTS, SharedStore

log = logging.getLogger(__name__)
BEAT_SECONDS = 2.0  # seconds between two claims of what is worked at
_NO_LIMIT = 2**31  # which models make room is decided outside


class ModelReplica:
    """A process of the cluster that makes explanations and answers studies. Each finished map is written to the store. Its coroutines may
    run concurrently; its worker does one thing at a time.
    """

    def __init__(self, settings: Settings, store: SharedStore, source: ModelSource, make_host: MakeHost) -> None:
        self._settings, self._store = settings, store
        self._registry = ModelRegistry(source.catalogue, _NO_LIMIT)
        self.worker = Worker(source, self._registry, store, settings, Metrics(), make_host)
        self._unwanted: set[str] = set()  # models that make room once nothing asks them
        self._ended = threading.Event()
        self._beat = threading.Thread(target=self._beat_until_end, name="claims", daemon=True)
        self.worker.start()
        self._beat.start()

    # --- models ------------------------------------------------------------------------------------------------------------

    async def bring(self, name: str) -> ModelEntry:
        """Load a model unless it is loaded, and return its entry. Raises the Problem with which it failed to load."""
        self._unwanted.discard(name)
        entry = self._registry.ask(name, self.worker.load, trusted=True, open_options=open_options_of(name, self._settings))
        async for _ in entry.feed.follow():
            pass
        if entry.has_failed and entry.problem is not None:
            raise entry.problem
        return entry

    def drop(self, name: str) -> None:
        """Release the memory of a model once nothing uses it any more."""
        self._unwanted.add(name)
        self._make_room()

    def _make_room(self) -> None:
        in_use = {job.entry.name for job in self.worker.live()}
        for name in list(self._unwanted):
            if name not in in_use:
                self._unwanted.discard(name)
                self._registry.release(name)

    async def facts(self, name: str) -> ModelFacts:
        """Return the facts about a model, after loading it if need be. Raises the Problem with which it failed to load."""
        return self._registry.use(await self.bring(name))

    # --- explanations ------------------------------------------------------------------------------------------------------

    async def explain(self, explanation_id: str) -> None:
        """Make an explanation, from what the store has of it to its end; do nothing if another process has claimed it."""
        attempts = await asyncio.to_thread(self._store.claim, explanation_id)
        if attempts is None:
            return
        job = await asyncio.to_thread(self._begin, explanation_id, attempts)
        if job is None:
            return
        kept, count = set(job.images), -1
        async for event in job.feed.follow():
            document = job.document()
            if event.name in ("started", "method") and len(document["maps"]) > count and not job.final:
                count, files = len(document["maps"]), dict(job.images)
                with suppress(Problem):  # a store that is away: at its end it is tried again until it is stored
                    new = {name: data for name, data in files.items() if name not in kept}
                    await asyncio.to_thread(self._store.save, document, new, job.key)
                    kept.update(new)

    def _begin(self, explanation_id: str, attempts: int) -> Job | None:
        """Queue an explanation and return its job; if that fails, store it as failed and return None."""
        document = self._store.document(explanation_id)
        if document is None:
            return None
        try:
            if attempts <= MOST_ATTEMPTS:
                job = job_of(document, self._store, self._registry)
                self.worker.resume(job)
                return job
            log.warning("explanation %s was begun %d times, and may be why: it has failed", explanation_id, MOST_ATTEMPTS)
        except (Problem, ValueError, TypeError) as error:
            log.warning("explanation %s cannot be made: %s", explanation_id, error)
        self._store.save({**document, "state": "failed", "problem": interrupted().to_json()})
        return None

    def _beat_until_end(self) -> None:
        while not self._ended.wait(BEAT_SECONDS):
            try:
                live = self.worker.live()  # before it is asked what is claimed: of these each is
                self._apply_wishes(live, self._store.renew())
                self._make_room()
            except Exception as error:  # whatever it is: the next beat tries again, and without a claim others take what is here
                log.error("the claims of the current explanations could not be renewed", exc_info=error)

    def _apply_wishes(self, live: list[Job], wishes: dict[str, dict[str, Any]]) -> None:
        """Apply the wishes of visitors (cancel, stop, order) to claimed explanations, and cancel those whose claim this
        process has lost.
        """
        for job in live:
            wish = wishes.get(job.id, {"end": "cancel"})
            if "order" in wish:
                job.put_first(wish["order"])
            if wish.get("end") == "cancel":
                self.worker.cancel(job.id)
            elif wish.get("end") == "stop":
                self.worker.stop_early(job.id)

    # --- studies -----------------------------------------------------------------------------------------------------------

    async def answer(self, name: str, work: Work, is_long: bool, weight: int, kind: str, owner: str) -> AsyncIterator[tuple[str, Any]]:
        """Run a study and yield its events: (name, data), the last ``done`` with the answer or ``failed`` with the Problem.

        The study is cancelled when the caller stops iterating. Raises Problem 429 if too many wait.
        """
        study = Study(await self.bring(name), work, is_long, weight, kind, Visitor(owner, owner))
        self.worker.study(study)
        try:
            async for event in study.feed.follow():
                if event.name not in ("done", "failed"):
                    yield event.name, json.loads(event.data)
            problem = study.future.exception()
            yield ("done", study.future.result()) if problem is None else ("failed", problem)
        finally:
            study.cancel()

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
