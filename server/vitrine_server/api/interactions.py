"""Routes for interactions of two inputs: the words of a prompt with the patches of a picture, or two inputs of one model."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from vitrine_server.http.bodies import BodyRoute
from vitrine_server.http.openapi import events_of
from vitrine_server.lookup import ExplanationId, find_document
from vitrine_server.schemas.base import study_events
from vitrine_server.schemas.studies import (
    Alikeness,
    AlikeRequest,
    FaithfulInteraction,
    FaithfulInteractionRequest,
    Interaction,
    InteractionRequest,
)
from vitrine_server.services import Use
from vitrine_server.studies import interactions as studies
from vitrine_server.studies.study import past_input, study

router = APIRouter(prefix="/api/explanations", tags=["studies"], route_class=BodyRoute)


@router.post("/{id}/interactions", response_model=Interaction, responses=events_of(study_events(Interaction)))
async def interactions(explanation_id: ExplanationId, body: InteractionRequest, request: Request, services: Use) -> Response:
    """Return what each pair of a prompt's word and a patch of the picture adds to the cosine of the two (exCLIP).

    ``pairs`` has a row for each of ``first.input.words`` and a column for each patch of ``second.grid``, in raster order; ``scores`` of a
    side are what each of its words or patches adds to the cosine with the whole of the other side. ``total`` is the sum of the pairs;
    together with ``other_tokens``, the pairs of special tokens, and ``baseline_terms`` it is the cosine.
    """
    how = body.options()
    return await study(
        services,
        explanation_id,
        partial(studies.words_and_patches, prompt=body.prompt, **how),
        request,
        kind="interaction",
        is_long=True,
    )


@router.post("/{id}/faithful-interactions", response_model=FaithfulInteraction, responses=events_of(study_events(FaithfulInteraction)))
async def faithful_interactions(
    explanation_id: ExplanationId, body: FaithfulInteractionRequest, request: Request, services: Use
) -> Response:
    """Return which words of a prompt go with which patches of the picture, fitted to the model's answers with parts left out (FIxLIP).

    The answer is like that of ``/interactions``; ``scores`` of a side are what each of its words or patches adds in total, its own term and
    ``p`` times its pairs. ``faithfulness`` says how well the terms predict held-out coalitions.
    """
    how = body.model_dump(exclude={"prompt"})
    ask = partial(studies.faithful, prompt=body.prompt, **how)
    return await study(services, explanation_id, ask, request, kind="faithful-interaction", is_long=True)


@router.post("/{id}/alike", response_model=Alikeness, responses=events_of(study_events(Alikeness)))
async def alike(explanation_id: ExplanationId, body: AlikeRequest, request: Request, services: Use) -> Response:
    """Explain why the model finds the inputs of two explanations similar: each side's map of the cosine of their features, and the part of
    each pair of patches or words.

    The features are the input of the model's last layer; for a CLIP model they are its embeddings.
    """
    first, second = await run_in_threadpool(lambda: [find_document(name, services) for name in (explanation_id, body.other)])
    studies.check_two(first, second)
    ask = partial(studies.alike, other=await run_in_threadpool(past_input, second, services), **body.options())
    return await study(services, explanation_id, ask, request, kind="alike", is_long=True)
