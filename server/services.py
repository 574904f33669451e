"""The services that routes use (store, worker, registry, settings): one record for each application."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import anyio
from fastapi import Depends, Request

from server.http.metrics import Metrics
from server.http.queries import refuse_unknown_parameters
from server.jobs.model_registry import ModelRegistry
from server.jobs.own_models import OwnModels
from server.jobs.runs import RunController
from server.jobs.sent_data import SentData
from server.jobs.worker_interface import WorkerInterface
from server.samples import SampleInput
from server.settings import Settings
from server.store.store import Store


@dataclass(frozen=True)
class Services:
    """The parts of one running application. ``decoders`` bounds how many uploads are decoded at once, as each takes memory."""

    settings: Settings
    registry: ModelRegistry
    store: Store
    worker: WorkerInterface
    metrics: Metrics
    samples: dict[str, SampleInput]
    decoders: anyio.CapacityLimiter
    runs: RunController
    own_models: OwnModels
    sent_data: SentData


def _services(request: Request) -> Services:
    refuse_unknown_parameters(request)
    services = request.app.state.services
    assert isinstance(services, Services)
    return services


#: The parameter of a call that gives it the services, once the query of its address is one that it knows.
Use = Annotated[Services, Depends(_services)]
