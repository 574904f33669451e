"""Searches for slices of collections that a visitor began: list, follow, stop, continue and delete them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path
from fastapi.responses import Response
from pydantic import Field, Json
from sse_starlette import EventSourceResponse
from starlette.concurrency import run_in_threadpool

from explainers.json_records import Record, describe
from vitrine_server.api.collections import SlicesRun
from vitrine_server.api.explanations import stream
from vitrine_server.api.runs import check_may_run
from vitrine_server.http.answers import DocumentResponse
from vitrine_server.http.bodies import BodyRoute
from vitrine_server.http.openapi import events_of
from vitrine_server.http.visitors import Who
from vitrine_server.schemas.base import Message
from vitrine_server.services import Use

router = APIRouter(prefix="/api/slices", tags=["collections"], route_class=BodyRoute)
SearchId = Annotated[str, Path(alias="id", description="The id of a search.")]


@dataclass(frozen=True)
class SlicesRuns(Record):
    """The searches for slices that a visitor began, the latest first."""

    runs: Annotated[list[dict[str, Any]], describe(kind=list[SlicesRun])]


class SlicesProgressEvent(Message):
    """An event: another row was asked again; its data is the state of the search."""

    event: Literal["progress"]
    data: Json[SlicesRun]


class SlicesEndedEvent(Message):
    """The last event of a search: it is done, stopped or failed; its data is the state of it."""

    event: Literal["ended"]
    data: Json[SlicesRun]


SlicesEvent = Annotated[SlicesProgressEvent | SlicesEndedEvent, Field(discriminator="event")]


@router.get("", response_model=SlicesRuns)
def searches(services: Use, visitor: Who) -> DocumentResponse:
    """Return the searches for slices that the visitor began, the latest first; POST /api/collections/{id}/slices begins one."""
    return DocumentResponse(SlicesRuns([run.to_json() for run in services.slicing.all(visitor)]).to_json())


@router.get("/{id}", response_model=SlicesRun)
def progress(search_id: SearchId, services: Use, visitor: Who) -> DocumentResponse:
    """Return how far the search with this id is: ``done`` of ``total`` rows were asked again."""
    return DocumentResponse(services.slicing.find(search_id, visitor).to_json())


@router.get("/{id}/events", response_class=EventSourceResponse, responses=events_of(SlicesEvent))
async def events(search_id: SearchId, services: Use, visitor: Who) -> EventSourceResponse:
    """Send the events of the search with this id as server-sent events since it was last begun: ``progress``, then ``ended``."""
    return stream(services.slicing.find(search_id, visitor).feed, None)


@router.post("/{id}/stop", status_code=204)
def stop(search_id: SearchId, services: Use, visitor: Who) -> Response:
    """Stop the search with this id. The slices that are tested are kept."""
    check_may_run(services)
    services.slicing.stop(search_id, visitor)
    return Response(status_code=204)


@router.post("/{id}/again", status_code=202, response_model=SlicesRun)
async def go_on(search_id: SearchId, services: Use, visitor: Who) -> DocumentResponse:
    """Continue the search with this id, which was stopped or has failed, with the slice at which it was; also after a restart of the
    server.
    """
    check_may_run(services)
    return DocumentResponse((await run_in_threadpool(services.slicing.go_on, search_id, visitor)).to_json(), 202)


@router.delete("/{id}", status_code=204)
def delete(search_id: SearchId, services: Use, visitor: Who) -> Response:
    """Delete the search with this id and its report; a running one is stopped first."""
    check_may_run(services)
    services.slicing.remove(search_id, visitor)
    return Response(status_code=204)
