"""What is asked about an answer that a model wrote."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter, Request, Response

from server.http.bodies import BodyRoute
from server.http.openapi import events_of
from server.lookup import ExplanationId
from server.schemas.base import study_events
from server.schemas.generated_answers import AnswerTable, AnswerTableRequest, TokenMaps, TokenMapsRequest
from server.services import Use
from server.studies import generated_answers as studies
from server.studies.study import study

router = APIRouter(prefix="/api/explanations", tags=["studies"], route_class=BodyRoute)


@router.post("/{id}/answer-table", response_model=AnswerTable, responses=events_of(study_events(AnswerTable)))
async def answer_table(explanation_id: ExplanationId, body: AnswerTableRequest, request: Request, services: Use) -> Response:
    """What each word of the prompt did for each word of the answer that a language model wrote: one forward pass, and a map for each word
    of the answer.
    """
    ask = partial(studies.answer_table, method=body.method)
    return await study(services, explanation_id, ask, request, kind="answer table", is_long=True)


@router.post("/{id}/token-maps", response_model=TokenMaps, responses=events_of(study_events(TokenMaps)))
async def token_maps(explanation_id: ExplanationId, body: TokenMapsRequest, request: Request, services: Use) -> Response:
    """Where in the picture each token of the answer of a vision-language model was, from the logits of one forward pass (TAM)."""
    return await study(services, explanation_id, studies.token_maps, request, kind="token maps")
