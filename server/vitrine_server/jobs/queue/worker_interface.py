"""The interface of workers, as the web threads use it: one for this machine, one for a cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from vitrine_server.jobs.catalogue.model_registry import ModelEntry
from vitrine_server.jobs.feed import Event
from vitrine_server.jobs.queue.job import Job
from vitrine_server.jobs.queue.study import Study


class WorkerInterface(Protocol):
    """The methods that web threads call on :class:`vitrine_server.jobs.queue.worker.Worker` or
    :class:`vitrine_server.cluster.ray_worker.RayWorker`, from any thread.

    stopping  True once the server stops
    """

    stopping: bool

    def submit(self, job: Job) -> None:
        """Store and queue the new explanation of ``job``. Raises Problem 429 if too many wait."""

    def cancel(self, explanation_id: str) -> bool:
        """Cancel the explanation with this id, now or at its next pass; return False if it has ended or is unknown."""

    def events(self, explanation_id: str, after: int = -1) -> AsyncIterator[Event] | None:
        """Iterate over the events of the explanation with this id, those with numbers above ``after``, past ones first, to its end; None if
        it is stored completely.
        """

    def load(self, entry: ModelEntry) -> None:
        """Begin to load the model of ``entry``; its state in the registry shows the result."""

    # --- what comes besides ------------------------------------------------------------------------------------------------

    def study(self, study: Study) -> None:
        """Queue ``study``. Raises Problem 429 if too many wait."""

    def stop_early(self, explanation_id: str) -> None:
        """End the explanation with this id with its finished maps, or cancel it if there are none."""

    def put_first(self, explanation_id: str, specs: Sequence[str]) -> None:
        """Make the maps of ``specs`` before the others of the explanation with this id."""

    def find(self, explanation_id: str) -> Job | None:
        """Return the explanation with this id if this process has it in memory; None if the store has all of it."""

    def asked_about(self, explanation_id: str) -> None:
        """Note that a client asked for the explanation with this id without following its events, which keeps it from being dropped."""

    def forget(self, explanation_id: str) -> bool:
        """Drop a finished explanation that could not be stored; return False if there is none with this id."""

    @property
    def healthy(self) -> bool:
        """True if the worker makes progress."""

    @property
    def depth(self) -> int:
        """The number of waiting explanations."""

    @property
    def memory(self) -> int:
        """Return the resident memory in bytes of this server's processes of models on this machine."""

    def start(self) -> None:
        """Start the worker; called in the event loop that answers requests."""

    def stop(self) -> None:
        """Stop the worker; unfinished explanations wait for the next start, or for other replicas."""
