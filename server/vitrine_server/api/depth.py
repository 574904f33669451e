"""How much of the work of a model its Transformer does, on inputs that are sent."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Form, Request, Response

from explainers import Depth
from vitrine_server.http.bodies import BodyRoute
from vitrine_server.http.limits import limits
from vitrine_server.http.openapi import events_of
from vitrine_server.jobs.queue.study import MANY_PASSES
from vitrine_server.schemas.base import study_events
from vitrine_server.schemas.depth import DepthForm
from vitrine_server.services import Use
from vitrine_server.studies.depth import DepthQuestion, answer, check
from vitrine_server.studies.study import ask_model

router = APIRouter(prefix="/api", tags=["models"], route_class=BodyRoute)


@router.post("/depth", response_model=Depth, responses=events_of(study_events(Depth)))
async def depth(form: Annotated[DepthForm, Form(media_type="multipart/form-data")], services: Use, request: Request) -> Response:
    """Measure whether a model's Transformer matters for pictures or texts: what each part is worth, how heads differ, whether patches or
    words read each other, and whether methods agree. Nothing that is sent is kept.
    """
    known = limits(services.settings)
    for text in form.texts:
        if len(text) > known["text"].most:
            raise known["text"].problem(len(text))
    images = tuple([await upload.read() for upload in form.images])
    question = DepthQuestion(images, form.texts, form.prompts, form.limit, services.settings)
    check(question)
    kind = f"depth of {question.count}"
    return await ask_model(services, form.model, partial(answer, question), request, is_long=True, weight=MANY_PASSES, kind=kind)
