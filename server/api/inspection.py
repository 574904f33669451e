"""Look inside the model at a stored explanation: mix a rule, see every head, see what each block adds."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter, Request, Response

from server.http.bodies import BodyRoute
from server.http.openapi import events_of
from server.lookup import ExplanationId
from server.schemas.base import study_events
from server.schemas.head_studies import (
    Registers,
    RegistersRequest,
    SimilarityDecomposition,
    SimilarityRequest,
    WithoutHead,
    WithoutHeadRequest,
)
from server.schemas.studies import (
    Contributions,
    ContributionsRequest,
    HeadMaps,
    HeadsRequest,
    Mix,
    MixRequest,
    PatchRequest,
    PatchSimilarity,
)
from server.services import Use
from server.studies import inspection
from server.studies.study import study

router = APIRouter(prefix="/api/explanations", tags=["studies"], route_class=BodyRoute)


@router.post("/{id}/mix", response_model=Mix, responses=events_of(study_events(Mix)))
async def mix(explanation_id: ExplanationId, body: MixRequest, request: Request, services: Use) -> Response:
    """The same input explained under a rule put together choice by choice.

    ``completeness_error`` is how far FullGrad's terms are, under that rule, from adding up to the score. How well the map names what the
    model needs: send its scores to ``deletion``.
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
    """Small maps of every head of every block: attention, its gradient, its relevance, or their products."""
    return await study(
        services,
        explanation_id,
        partial(inspection.heads, wanted=body),
        request,
        kind="layers",
    )


@router.post("/{id}/patch-similarity", response_model=PatchSimilarity, responses=events_of(study_events(PatchSimilarity)))
async def patch_similarity(explanation_id: ExplanationId, body: PatchRequest, request: Request, services: Use) -> Response:
    """How alike the patches of the picture are to the model: three principal components of their features as colours, and the cosine of
    each patch's features with those of one.
    """
    return await study(services, explanation_id, partial(inspection.patch_similarity, patch=body.patch), request, kind="patch similarity")


@router.post("/{id}/contributions", response_model=Contributions, responses=events_of(study_events(Contributions)))
async def contributions(explanation_id: ExplanationId, body: ContributionsRequest, request: Request, services: Use) -> Response:
    """What each block adds to the map of a method that is a sum over blocks."""
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
    """What each head and patch adds to the cosine of an image and a prompt, exactly, and in words what each head looks for."""
    return await study(
        services,
        explanation_id,
        partial(inspection.similarity, label=body.target),
        request,
        kind="similarity",
    )


@router.post("/{id}/without-head", response_model=WithoutHead, responses=events_of(study_events(WithoutHead)))
async def without_head(explanation_id: ExplanationId, body: WithoutHeadRequest, request: Request, services: Use) -> Response:
    """The cosines of an image with its prompts, asked again with one head giving nothing."""
    return await study(
        services,
        explanation_id,
        partial(inspection.without_head, wanted=body),
        request,
        kind="without-head",
    )


@router.post("/{id}/registers", response_model=Registers, responses=events_of(study_events(Registers)))
async def registers(explanation_id: ExplanationId, body: RegistersRequest, request: Request, services: Use) -> Response:
    """The outlier tokens of a picture, and the neurons of its model that make them (test-time registers).

    Where nobody has looked for them they are looked for now, over the pictures that ship, and kept as long as the model is loaded. With
    ``outlier_tokens=move`` POST /api/explanations then explains the model without such tokens.
    """
    return await study(services, explanation_id, inspection.registers, request, kind="registers", is_long=True)
