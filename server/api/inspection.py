"""Look inside the model at a stored explanation: mix a rule, see every head, see what each block adds."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from server.http.bodies import JsonRoute
from server.lookup import ExplanationId
from server.services import Use
from server.studies import inspection
from server.studies.study import study

router = APIRouter(prefix="/api/explanations", tags=["studies"], route_class=JsonRoute)
_TARGET: Any = Field(None, max_length=2000, description="The label of a target of the explanation; none: the first.")


class MixRequest(BaseModel):
    """A method and a rule."""

    model_config = ConfigDict(extra="forbid")
    method: str = Field(
        max_length=300,
        validation_alias=AliasChoices("method", "readout"),  # its name in 0.1
        description="A method of GET /api/methods that has a rule, with its options but without a rule; ``readout`` is the same.",
    )
    rule: dict[str, str | bool] = Field(
        description="Kind of operator -> choice, as GET /api/rules lists them; what is left out is as for the ordinary gradient."
    )
    target: str | None = _TARGET


class HeadsRequest(BaseModel):
    """What to look at in the heads, and which of them."""

    model_config = ConfigDict(extra="forbid")
    quantity: str = Field("attention", max_length=100, description="One of GET /api/quantities.")
    token: int | None = Field(None, description="Whose row: a patch in raster order or a word piece; none: what the model's head reads.")
    block: int | Annotated[list[int], Field(min_length=1, max_length=1000)] | None = Field(
        None, description="One block or several, counted from 0; none: all. ``heads`` in the answer says how many heads each has."
    )
    head: int | None = Field(None, description="One head, counted from 0; none: all.")
    target: str | None = _TARGET


class ContributionsRequest(BaseModel):
    """Whose blocks to take apart."""

    model_config = ConfigDict(extra="forbid")
    method: str = Field(max_length=300, description="A spec whose method is a sum over blocks (``summed`` in GET /api/methods).")
    target: str | None = _TARGET


@router.post("/{id}/mix")
async def mix(explanation_id: ExplanationId, body: MixRequest, request: Request, services: Use) -> Any:
    """The same input explained under a rule put together choice by choice.

    ``completeness_error`` is how far FullGrad's terms are, under that rule, from adding up to the score. How well the map names what the
    model needs: send its scores to ``deletion``.
    """
    return await study(
        services,
        explanation_id,
        lambda s: inspection.mix(services.engine, s, body.method, body.rule, body.target),
        request,
        kind="mix",
        is_long=True,
    )


@router.post("/{id}/layers")
async def layers(explanation_id: ExplanationId, body: HeadsRequest, request: Request, services: Use) -> Any:
    """Small maps of every head of every block: attention, its gradient, its relevance, or their products."""
    which = {"token": body.token, "block": body.block, "head": body.head}
    return await study(
        services,
        explanation_id,
        lambda s: inspection.heads(services.engine, s, body.quantity, body.target, **which),
        request,
        kind="layers",
    )


@router.post("/{id}/contributions")
async def contributions(explanation_id: ExplanationId, body: ContributionsRequest, request: Request, services: Use) -> Any:
    """What each block adds to the map of a method that is a sum over blocks."""
    return await study(
        services,
        explanation_id,
        lambda s: inspection.contributions(services.engine, s, body.method, body.target),
        request,
        kind="contributions",
        is_long=True,
    )
