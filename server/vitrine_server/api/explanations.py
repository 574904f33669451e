"""Ask for an explanation, follow it, read it, cancel or forget it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Annotated

import anyio.to_thread
from fastapi import APIRouter, Form, Header, Request
from fastapi.responses import Response
from PIL import Image
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.concurrency import run_in_threadpool

from explainers.errors import ExplainerError
from explainers.models.inputs.depth import WindowedPicture
from explainers.models.inputs.images import read_image, to_rgb
from explainers.models.inputs.types import Crop
from explainers.records.session import Precision
from vitrine_server.export.file_names import as_download, download_name
from vitrine_server.http import problems
from vitrine_server.http.answers import DocumentResponse
from vitrine_server.http.bodies import BodyRoute
from vitrine_server.http.hang_ups import ends_before_hang_up
from vitrine_server.http.limits import limits
from vitrine_server.http.openapi import events_of
from vitrine_server.http.problems import Problem
from vitrine_server.http.uploads import encode_image, open_picture, open_pictures
from vitrine_server.http.visitors import Visitor, Who
from vitrine_server.jobs import explanation_events
from vitrine_server.jobs.catalogue.model_registry import ModelEntry
from vitrine_server.jobs.failures import interrupted
from vitrine_server.jobs.feed import Event, Feed
from vitrine_server.jobs.intake import plan, read_question, read_specs
from vitrine_server.jobs.queue.job import Job
from vitrine_server.lookup import (
    ExplanationId,
    check_theirs,
    fill_from_unfinished_source,
    find_document,
    input_of,
    is_theirs,
    question_asked,
)
from vitrine_server.samples import is_sample
from vitrine_server.schemas.explanations import (
    Explanation,
    ExplanationEvent,
    ExplanationTitle,
    MethodOrder,
    PendingExplanation,
    TitleRequest,
)
from vitrine_server.schemas.question import Question, QuestionForm
from vitrine_server.services import Services, Use
from vitrine_server.store.stored_files import COPY, name_of_picture
from vitrine_server.store.tables import FINAL

router = APIRouter(prefix="/api/explanations", tags=["explanations"], route_class=BodyRoute)
_EVENT_ID = re.compile(r"[0-9]{1,15}")
ORIGINAL_SIDE = 1024  # longest side of the picture of the upload


@router.post("", status_code=202, response_model=PendingExplanation, responses={200: {"model": Explanation}})
async def ask(
    form: Annotated[QuestionForm, Form(media_type="multipart/form-data")],
    request: Request,
    services: Use,
    visitor: Who,
    wait: bool = False,
    precision: Precision | None = None,
) -> Response:
    """Explain the answer of a model for an image or a text, both fields of the form. With ``?wait=1`` the response is the finished
    explanation.

    ``?precision=double`` overrides that field of the form. If visitors are separate, the response to a visitor without a secret has one in
    the header ``X-Vitrine-Visitor``: send it with later requests to rename, stop or delete the explanation.
    """
    if precision is not None:
        form = form.model_copy(update={"precision": precision})
    form = await run_in_threadpool(fill_from_unfinished_source, form, visitor, services)
    question = await read_question(form, services.settings, lambda source: input_of(source, visitor, services))
    return await _explain(question, request, services, visitor, wait)


async def _explain(question: Question, request: Request, services: Services, visitor: Visitor, wait: bool = False) -> Response:
    entry = services.registry.find(question.model, visitor)
    original = {} if question.image is None else await _originals(question, question.image, services)
    job = await run_in_threadpool(_submit, question, entry, original, services, visitor)
    explanation_id = job if isinstance(job, str) else job.id
    url = services.settings.address(f"/api/explanations/{explanation_id}")
    if not wait:
        content = {"id": explanation_id, "url": url, "events": f"{url}/events", "stored": isinstance(job, str)}
        return DocumentResponse(content, 202, {"Location": url})
    if isinstance(job, Job):
        await _until_done(job, request, services)
    document = await run_in_threadpool(find_document, explanation_id, services)
    if document["state"] == "cancelled":
        raise Problem(409, "cancelled", "The explanation was cancelled while it was made.", send="Ask for it again.")
    if document["state"] not in FINAL:  # the server stops, and the next one makes it
        raise interrupted(f"Read GET {url} once it is back: it is made then.")
    if "problem" in document:
        raise problems.from_json(document["problem"])
    return DocumentResponse(document, 200, {"Location": url})


async def _originals(question: Question, data: bytes, services: Services) -> dict[str, bytes]:
    """Return the uploaded picture, ``data``, as a JPEG file to show, by its name: upright, in colours, and with the question's window of
    grey values. There is one for each picture of a prompt, and one for the first frame of a clip. Raises Problem 422 if the question's crop
    is not inside the picture, and for a window on a picture that has no greys of more than 8 bits.
    """
    crop, window = question.crop, question.window

    def reencode(image: Image.Image) -> bytes:
        if window is not None:
            try:
                image = read_image(WindowedPicture(image, *window))
            except ExplainerError as error:
                raise Problem(422, "wrong-window", f"{error}.", send="Leave window out, or send greys of more than 8 bits.") from None
        image = to_rgb(image)
        if crop is not None:
            try:
                Crop(image, crop).check(image.size)
            except ExplainerError as error:
                raise Problem(422, "wrong-crop", f"{error}.", send="Send a part that lies in the picture, or leave crop out.") from None
        return encode_image(image, "JPEG", ORIGINAL_SIDE)

    def reencode_all() -> dict[str, bytes]:
        has_each = question.text is not None and not question.video  # of a video the first frame
        decode = open_pictures if has_each else lambda data, settings: [open_picture(data, settings)]
        pictures = decode(data, services.settings)
        return {name_of_picture(COPY, number): reencode(picture) for number, picture in enumerate(pictures)}

    return await anyio.to_thread.run_sync(reencode_all, limiter=services.decoders)


def _submit(question: Question, entry: ModelEntry, images: dict[str, bytes], services: Services, visitor: Visitor) -> Job | str:
    """Queue an explanation of ``question`` by the model of ``entry`` and return its job, with ``images`` as files to store; or return the
    id of a finished one of this visitor that answers the same question. For sample inputs, another visitor's explanation is copied: samples
    are not private, and a whole class of students begins with them.
    """
    if entry.has_failed and entry.problem is not None and not entry.lacked_memory:
        raise entry.problem
    if entry.state == "available" or entry.lacked_memory:
        services.registry.ask(entry.name, services.worker.load, visitor=visitor)
    if (facts := entry.facts) is not None:  # else the worker checks, once the model is loaded
        key, store = plan(question, facts).key, services.store
        known = store.finished(key, None if visitor.is_alone else visitor.owner)
        if known is None and is_sample(services.samples.values(), question) and (other := store.finished(key)) is not None:
            known = store.copy(other, key, visitor.owner)
        if known is not None:
            if question.image is not None and store.upload(known) is None:
                store.keep_upload(known, question.image)  # it was made before uploads were kept
            services.metrics.reused()
            return known
    job = Job(question, entry, images, visitor)
    services.worker.submit(job)
    return job


async def _until_done(job: Job, request: Request, services: Services) -> None:
    """Wait for the end of ``job``, whose client sent ``request``; if the client disconnects before, cancel the job."""

    async def end() -> None:
        if (following := services.worker.events(job.id)) is not None:
            async for _ in following:
                pass

    if not await ends_before_hang_up(request, end()):
        await run_in_threadpool(services.worker.cancel, job.id)


@router.get("/{id}", response_model=Explanation)
def read(explanation_id: ExplanationId, services: Use, visitor: Who) -> DocumentResponse:
    """Return the explanation with this id as JSON; until it is finished, with the maps so far."""
    services.worker.asked_about(explanation_id)
    document = find_document(explanation_id, services)
    shown = document if is_theirs(explanation_id, visitor, services) else {**document, "shared": True}
    return DocumentResponse(shown, headers=as_download(f"{download_name(document)}.json", is_shown=True))


@router.patch("/{id}", response_model=ExplanationTitle)
def name(explanation_id: ExplanationId, naming: TitleRequest, services: Use, visitor: Who) -> DocumentResponse:
    """Set the title of an explanation of yours, by its id; lists, pages and exports show it. An empty title removes it."""
    title = " ".join((naming.title or "").split())
    if len(title) > (limit := limits(services.settings)["title"]).most:
        raise limit.problem(len(title))
    find_document(explanation_id, services)
    check_theirs(explanation_id, visitor, services)
    job = services.worker.find(explanation_id)
    document = None if job is None else job.rename(title or None)
    stored = services.store.rename(explanation_id, title or None)  # a job that ends between the two lines has its title in the store
    return DocumentResponse({"id": explanation_id, "title": (document or stored or {}).get("title")})


@router.delete("/{id}", status_code=204)
def delete(explanation_id: ExplanationId, services: Use, visitor: Who) -> Response:
    """Delete the explanation of yours with this id; if it is not finished it is cancelled."""
    check_theirs(explanation_id, visitor, services)
    if not services.worker.cancel(explanation_id):
        is_stored, is_live = services.store.delete(explanation_id), services.worker.forget(explanation_id)  # also one that cannot be read
        if not (is_stored or is_live):
            find_document(explanation_id, services)  # which says that there is none
    return Response(status_code=204)


@router.put("/{id}/order", status_code=204)
def put_first(explanation_id: ExplanationId, order: MethodOrder, services: Use, visitor: Who) -> Response:
    """Set the ``order`` in which maps are made next, as a list of specs, while the explanation with this id is made. A finished one does
    not change.
    """
    specs = read_specs(order.methods, services.settings)
    find_document(explanation_id, services)
    check_theirs(explanation_id, visitor, services)
    services.worker.put_first(explanation_id, specs)
    return Response(status_code=204)


@router.post("/{id}/stop", status_code=204)
def stop(explanation_id: ExplanationId, services: Use, visitor: Who) -> Response:
    """End the explanation with this id with the maps finished so far; it then has only these methods. Without any finished map it is
    cancelled.
    """
    find_document(explanation_id, services)
    check_theirs(explanation_id, visitor, services)
    services.worker.stop_early(explanation_id)
    return Response(status_code=204)


@router.post("/{id}/again", status_code=202, response_model=PendingExplanation)
async def ask_again(explanation_id: ExplanationId, request: Request, services: Use, visitor: Who) -> Response:
    """Ask the question of the unfinished or failed explanation with this id again: the same input, targets, methods and options. The
    response is that of POST /api/explanations.
    """
    question = await run_in_threadpool(question_asked, explanation_id, visitor, services)
    return await _explain(question, request, services, visitor)


@router.get("/{id}/events", response_class=EventSourceResponse, responses=events_of(ExplanationEvent))
async def events(
    explanation_id: ExplanationId, services: Use, last_event_id: Annotated[str | None, Header()] = None
) -> EventSourceResponse:
    """Send the events of the explanation with this id as server-sent events, from the first one (or after ``Last-Event-ID``) to its end."""
    after = _number(last_event_id)
    await run_in_threadpool(find_document, explanation_id, services)  # raises Problem 404 if there is none
    following = services.worker.events(explanation_id, after)
    if following is None:
        feed = Feed()
        feed.publish(*explanation_events.events_so_far(await run_in_threadpool(find_document, explanation_id, services)))
        feed.close()
        following = feed.follow(after)
    return EventSourceResponse(_messages(following), sep="\n")


def stream(feed: Feed, last_event_id: str | None) -> EventSourceResponse:
    """Send the events of ``feed`` as server-sent events, those after ``last_event_id``, or all if that is no event's id."""
    return EventSourceResponse(_messages(feed.follow(_number(last_event_id))), sep="\n")


def _number(event_id: str | None) -> int:
    return int(event_id) if event_id is not None and _EVENT_ID.fullmatch(event_id) else -1


async def _messages(following: AsyncIterator[Event]) -> AsyncIterator[ServerSentEvent]:
    async for event in following:
        yield ServerSentEvent(data=event.data, event=event.name, id=str(event.id))
