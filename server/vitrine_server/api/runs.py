"""Measure methods on a data set from the page: see what can be measured, send a data set, begin a run, watch it, stop it, go on with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import Field, Json
from sse_starlette import EventSourceResponse
from starlette.concurrency import run_in_threadpool

from explainers.json_records import Record, describe, schema_of
from explainers.methods.presets import PresetOfVariants
from vitrine_server import registries
from vitrine_server.api.explanations import stream
from vitrine_server.http.answers import DocumentResponse
from vitrine_server.http.bodies import BodyRoute
from vitrine_server.http.hosts import is_reached_by_others
from vitrine_server.http.openapi import events_of
from vitrine_server.http.problems import Problem
from vitrine_server.http.visitors import Visitor, Who
from vitrine_server.jobs.runs.measurable import MeasurableDataset, MeasurableModel, RunChoices
from vitrine_server.jobs.runs.run_state import RunProgress
from vitrine_server.jobs.runs.run_time import RunTime, estimate_time, specs_of
from vitrine_server.lookup import run_reports
from vitrine_server.schemas.base import Message
from vitrine_server.schemas.runs import RunRequest
from vitrine_server.services import Services, Use
from vitrine_server.settings import environment_name

router = APIRouter(prefix="/api/runs", tags=["leaderboard"], route_class=BodyRoute)
Run = schema_of(RunProgress, base=RunRequest)


@dataclass(frozen=True)
class Runs(Record):
    """The models, data sets and limits for runs, and the visitor's runs, the latest first."""

    models: Sequence[MeasurableModel]
    sets: Sequence[PresetOfVariants]
    most: Annotated[int, describe("Inputs of a run, and of a data set that is sent.")]
    most_mb: Annotated[float, describe("Megabytes of a data set that is sent.")]
    runs: Annotated[list[dict[str, Any]], describe(kind=list[Run])]


class RunProgressEvent(Message):
    """An event: the run has measured another input; its data is the state of the run."""

    event: Literal["progress"]
    data: Json[Run]  # type: ignore[valid-type]  # it is made of a record


class RunEndedEvent(Message):
    """The last event of a run: it is done, stopped or failed; its data is the state of the run."""

    event: Literal["ended"]
    data: Json[Run]  # type: ignore[valid-type]


RunEvent = Annotated[RunProgressEvent | RunEndedEvent, Field(discriminator="event")]


def may_run(services: Services) -> bool:
    """Return whether visitors may begin and stop runs and collections here."""
    settings = services.settings
    return settings.engine == "local" and (settings.allow_runs or not is_reached_by_others(settings)) and not settings.read_only


def check_may_run(services: Services) -> None:
    """Raise Problem 403 if visitors may not begin and stop runs."""
    if not may_run(services):
        detail = f"This server does not measure methods for visitors; {environment_name('allow_runs')} allows it."
        if services.settings.engine != "local":
            detail = "On a cluster, methods cannot be measured from the page."
        raise Problem(403, "runs-not-allowed", detail, send="Measure with vitrine evaluate on your own machine.")


@router.get("", response_model=Runs)
def runs(services: Use, visitor: Who) -> DocumentResponse:
    """Return the models and data sets that can be measured here, and the ``runs`` that the visitor began.

    ``models`` are the loaded models (none if runs are not allowed), each with every data set and the reason if it does not suit; ``sets``
    are sets of methods; ``most`` is the maximum number of inputs, ``most_mb`` the maximum megabytes of a data set that is sent.
    """
    answer = Runs(
        models=services.runs.measurable.models(visitor) if may_run(services) else [],
        sets=registries.presets([]),
        most=services.settings.max_run_inputs,
        most_mb=services.settings.max_data_mb,
        runs=[run.to_json() for run in services.runs.all(visitor)],
    )
    return DocumentResponse(answer.to_json())


@router.get("/choices", response_model=RunChoices)
def choices(
    model: Annotated[str, Query(max_length=1000)], dataset: Annotated[str, Query(max_length=100)], services: Use, visitor: Who
) -> DocumentResponse:
    """Return the options of a run of ``model`` on ``dataset``, both by name: ``metrics`` with what each needs, the values of each option,
    and ``protocols`` of papers.

    ``reason`` says why something cannot be chosen.
    """
    return DocumentResponse(services.runs.measurable.choices(model, dataset, visitor).to_json())


@router.post("/time", response_model=RunTime)
def estimate(wanted: RunRequest, services: Use, visitor: Who) -> DocumentResponse:
    """Estimate how long a run would take, from what earlier runs of the model took; nothing begins."""
    return DocumentResponse(_estimate(wanted, services, visitor).to_json())


def _estimate(wanted: RunRequest, services: Services, visitor: Visitor) -> RunTime:
    _, facts = services.runs.measurable.model(wanted.model, visitor)
    specs = specs_of(wanted.methods, facts.variants)
    return estimate_time(wanted.model, specs, wanted.metrics, wanted.limit, run_reports(visitor, services)[0])


@router.post("/data", status_code=201, response_model=MeasurableDataset)
async def receive(name: Annotated[str, Query(max_length=1000)], request: Request, services: Use) -> DocumentResponse:
    """Receive a data set as the body, and return what is known of it; ``name`` is the name of its file: a .zip of pictures in a folder for
    each class, with ``masks/`` if there are any, or a .csv or .jsonl of texts. It is kept until a run on it is done or deleted; without a
    run for an hour.
    """
    check_may_run(services)
    source = await services.sent_data.receive(name, request.stream())
    data = await run_in_threadpool(services.runs.measurable.about_data, source)
    return DocumentResponse(data.to_json(), 201)


@router.post("", status_code=202, response_model=Run)
async def begin(wanted: RunRequest, services: Use, visitor: Who) -> DocumentResponse:
    """Begin the run that the body describes (a model, a data set, methods and metrics), and return its state; all questions of visitors go
    before it. A run that was stopped continues after its last input. Its results appear on the leaderboard under the returned id.
    """
    check_may_run(services)
    expected = await run_in_threadpool(_estimate, wanted, services, visitor)
    run = await run_in_threadpool(services.runs.begin, wanted, visitor, expected.seconds)
    return DocumentResponse(run.to_json(), 202)


@router.get("/{id}", response_model=Run)
def find(id: str, services: Use, visitor: Who) -> DocumentResponse:  # noqa: A002  (the name in the address)
    """Return the state of the run with this id: waiting, running, done, stopped or failed; ``done`` of ``total`` inputs; ``seconds_left``
    is an estimate.
    """
    return DocumentResponse(services.runs.find(id, visitor).to_json())


@router.get("/{id}/events", response_class=EventSourceResponse, responses=events_of(RunEvent))
async def events(id: str, services: Use, visitor: Who) -> EventSourceResponse:  # noqa: A002
    """Send the events of the run with this id as server-sent events since it was last begun: ``progress``, then ``ended``, each with the
    data of GET /api/runs/{id}.
    """
    return stream(services.runs.find(id, visitor).feed, None)


@router.post("/{id}/stop", status_code=204)
def stop(id: str, services: Use, visitor: Who) -> Response:  # noqa: A002
    """Stop the run with this id. What it measured is kept."""
    check_may_run(services)
    services.runs.stop(id, visitor)
    return Response(status_code=204)


@router.post("/{id}/again", status_code=202, response_model=Run)
async def go_on(id: str, services: Use, visitor: Who) -> DocumentResponse:  # noqa: A002
    """Continue the run with this id, which was stopped or has failed, after its last input, and return its state; also after a restart of
    the server.
    """
    check_may_run(services)
    run = await run_in_threadpool(services.runs.go_on, id, visitor)
    return DocumentResponse(run.to_json(), 202)


@router.delete("/{id}", status_code=204)
def delete(id: str, services: Use, visitor: Who) -> Response:  # noqa: A002
    """Delete the run with this id with its results, and the data set that was sent for it; a running one is stopped first."""
    check_may_run(services)
    services.runs.remove(id, visitor)
    run_reports(visitor, services)  # which drops what was kept of it
    return Response(status_code=204)
