"""Look inside the model at a stored explanation: mix a rule, see every head, see what each block adds."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter, Request, Response

from vitrine_server.http.bodies import BodyRoute
from vitrine_server.http.openapi import events_of
from vitrine_server.lookup import ExplanationId
from vitrine_server.schemas.base import study_events
from vitrine_server.schemas.studies import (
    Contributions,
    ContributionsRequest,
    HeadMaps,
    HeadsRequest,
    Mix,
    MixRequest,
    PatchRequest,
    PatchSimilarity,
    Registers,
    RegistersRequest,
    SimilarityDecomposition,
    SimilarityRequest,
    WithoutHead,
    WithoutHeadRequest,
)
from vitrine_server.services import Use
from vitrine_server.studies import inspection
from vitrine_server.studies.study import study

router = APIRouter(prefix="/api/explanations", tags=["studies"], route_class=BodyRoute)


@router.post("/{id}/mix", response_model=Mix, responses=events_of(study_events(Mix)))
async def mix(explanation_id: ExplanationId, body: MixRequest, request: Request, services: Use) -> Response:
    """Explain the same input under a rule made of your choices, one for each kind of operator.

    ``completeness_error`` is how far FullGrad's terms under that rule are from adding up to the score. To test how well the map finds what
    the model needs, send its scores to ``deletion-test/score``.
    """
    return await study(
        services,
        explanation_id,
        partial(inspection.mix, method=body.method, rule=body.rule, label=body.target),
        request,
        kind="mix",
        is_long=True,
    )


@router.post("/{id}/layers", response_model=HeadMaps, responses=events_of(study_events(HeadMaps)))
async def layers(explanation_id: ExplanationId, body: HeadsRequest, request: Request, services: Use) -> Response:
    """Return a small map for every attention head of every block: attention, its gradient, its relevance, or their products."""
    return await study(
        services,
        explanation_id,
        partial(inspection.heads, wanted=body),
        request,
        kind="layers",
    )


@router.post("/{id}/patch-similarity", response_model=PatchSimilarity, responses=events_of(study_events(PatchSimilarity)))
async def patch_similarity(explanation_id: ExplanationId, body: PatchRequest, request: Request, services: Use) -> Response:
    """Return how similar the patches of the picture are to the model: three principal components of their features as colours, and each
    patch's cosine with one of them.
    """
    return await study(services, explanation_id, partial(inspection.patch_similarity, patch=body.patch), request, kind="patch similarity")


@router.post("/{id}/contributions", response_model=Contributions, responses=events_of(study_events(Contributions)))
async def contributions(explanation_id: ExplanationId, body: ContributionsRequest, request: Request, services: Use) -> Response:
    """Return the part of each block in the map of a method that is a sum over blocks."""
    return await study(
        services,
        explanation_id,
        partial(inspection.contributions, spec=body.method, label=body.target),
        request,
        kind="contributions",
        is_long=True,
    )


@router.post("/{id}/similarity", response_model=SimilarityDecomposition, responses=events_of(study_events(SimilarityDecomposition)))
async def similarity(explanation_id: ExplanationId, body: SimilarityRequest, request: Request, services: Use) -> Response:
    """Return the exact part of each head and patch in the cosine of an image and a prompt, and what each head looks for, in words."""
    return await study(
        services,
        explanation_id,
        partial(inspection.similarity, label=body.target),
        request,
        kind="similarity",
    )


@router.post("/{id}/without-head", response_model=WithoutHead, responses=events_of(study_events(WithoutHead)))
async def without_head(explanation_id: ExplanationId, body: WithoutHeadRequest, request: Request, services: Use) -> Response:
    """Return the cosines of an image with its prompts after one attention head was ablated."""
    return await study(
        services,
        explanation_id,
        partial(inspection.without_head, wanted=body),
        request,
        kind="without-head",
    )


@router.post("/{id}/registers", response_model=Registers, responses=events_of(study_events(Registers)))
async def registers(explanation_id: ExplanationId, body: RegistersRequest, request: Request, services: Use) -> Response:
    """Return the outlier tokens of a picture, and the register neurons of its model that cause them (test-time registers).

    If they are not known yet, they are searched for now on the pictures that ship, and kept as long as the model is loaded. POST
    /api/explanations with ``outlier_tokens=move`` then explains the model without such tokens.
    """
    return await study(services, explanation_id, inspection.registers, request, kind="registers", is_long=True)
