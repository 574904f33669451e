"""Measure methods on a data set from the page: begin a run, watch it, stop it."""

from __future__ import annotations

from fastapi import APIRouter
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
from server.schemas.leaderboard import MOST_INPUTS, Run, RunEvent, RunRequest, Runs
from server.services import Services, Use
from server.settings import environment_name

router = APIRouter(prefix="/api/runs", tags=["leaderboard"], route_class=BodyRoute)


def _no_run() -> Problem:
    return Problem(404, "no-run", "No run was begun since the server started.", send="POST /api/runs begins one.")


def _may_run(services: Services) -> bool:
    settings = services.settings
    return (settings.allow_runs or not is_reached_by_others(settings)) and not settings.read_only


def _check_may_run(services: Services) -> None:
    """Raise Problem 403 where people may begin and stop no runs."""
    if not _may_run(services):
        detail = f"This server measures nothing for others; {environment_name('allow_runs')} allows it."
        raise Problem(403, "runs-not-allowed", detail, send="Measure with vitrine evaluate on a machine of your own.")


@router.get("", response_model=Runs)
def runs(services: Use) -> DocumentResponse:
    """What can be measured here (``models``, each with its data sets and their metrics, none where people may not; ``sets`` of methods;
    ``most`` inputs), and the run that goes on or ended last (``current``; null where none was begun).
    """
    current = services.runs.current()
    return DocumentResponse(
        {
            "models": services.runs.choices() if _may_run(services) else [],
            "sets": registries.choosing(None, None, [])["presets"],
            "most": MOST_INPUTS,
            "current": None if current is None else current.to_json(),
        }
    )


@router.post("", status_code=202, response_model=Run)
async def begin(request: RunRequest, services: Use) -> DocumentResponse:
    """Begin a run, behind all questions that people ask; one that was stopped goes on where it was. Its figures are then on the leaderboard
    under the id that is answered.
    """
    _check_may_run(services)
    run = await run_in_threadpool(services.runs.begin, request)
    return DocumentResponse(run.to_json(), 202)


@router.get("/current", response_model=Run)
def current(services: Use) -> DocumentResponse:
    """How far the run is: waiting, running, done, stopped or failed; ``done`` of ``total`` inputs; ``seconds_left``, about."""
    run = services.runs.current()
    if run is None:
        raise _no_run()
    return DocumentResponse(run.to_json())


@router.get("/current/events", response_class=EventSourceResponse, responses=events_of(RunEvent))
async def events(services: Use) -> EventSourceResponse:
    """Server-sent events of the run, from its beginning: ``progress``, then ``ended``, each with what GET /api/runs/current says."""
    run = services.runs.current()
    if run is None:
        raise _no_run()
    return stream(run.feed, None)


@router.delete("/current", status_code=204)
def stop(services: Use) -> Response:
    """Stop the run. What it measured is kept: the same wishes go on from there."""
    _check_may_run(services)
    if services.runs.stop() is None:
        raise Problem(404, "no-run", "No run goes on.", send="GET /api/runs/current tells of the last one.")
    return Response(status_code=204)
