"""Studies: questions about a stored explanation that need its model again, on exactly the input that it was given then."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from fastapi import Request
from fastapi.responses import Response
from PIL import Image
from safetensors.torch import load
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.concurrency import run_in_threadpool
from torch import Tensor

from explainers import Cancelled
from explainers.models.inputs.types import Prepared, TextPair
from explainers.models.registers.moving import view_of
from explainers.records.input_json import input_from_json
from explainers.records.targets import prompts_of as prompts_named
from explainers.records.targets import target_from_json
from vitrine_server.http.answers import DocumentResponse
from vitrine_server.http.problems import Problem
from vitrine_server.http.visitors import Visitor, visitor_of
from vitrine_server.jobs.host.work import TellAnswers, Work
from vitrine_server.jobs.queue.study import FEW_PASSES, SHORT, Study, Task
from vitrine_server.lookup import COPY, find_document, stored_file
from vitrine_server.services import Services
from vitrine_server.store.stored_files import TENSORS_FILE


@dataclass(frozen=True)
class Subject:
    """The model and input of a study, in the process of the model.

    model      the model, on the side that was explained (``model.side``)
    tensors    the model's input, a batch of one on its device: ``model.forward(tensors)`` gives the logits (1, labels) of the document; for
               a CLIP model's text side (labels, 1)
    labels     the names of the logits: the classes, or the prompts of a CLIP model
    document   the explanation as JSON
    cancelled  returns whether to stop; ``explainers.explain`` takes it, and :meth:`check` calls it
    loaded     the model as it was loaded: for a CLIP model its image side
    tell       called between forward passes with the numbers of inputs answered and in total
    notes      remarks for a person, which go into the answer; a study may add its own
    """

    model: Any
    tensors: dict[str, Tensor]
    labels: list[str]
    document: dict[str, Any]
    cancelled: Callable[[], bool]
    tell: Callable[[int, int], None]
    loaded: Any
    notes: list[str] = field(default_factory=list)

    def check(self) -> None:
        """Raise Cancelled if nobody waits for the study any more. Called between forward passes, which also shows the server that it is
        alive.
        """
        if self.cancelled():
            raise Cancelled

    def before_pass(self, done: int, total: int) -> None:
        """Report progress, and raise Cancelled if nobody waits for the study any more."""
        self.tell(done, total)
        self.check()


#: A study: from its subject to its answer as JSON. It may raise ExplainerError (answered 422) and Problem. It goes to another process, so
#: it is a function of a module, or a ``partial`` of one.
Ask = Callable[[Subject], dict[str, Any]]


async def study(
    services: Services, explanation_id: str, ask: Ask, request: Request, *, is_long: bool = False, weight: int = FEW_PASSES, kind: str = ""
) -> Response:
    """Run ``ask`` in the process of the model, before waiting explanations; return its answer, with ``id`` and ``notes``.

    If it ``is_long``, other work goes first, also between two of its forward passes: that is for studies of many passes. ``weight`` and
    ``kind`` are as in :class:`Study`.

    If the request accepts server-sent events, the answer is sent as events: ``expected`` with the estimated ``seconds``, if earlier studies
    tell, ``progress`` with the numbers of inputs answered and in total (``asked``, ``total``), then ``done`` with the answer, or ``failed``
    with the problem. What can be refused at once is raised as a Problem.

    The model is loaded if need be. Raises Problem 404 (no such explanation), 409 (not finished, or the model has changed since), 422, 429
    (too many wait) and 503. The study is cancelled if the client disconnects.
    """
    task = await _begin(services, explanation_id, ask, is_long, weight, kind, visitor_of(request))
    return _followed(task) if _wants_events(request) else await _answer(task, request)


def _wants_events(request: Request) -> bool:
    return "text/event-stream" in request.headers.get("accept", "")


def _followed(task: Study) -> EventSourceResponse:
    async def events() -> AsyncIterator[ServerSentEvent]:
        try:
            async for event in task.feed.follow():
                yield ServerSentEvent(data=event.data, event=event.name)
        finally:
            task.cancel()

    return EventSourceResponse(events(), sep="\n")


async def _begin(services: Services, explanation_id: str, ask: Ask, is_long: bool, weight: int, kind: str, visitor: Visitor) -> Study:
    document = await run_in_threadpool(find_document, explanation_id, services)
    if document["state"] != "done":
        detail = f"The explanation is {document['state']}, not done."
        raise Problem(409, "not-done", detail, send="Ask once it is done, or ask for a new explanation.")

    work = partial(_answer_to, await run_in_threadpool(past_input, document, services), ask)
    return await _submit(services, document["model"], work, is_long, weight, kind, visitor)


def _answer_to(past: PastInput, ask: Ask, model: Any, cancelled: Callable[[], bool], tell: TellAnswers) -> dict[str, Any]:
    subject = subject_of(past, model, cancelled, tell)
    answer = ask(subject)
    return {"id": past.document["id"], **answer, "notes": subject.notes}


async def _submit(services: Services, model: str, work: Work, is_long: bool, weight: int, kind: str, visitor: Visitor) -> Study:
    def submit() -> Study:
        task = Study(
            services.registry.ask(model, services.worker.load, visitor=visitor), Task(work, weight if is_long else SHORT, kind, visitor)
        )
        services.worker.study(task)
        return task

    return await run_in_threadpool(submit)


async def ask_model(
    services: Services, model: str, work: Work, request: Request, *, is_long: bool = False, weight: int = FEW_PASSES, kind: str = ""
) -> Response:
    """Run ``work`` on the model of this name, in its process, with the precedence of a :func:`study`; return its answer.

    The model is loaded if need be. Raises Problem 422, 429 (too many wait) and 503. The work is cancelled if the client disconnects.
    """
    task = await _submit(services, model, work, is_long, weight, kind, visitor_of(request))
    return _followed(task) if _wants_events(request) else await _answer(task, request)


async def _answer(task: Study, request: Request) -> DocumentResponse:
    ended, loop = asyncio.Event(), asyncio.get_running_loop()
    task.future.add_done_callback(lambda _: loop.call_soon_threadsafe(ended.set))
    try:
        if not await ends_before_hang_up(request, ended.wait()):
            raise Problem(409, "cancelled", "The client has disconnected.", send="Ask again.")
        return DocumentResponse(task.future.result())
    finally:
        task.cancel()


async def ends_before_hang_up(request: Request, work: Coroutine[Any, Any, Any]) -> bool:
    """Wait until ``work`` ends or the client disconnects; return True if the work ended first."""

    async def hang_up() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    tasks = [asyncio.create_task(work), asyncio.create_task(hang_up())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return tasks[0].done()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def prompts_of(document: Mapping[str, Any]) -> list[str]:
    """List the prompts of a CLIP model in the order of its logits."""
    return prompts_named([target_from_json(info, None) for info in document["targets"]])


@dataclass(frozen=True)
class PastInput:
    """An explanation, and the stored input of its model: ``tensors`` as a file or, for older ones, ``picture``, a smaller copy."""

    document: dict[str, Any]
    tensors: bytes | None
    picture: bytes | None


def past_input(document: dict[str, Any], services: Services) -> PastInput:
    """Read an explanation and its input from the store, for a study of it."""
    tensors = stored_file(document["id"], TENSORS_FILE, services)
    return PastInput(document, tensors, stored_file(document["id"], COPY, services) if tensors is None else None)


def subject_of(past: PastInput, model: Any, cancelled: Callable[[], bool], tell: TellAnswers) -> Subject:
    """Make the subject of a study, in the process of the model: the view of the model, and the input that it was given. Raises Problem 409
    if the weights have changed.
    """
    document = past.document
    if model.weights_digest != document["weights_digest"]:
        detail = f"The weights of {document['model']} have changed since this explanation was made."
        raise Problem(409, "model-changed", detail, send="Ask for the explanation again.")
    loaded = model
    model = view_of(model, document.get("outlier_tokens", "keep"))
    if model.kind == "clip":
        model = model.seen_from("text" if "prompts" in document else "image")
    labels = prompts_of(document) if model.kind == "clip" else list(model.labels)
    notes: list[str] = []
    if past.tensors is not None:
        tensors = {name: tensor.to(model.device) for name, tensor in load(past.tensors).items()}
    else:
        tensors = _prepared_again(past, model, labels, notes)
    if model.task is not None:
        model = model.at(document["at"], Prepared(tensors, (input_from_json(document["input"]),), ((),)))
        labels = list(model.labels)
    return Subject(model, tensors, labels, document, cancelled, tell, loaded, notes)


def _prepared_again(past: PastInput, model: Any, labels: list[str], notes: list[str]) -> dict[str, Tensor]:
    """Prepare the input again for an explanation made before inputs were kept, from its text or picture; adds a note if the numbers may
    differ.
    """
    input_json = past.document["input"]
    if input_json["kind"] == "text":
        source: Any = TextPair(input_json["text"], input_json["text_pair"]) if "text_pair" in input_json else input_json["text"]
    else:
        if past.picture is None:
            raise Problem(409, "input-lost", "The picture of this explanation was not kept.", send="Ask for the explanation again.")
        source = Image.open(io.BytesIO(past.picture), formats=("JPEG",)).convert("RGB")
        notes.append(
            "This explanation was made before inputs were kept as the model saw them: its picture was prepared again from a smaller copy, "
            "so the numbers may differ a little from those of the maps."
        )
    tensors: dict[str, Tensor] = dict(model.prepare(source).tensors)
    return tensors if model.prompt_inputs is None else {**tensors, **model.prompt_inputs(labels).tensors}
