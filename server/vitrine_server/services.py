"""The services that routes use (store, worker, registry, settings): one record for each application."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import anyio
from fastapi import Depends, Request

from vitrine_server.http.kept import KeptAnswers
from vitrine_server.http.metrics import Metrics
from vitrine_server.http.queries import refuse_unknown_parameters
from vitrine_server.jobs.catalogue.model_registry import ModelRegistry
from vitrine_server.jobs.catalogue.own_models import OwnModels
from vitrine_server.jobs.queue.worker_interface import WorkerInterface
from vitrine_server.jobs.runs.measurable import Measurable
from vitrine_server.jobs.runs.runs import RunController
from vitrine_server.jobs.runs.sent_data import SentData
from vitrine_server.jobs.runs.slicing import SearchableCollections
from vitrine_server.samples import SampleInput
from vitrine_server.settings import Settings
from vitrine_server.shelf import Shelf
from vitrine_server.store.store import Store


@dataclass(frozen=True)
class Services:
    """The parts of one running application: its settings, models, stored explanations, worker and runs. ``decoders`` limits how many
    uploads are decoded at once, as each takes memory.
    """

    settings: Settings
    registry: ModelRegistry
    store: Store
    worker: WorkerInterface
    metrics: Metrics
    samples: dict[str, SampleInput]
    decoders: anyio.CapacityLimiter
    runs: RunController[Measurable]
    own_models: OwnModels
    sent_data: SentData
    shelf: Shelf
    collecting: RunController[Measurable]
    slicing: RunController[SearchableCollections]
    kept: KeptAnswers = field(default_factory=KeptAnswers)


async def _services(request: Request) -> Services:
    refuse_unknown_parameters(request)  # no thread is asked for it, as all may be busy
    services = request.app.state.services
    assert isinstance(services, Services)
    return services


#: The parameter of a call that gives it the services, once the query of its address is one that it knows.
Use = Annotated[Services, Depends(_services)]
