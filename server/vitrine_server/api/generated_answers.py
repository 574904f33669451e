"""Routes for questions about an answer that a model wrote."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter, Request, Response

from vitrine_server.http.bodies import BodyRoute
from vitrine_server.http.openapi import events_of
from vitrine_server.lookup import ExplanationId
from vitrine_server.schemas.base import study_events
from vitrine_server.schemas.studies import AnswerTable, AnswerTableRequest, TokenMaps, TokenMapsRequest
from vitrine_server.services import Use
from vitrine_server.studies import generated_answers as studies
from vitrine_server.studies.study import study

router = APIRouter(prefix="/api/explanations", tags=["studies"], route_class=BodyRoute)


@router.post("/{id}/answer-table", response_model=AnswerTable, responses=events_of(study_events(AnswerTable)))
async def answer_table(explanation_id: ExplanationId, body: AnswerTableRequest, request: Request, services: Use) -> Response:
    """Return how much each word of the prompt counted for each word of a language model's answer: one forward pass, and a map for each word
    of the answer.
    """
    ask = partial(studies.answer_table, method=body.method)
    return await study(services, explanation_id, ask, request, kind="answer table", is_long=True)


@router.post("/{id}/token-maps", response_model=TokenMaps, responses=events_of(study_events(TokenMaps)))
async def token_maps(explanation_id: ExplanationId, body: TokenMapsRequest, request: Request, services: Use) -> Response:
    """Return a map of each token of a vision-language model's answer over the picture, from the logits of one forward pass (TAM)."""
    return await study(services, explanation_id, studies.token_maps, request, kind="token maps")
