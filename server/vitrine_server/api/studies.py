"""The calls of all kinds of studies, made of what each declares."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.concurrency import run_in_threadpool

from vitrine_server.http.answers import DocumentResponse
from vitrine_server.http.hang_ups import ends_before_hang_up
from vitrine_server.http.openapi import events_of
from vitrine_server.http.problems import Problem
from vitrine_server.http.visitors import Visitor, visitor_of
from vitrine_server.jobs.host.work import Work
from vitrine_server.jobs.queue.study import Study
from vitrine_server.lookup import ExplanationId, find_document
from vitrine_server.schemas.base import study_events
from vitrine_server.services import Services, Use
from vitrine_server.studies.registry import STUDIES, StudyKind
from vitrine_server.studies.subject import PastInput, answer_to, past_input


def add_call(router: APIRouter, kind: StudyKind) -> None:
    """Add to ``router`` the call of a ``kind`` of study: it runs the study in the process of the model and returns the answer.

    If the request accepts server-sent events, the answer is sent as events: ``expected`` with the estimated ``seconds``, if earlier studies
    tell, ``progress`` with the numbers of inputs answered and in total (``asked``, ``total``), then ``done`` with the answer, or ``failed``
    with the problem. What can be refused at once is raised as a Problem.

    The model is loaded if need be. The call raises Problem 404 (no such explanation), 409 (not finished, or the model has changed since),
    422, 429 (too many wait) and 503. The study is cancelled if the client disconnects.
    """

    async def of_explanation(explanation_id: ExplanationId, request: Request, services: Use, form: Any = None) -> Response:
        question = await _question(kind, form, services)
        past, *others = await run_in_threadpool(_past_inputs, services, [explanation_id, *kind.others(question)])
        work = partial(answer_to, past, kind.run, [*([] if kind.form is None else [question]), *others])
        return await _respond(services, kind, past.document["model"], work, question, request)

    async def of_model(request: Request, services: Use, form: Any = None) -> Response:
        question = await _question(kind, form, services)
        return await _respond(services, kind, form.model, partial(kind.run, question), question, request)

    call: Any = of_explanation if "{id}" in kind.path else of_model
    *others, form = inspect.signature(call).parameters.values()
    form = form.replace(annotation=kind.form, default=form.empty, kind=form.KEYWORD_ONLY)
    call.__signature__ = inspect.Signature([*others, *([] if kind.form is None else [form])])
    router.add_api_route(
        kind.path,
        call,
        methods=["POST"],
        name=kind.run.__name__,
        description=inspect.getdoc(kind.run),
        tags=[kind.tag],
        response_model=kind.answer,
        responses=events_of(study_events(kind.answer)),
        route_class_override=kind.route,
    )


async def _question(kind: StudyKind, form: Any, services: Services) -> Any:
    return form if kind.read is None else await kind.read(form, services.settings)


def _past_inputs(services: Services, explanation_ids: list[str]) -> list[PastInput]:
    """Return the explanations with these ids and their inputs from the store. Raises Problem 404 for one that does not exist, 409 for one
    that is not finished, 422 if they are of several models.
    """
    documents = [find_document(explanation_id, services) for explanation_id in explanation_ids]
    for document in documents:
        if document["state"] != "done":
            detail = f"The explanation {document['id']!r} is {document['state']}, not done."
            raise Problem(409, "not-done", detail, send="Wait until the explanation is done, or ask for a new one.")
        if document["model"] != documents[0]["model"]:
            detail = f"The explanations are of two models, {documents[0]['model']} and {document['model']}."
            raise Problem(422, "other-model", detail, send="Compare two inputs of one model.")
    return [past_input(document, services) for document in documents]


async def _respond(services: Services, kind: StudyKind, model: str, work: Work, question: Any, request: Request) -> Response:
    """Queue a study of this ``kind``, which does ``work`` with ``model`` for ``question``, and make the response to ``request``:
    server-sent events while it runs if the client accepts these, else its answer at the end. If the client disconnects, the study is
    cancelled.
    """
    visitor = visitor_of(request)
    study = await run_in_threadpool(_submit, services, kind, model, work, question, visitor)
    if "text/event-stream" in request.headers.get("accept", ""):
        return EventSourceResponse(_events(study), sep="\n")
    ended, loop = asyncio.Event(), asyncio.get_running_loop()
    study.future.add_done_callback(lambda _: loop.call_soon_threadsafe(ended.set))
    try:
        if not await ends_before_hang_up(request, ended.wait()):
            raise Problem(409, "cancelled", "The client has disconnected.", send="Ask again.")
        return DocumentResponse(study.future.result())
    finally:
        study.cancel()


def _submit(services: Services, kind: StudyKind, model: str, work: Work, question: Any, visitor: Visitor) -> Study:
    study = Study(services.registry.ask(model, services.worker.load, visitor=visitor), kind.task(work, question, visitor))
    services.worker.study(study)
    return study


async def _events(study: Study) -> AsyncIterator[ServerSentEvent]:
    try:
        async for event in study.feed.follow():
            yield ServerSentEvent(data=event.data, event=event.name)
    finally:
        study.cancel()


router = APIRouter()
for _kind in STUDIES.values():
    add_call(router, _kind)
