"""What the replicas of a cluster are asked, and how: the requests to the processes that have the models, from those that answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Protocol

from vitrine_server.jobs.queue.study import Task


@dataclass(frozen=True)
class FactsRequest:
    """A request to load the model unless it is loaded. The result is its :class:`ModelFacts`."""


@dataclass(frozen=True)
class MakeRequest:
    """A request to compute the maps of the stored explanation ``explanation_id``, unless another process has claimed it. The result is
    None, once the explanation has ended here.
    """

    explanation_id: str


#: The result of a task is the answer of the study.
ReplicaRequest = FactsRequest | MakeRequest | Task


class Replicas(Protocol):
    """The processes that have the models; each request goes to one that has its model, or has room for it."""

    def ask(self, model: str, request: ReplicaRequest) -> AsyncIterator[tuple[str, Any]]:
        """Yield the messages of a request, (name, data): the last is ``done`` with the result, or ``failed`` with the Problem. A task also
        tells when it no longer waits (``begun``), and ``expected`` and ``progress`` as a :class:`Study`. Raises a Problem before a task
        begins (429 if too many wait) and for a model that cannot be loaded, and other errors if the process has ended. A task is cancelled
        when the caller stops iterating.
        """
