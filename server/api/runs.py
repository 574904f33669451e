"""Measure methods on a data set from the page: see what can be measured, send a data set, begin a run, watch it, stop it, go on with it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from sse_starlette import EventSourceResponse
from starlette.concurrency import run_in_threadpool

from server import registries
from server.api.explanations import stream
from server.http.answers import DocumentResponse
from server.http.bodies import BodyRoute
from server.http.hosts import is_reached_by_others
from server.http.openapi import events_of
from server.http.problems import Problem
from server.http.visitors import Who
from server.schemas.runs import MeasurableDataset, Run, RunChoices, RunEvent, RunRequest, Runs
from server.services import Services, Use
from server.settings import environment_name

router = APIRouter(prefix="/api/runs", tags=["leaderboard"], route_class=BodyRoute)


def _may_run(services: Services) -> bool:
    settings = services.settings
    return settings.engine == "local" and (settings.allow_runs or not is_reached_by_others(settings)) and not settings.read_only


def _check_may_run(services: Services) -> None:
    """Raise Problem 403 where people may begin and stop no runs."""
    if not _may_run(services):
        detail = f"This server measures nothing for others; {environment_name('allow_runs')} allows it."
        if services.settings.engine != "local":
            detail = "A cluster measures nothing from the page."
        raise Problem(403, "runs-not-allowed", detail, send="Measure with vitrine evaluate on a machine of your own.")


@router.get("", response_model=Runs)
def runs(services: Use, visitor: Who) -> DocumentResponse:
    """What can be measured here (``models`` that are loaded, none where people may not measure, each with every data set and the
    reason where it does not suit; ``sets`` of methods; ``most`` inputs, ``most_mb`` megabytes of a data set that is sent), and the
    ``runs`` that the visitor began here.
    """
    return DocumentResponse(
        {
            "models": services.runs.measurable.models(visitor) if _may_run(services) else [],
            "sets": registries.choosing(None, None, [])["presets"],
            "most": services.settings.max_run_inputs,
            "most_mb": services.settings.max_data_mb,
            "runs": [run.to_json() for run in services.runs.all(visitor)],
        }
    )


@router.get("/choices", response_model=RunChoices)
def choices(
    model: Annotated[str, Query(max_length=1000)], dataset: Annotated[str, Query(max_length=100)], services: Use, visitor: Who
) -> DocumentResponse:
    """What a run of a model on a data set may be asked: ``metrics`` with what each needs, the values of each option, and ``protocols`` of
    papers as a run follows them. What may not be chosen says the ``reason``.
    """
    return DocumentResponse(services.runs.measurable.choices(model, dataset, visitor))


@router.post("/data", status_code=201, response_model=MeasurableDataset)
async def receive(name: Annotated[str, Query(max_length=1000)], request: Request, services: Use) -> DocumentResponse:
    """Send a data set as the body, ``name`` that of its file: a .zip of pictures in a folder for each class, with ``masks/`` where there
    are any, or a .csv or .jsonl of texts. It is kept until a run on it is done or deleted; without a run for an hour.
    """
    _check_may_run(services)
    source = await services.sent_data.receive(name, request.stream())
    return DocumentResponse(await run_in_threadpool(services.runs.measurable.about_data, source), 201)


@router.post("", status_code=202, response_model=Run)
async def begin(wanted: RunRequest, services: Use, visitor: Who) -> DocumentResponse:
    """Begin a run, behind all questions that people ask; one that was stopped goes on where it was. Its figures are then on the leaderboard
    under the id that is answered.
    """
    _check_may_run(services)
    run = await run_in_threadpool(services.runs.begin, wanted, visitor)
    return DocumentResponse(run.to_json(), 202)


@router.get("/{id}", response_model=Run)
def find(id: str, services: Use, visitor: Who) -> DocumentResponse:  # noqa: A002  (the name in the address)
    """How far a run is: waiting, running, done, stopped or failed; ``done`` of ``total`` inputs; ``seconds_left``, about."""
    return DocumentResponse(services.runs.find(id, visitor).to_json())


@router.get("/{id}/events", response_class=EventSourceResponse, responses=events_of(RunEvent))
async def events(id: str, services: Use, visitor: Who) -> EventSourceResponse:  # noqa: A002
    """Server-sent events of a run, from where it was begun last: ``progress``, then ``ended``, each with what GET /api/runs/{id} says."""
    return stream(services.runs.find(id, visitor).feed, None)


@router.post("/{id}/stop", status_code=204)
def stop(id: str, services: Use, visitor: Who) -> Response:  # noqa: A002
    """Stop a run. What it measured is kept."""
    _check_may_run(services)
    services.runs.stop(id, visitor)
    return Response(status_code=204)


@router.post("/{id}/again", status_code=202, response_model=Run)
async def go_on(id: str, services: Use, visitor: Who) -> DocumentResponse:  # noqa: A002
    """Go on with a run that was stopped or has failed, where it was; also after the server was started anew."""
    _check_may_run(services)
    run = await run_in_threadpool(services.runs.go_on, id, visitor)
    return DocumentResponse(run.to_json(), 202)


@router.delete("/{id}", status_code=204)
def delete(id: str, services: Use, visitor: Who) -> Response:  # noqa: A002
    """Remove a run with its figures, and the data set that was sent for it; one that goes on is stopped first."""
    _check_may_run(services)
    services.runs.remove(id, visitor)
    return Response(status_code=204)
