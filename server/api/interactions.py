"""What two inputs have to do with each other: the words of a prompt and the patches of a picture, and two inputs of one model."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from server.http.bodies import BodyRoute
from server.http.openapi import events_of
from server.lookup import ExplanationId, find_document
from server.schemas.base import study_events
from server.schemas.studies import (
    Alikeness,
    AlikeRequest,
    FaithfulInteraction,
    FaithfulInteractionRequest,
    Interaction,
    InteractionRequest,
)
from server.services import Use
from server.studies import interactions as studies
from server.studies.study import past_input, study

router = APIRouter(prefix="/api/explanations", tags=["studies"], route_class=BodyRoute)


@router.post("/{id}/interactions", response_model=Interaction, responses=events_of(study_events(Interaction)))
async def interactions(explanation_id: ExplanationId, body: InteractionRequest, request: Request, services: Use) -> Response:
    """Each word of a prompt with each patch of the picture: what the pair adds to their cosine, or takes from it (exCLIP).

    ``pairs`` has a row for each of ``first.input.words`` and a column for each patch of ``second.grid``, in raster order; ``scores`` of
    a side are what each of its words or patches adds to the cosine with the whole of the other side. ``total`` is the sum of the pairs;
    with ``other_tokens``, the pairs of special tokens, and ``baseline_terms`` it is the cosine.
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
    """Each word of a prompt with each patch of the picture, fitted to the model's answers when some of them are left out (FIxLIP).

    As ``/interactions``; ``scores`` of a side are what each of its words or patches adds altogether, its own term and ``p`` times its
    pairs. ``faithfulness`` says how well the terms foretell coalitions that took no part in the fit.
    """
    how = body.model_dump(exclude={"prompt"})
    ask = partial(studies.faithful, prompt=body.prompt, **how)
    return await study(services, explanation_id, ask, request, kind="faithful-interaction", is_long=True)


@router.post("/{id}/alike", response_model=Alikeness, responses=events_of(study_events(Alikeness)))
async def alike(explanation_id: ExplanationId, body: AlikeRequest, request: Request, services: Use) -> Response:
    """Why the model finds the inputs of two explanations alike: both sides' maps of the cosine of what the model makes of them before its
    last layer (of a CLIP model: its embeddings), and what each pair of patches or words adds to it.
    """
    first, second = await run_in_threadpool(lambda: [find_document(name, services) for name in (explanation_id, body.other)])
    studies.check_two(first, second)
    ask = partial(studies.alike, other=await run_in_threadpool(past_input, second, services), **body.options())
    return await study(services, explanation_id, ask, request, kind="alike", is_long=True)
