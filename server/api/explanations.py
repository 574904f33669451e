"""Ask for an explanation, follow it, read it, cancel or forget it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

import anyio.to_thread
from fastapi import APIRouter, Header, Request
from fastapi.responses import JSONResponse, Response
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.concurrency import run_in_threadpool

from server import documents, problems
from server.feed import Event, Feed
from server.intake import READS, Asked, plan, read_asked
from server.jobs import Job
from server.lookup import find_document
from server.problems import Problem
from server.registry import Entry
from server.services import Services, Use
from server.studies import ends_before_hang_up
from server.uploads import encoded, open_image, read_form

router = APIRouter(prefix="/api/explanations", tags=["explanations"])
ORIGINAL_SIDE = 1024  # longest side of the picture of the upload

_FORM = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["model"],
                    "properties": {
                        "model": {"type": "string", "description": "A name from /api/models."},
                        "image": {"type": "string", "format": "binary", "description": "An image file; or send text."},
                        "text": {"type": "string", "description": "A text; or send image."},
                        "text_pair": {"type": "string", "description": "A second text that is read with the first: a hypothesis."},
                        "side": {
                            "type": "string",
                            "enum": ["image", "text"],
                            "description": "For CLIP models: score the image (the default) or the words of each prompt.",
                        },
                        "target": {"type": "array", "items": {"type": "string"}, "description": "Labels or indices; none: the top class."},
                        "prompt": {"type": "array", "items": {"type": "string"}, "description": "For CLIP models: what to look for."},
                        "against": {
                            "type": "string",
                            "description": "A label, an index or a prompt: explain how much each target scores above this one.",
                        },
                        "read": {
                            "type": "string",
                            "enum": list(READS),
                            "default": READS[0],
                            "description": "The number of each target that is explained: its logit, or its softmax probability.",
                        },
                        "methods": {
                            "type": "array",
                            "items": {"type": "string"},
                            "description": "Specs: read-out[:rule][?option=value]; none: the model's default ones.",
                        },
                    },
                }
            }
        },
    }
}


@router.post("", status_code=202, openapi_extra=_FORM)
async def ask(request: Request, services: Use, wait: bool = False) -> Response:
    """Explain what a model says about an image or a text. With ``?wait=1`` the answer is the finished explanation."""
    async with read_form(request, services.settings) as form:
        asked = await read_asked(form, services.settings)
    entry = services.registry.find(asked.model)
    original = {} if asked.image is None else {"original.jpg": await _original(asked.image, services)}
    job = await run_in_threadpool(_submit, asked, entry, original, services)
    one = job if isinstance(job, str) else job.id
    url = f"/api/explanations/{one}"
    if not wait:
        content = {"id": one, "url": url, "events": f"{url}/events"}
        return JSONResponse(content, 202, {"Location": url})
    if isinstance(job, Job):
        await _until_done(job, request, services)
    document = await run_in_threadpool(find_document, one, services)
    if document["state"] == "cancelled":
        raise Problem(409, "cancelled", "The explanation was cancelled while it was made.", send="Ask for it again.")
    if "problem" in document:
        raise problems.from_json(document["problem"])
    return JSONResponse(document, 200, {"Location": url})


async def _original(data: bytes, services: Services) -> bytes:
    def reencode() -> bytes:
        return encoded(open_image(data, services.settings), "JPEG", ORIGINAL_SIDE)

    return await anyio.to_thread.run_sync(reencode, limiter=services.decoders)


def _submit(asked: Asked, entry: Entry, images: dict[str, bytes], services: Services) -> Job | str:
    """Queue the explanation; or the id of a finished one that answers the same question."""
    if entry.state == "failed" and entry.problem is not None:
        raise entry.problem
    if entry.state == "available":
        services.registry.ask(entry.name, services.worker.load)
    if (facts := entry.facts) is not None:  # else the worker checks, once the model is loaded
        key = plan(asked, facts, services.engine, services.settings).key
        if (known := services.store.finished(key)) is not None:
            return known
    job = Job(asked, entry, images)
    services.worker.submit(job)
    return job


async def _until_done(job: Job, request: Request, services: Services) -> None:
    """Wait for the end of ``job``; whoever hangs up meanwhile cancels it."""

    async def end() -> None:
        async for _ in job.feed.follow():
            pass

    if not await ends_before_hang_up(request, end()):
        await run_in_threadpool(services.worker.cancel, job.id)


@router.get("/{one}")
def read(one: str, services: Use) -> JSONResponse:
    """The explanation as JSON; while it is made, with the maps that are there."""
    return JSONResponse(find_document(one, services))


@router.delete("/{one}", status_code=204)
def delete(one: str, services: Use) -> Response:
    """Cancel an explanation that is not finished, forget one that is."""
    if not services.worker.cancel(one):
        find_document(one, services)
        services.store.delete(one)
        services.worker.forget(one)
    return Response(status_code=204)


@router.get("/{one}/events", response_class=EventSourceResponse)
async def events(one: str, services: Use, last_event_id: Annotated[str | None, Header()] = None) -> EventSourceResponse:
    """Server-sent events from the first one (or after ``Last-Event-ID``) to the end of the explanation."""
    job = services.worker.find(one)
    if job is not None:
        feed = job.feed
    else:
        feed = Feed()
        feed.publish(*documents.story(await run_in_threadpool(find_document, one, services)))
        feed.close()
    return stream(feed, last_event_id)


def stream(feed: Feed, last_event_id: str | None) -> EventSourceResponse:
    """``feed`` as server-sent events, those up to ``last_event_id`` left out."""
    after = int(last_event_id) if last_event_id is not None and last_event_id.isascii() and last_event_id.isdigit() else -1
    return EventSourceResponse(_messages(feed.follow(after)), sep="\n")


async def _messages(following: AsyncIterator[Event]) -> AsyncIterator[ServerSentEvent]:
    async for one in following:
        yield ServerSentEvent(data=one.data, event=one.name, id=str(one.id))
