"""Routes for the operator of the server: is it alive, is it ready, what is it doing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import psutil
from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse, Response

from explainers.json_records import Record
from vitrine_server.http.answers import DocumentResponse
from vitrine_server.http.bodies import BodyRoute
from vitrine_server.http.limits import Limit, limits
from vitrine_server.http.metrics import MEDIA_TYPE, GaugeValues
from vitrine_server.http.problems import Problem
from vitrine_server.jobs.catalogue.device_gauges import gauges_by_device
from vitrine_server.jobs.queue.worker_interface import WorkerInterface
from vitrine_server.schemas.base import Schema
from vitrine_server.schemas.models import ModelState
from vitrine_server.services import Use

router = APIRouter(tags=["operations"], route_class=BodyRoute)


class Health(Schema):
    """The server answers requests, and its worker makes progress."""

    status: Literal["ok"]


class Readiness(Schema):
    """The server is ready: a model is loaded, the worker makes progress, and results can be stored."""

    status: Literal["ready"]
    models: dict[str, ModelState]


@dataclass(frozen=True)
class Limits(Record):
    """The limits of one request, by name."""

    limits: dict[str, Limit]


@router.get("/healthz", response_model=Health)
async def healthz(request: Request) -> Response:
    """Return ok if the server answers and its worker makes progress; and 503 if a model hangs that nothing can end, or a GPU answers no
    process any more, so that the server must be restarted.
    """
    worker: WorkerInterface = request.app.state.services.worker  # no thread is asked for it, as all may be busy
    if not worker.healthy:
        return Problem(
            503, "stuck", "A model hangs and cannot be stopped, or its device cannot be used any more.", headers={"Retry-After": "30"}
        ).response()
    return DocumentResponse({"status": "ok"})


@router.get("/readyz", response_model=Readiness)
def readyz(services: Use) -> Response:
    """Return ready once an embedded model was loaded, none has failed, the worker makes progress, and results can be stored; 503 until
    then. The other embedded models load meanwhile, requested ones first. Hub models do not count, nor models whose optional package is not
    installed. A model that has left memory for others, or that found too little of it, is loaded for the next request: the server stays
    ready.
    """
    embedded = [entry for entry in services.registry.all() if entry.embedded]
    is_one_known = not embedded or any(entry.was_loaded for entry in embedded)
    waiting = [
        f"{entry.name} is {entry.state}" for entry in embedded if not is_one_known or (entry.state == "failed" and not entry.lacked_memory)
    ]
    if not services.worker.healthy:
        waiting.append("a model hangs, and nothing can end it, or its device cannot be used any more")
    if (fault := services.store.check()) is not None:
        waiting.append(fault)
    if waiting:
        return Problem(503, "not-ready", f"Not ready: {', '.join(waiting)}.", headers={"Retry-After": "2"}).response()
    return DocumentResponse({"status": "ready", "models": {entry.name: entry.state for entry in embedded}})


@router.get("/api/limits", response_model=Limits)
def what_is_taken(services: Use) -> DocumentResponse:
    """Return the limits of one request by name: ``most`` of each quantity, and the refusal of more ({count} of {what})."""
    return DocumentResponse(Limits(limits(services.settings)).to_json())


@router.get("/metrics", response_class=PlainTextResponse)
def metrics(services: Use) -> PlainTextResponse:
    """Return the counters of the server in the text format of Prometheus."""
    loaded = sum(entry.state == "loaded" for entry in services.registry.all())
    plain = {
        "queue_depth": ("Explanations that wait.", services.worker.depth),
        "models_loaded": ("Models in memory.", loaded),
        "worker_up": ("Whether work moves.", services.worker.healthy),
        "worker_memory_bytes": ("Memory of the processes of models.", services.worker.memory),
        "server_memory_bytes": ("Memory of this process.", psutil.Process().memory_info().rss),
        "store_writable": ("Whether explanations can be stored, as far as the last try tells.", services.store.fault is None),
    }
    gauges = [GaugeValues(name, text, (), {(): float(value)}) for name, (text, value) in plain.items()]
    by_device = gauges_by_device(services.registry.residents, services.registry.budgets)
    return PlainTextResponse(services.metrics.text([*gauges, *by_device]), media_type=MEDIA_TYPE)
