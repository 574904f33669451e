"""The interface of workers, as the web threads use it: one for this machine, one for a cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from server.jobs.feed import Event
from server.jobs.job import Job
from server.jobs.model_registry import ModelEntry
from server.jobs.study import Study


class WorkerInterface(Protocol):
    """:class:`server.jobs.worker.Worker` and :class:`server.cluster.ray_worker.RayWorker`. Any thread may call.

    stopping  whether the server stops
    """

    stopping: bool

    def submit(self, job: Job) -> None:
        """Store an explanation and have it made; raises Problem 429 where too many wait."""

    def cancel(self, explanation_id: str) -> bool:
        """Cancel an explanation, now or at its next pass; False where it has ended, or is unknown."""

    def events(self, explanation_id: str, after: int = -1) -> AsyncIterator[Event] | None:
        """The events of an explanation with an id above ``after``, past ones first, to its end; None where the store has it whole."""

    def load(self, entry: ModelEntry) -> None:
        """Have a model loaded, which the registry is told of."""

    # --- what comes besides ------------------------------------------------------------------------------------------------

    def study(self, study: Study) -> None:
        """Have a study answered; raises Problem 429 where too many wait."""

    def stop_early(self, explanation_id: str) -> None:
        """End an explanation with the maps that are there; where there are none it is cancelled."""

    def put_first(self, explanation_id: str, specs: Sequence[str]) -> None:
        """The maps of these methods are wanted before those of the others."""

    def find(self, explanation_id: str) -> Job | None:
        """An explanation that this process has in memory; None where the store has all there is of it."""

    def asked_about(self, explanation_id: str) -> None:
        """Note that a client asked for an explanation without following its events, which keeps it from being dropped."""

    def forget(self, explanation_id: str) -> bool:
        """Drop a finished explanation that the store would not take; False where there is none."""

    @property
    def healthy(self) -> bool:
        """Whether the worker makes progress."""

    @property
    def depth(self) -> int:
        """The number of waiting explanations."""

    @property
    def memory(self) -> int:
        """Bytes that the processes of models hold on this machine, as far as they are this server's."""

    def start(self) -> None:
        """Start; called in the event loop that answers requests."""

    def stop(self) -> None:
        """Stop; unfinished explanations wait for the next start, or for other replicas."""
