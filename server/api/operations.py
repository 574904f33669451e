"""For whoever runs the server: is it alive, is it ready, what is it doing."""

from __future__ import annotations

import psutil
from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse, Response

from server.http.answers import DocumentResponse
from server.http.bodies import BodyRoute
from server.http.limits import limits
from server.http.metrics import MEDIA_TYPE
from server.http.problems import Problem
from server.jobs.worker_interface import WorkerInterface
from server.schemas.operations import Health, Limits, Readiness
from server.services import Use

router = APIRouter(tags=["operations"], route_class=BodyRoute)


@router.get("/healthz", response_model=Health)
async def healthz(request: Request) -> Response:
    """Requests are answered, and work moves; 503 where a model hangs that nothing can end: the server has to be started anew."""
    worker: WorkerInterface = request.app.state.services.worker  # no thread is asked for it, as all may be busy
    if not worker.healthy:
        return Problem(503, "stuck", "A model hangs, and nothing can end it.", headers={"Retry-After": "30"}).response()
    return DocumentResponse({"status": "ok"})


@router.get("/readyz", response_model=Readiness)
def readyz(services: Use) -> Response:
    """An embedded model is loaded and none has failed, work moves, and what is made can be stored; 503 until then. The other embedded
    ones load meanwhile, what is asked for first. Hub models do not count.
    """
    states = {entry.name: entry.state for entry in services.registry.all() if entry.embedded}
    is_one_there = not states or "loaded" in states.values()
    waiting = [f"{name} is {state}" for name, state in states.items() if state == "failed" or not is_one_there]
    if not services.worker.healthy:
        waiting.append("a model hangs, and nothing can end it")
    if (fault := services.store.check()) is not None:
        waiting.append(fault)
    if waiting:
        return Problem(503, "not-ready", f"Not ready: {', '.join(waiting)}.", headers={"Retry-After": "2"}).response()
    return DocumentResponse({"status": "ready", "models": states})


@router.get("/api/limits", response_model=Limits)
def what_is_taken(services: Use) -> DocumentResponse:
    """What one request may hold: ``most`` of each, and what is answered where there is more ({count} of {what})."""
    return DocumentResponse({"limits": {name: limit.to_json() for name, limit in limits(services.settings).items()}})


@router.get("/metrics", response_class=PlainTextResponse)
def metrics(services: Use) -> PlainTextResponse:
    """Counters in the text format of Prometheus."""
    loaded = sum(entry.state == "loaded" for entry in services.registry.all())
    gauges = {
        "queue_depth": ("Explanations that wait.", float(services.worker.depth)),
        "models_loaded": ("Models in memory.", float(loaded)),
        "worker_up": ("Whether work moves.", float(services.worker.healthy)),
        "worker_memory_bytes": ("Memory of the processes of models.", float(services.worker.memory)),
        "server_memory_bytes": ("Memory of this process.", float(psutil.Process().memory_info().rss)),
        "store_writable": ("Whether explanations can be stored, as far as the last try tells.", float(services.store.fault is None)),
    }
    return PlainTextResponse(services.metrics.text(gauges), media_type=MEDIA_TYPE)
