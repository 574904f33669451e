"""Look inside the model at a stored explanation: mix a rule, see every head, see what each block adds."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from server import inside
from server.services import Use
from server.studies import study

router = APIRouter(prefix="/api/explanations", tags=["studies"])
_TARGET: Any = Field(None, max_length=2000, description="The label of a target of the explanation; none: the first.")


class MixAsked(BaseModel):
    """A read-out and a rule."""

    model_config = ConfigDict(extra="forbid")
    readout: str = Field(max_length=300, description="A method of GET /api/methods that has a rule, with its options but without a rule.")
    rule: dict[str, str | bool] = Field(
        description="Kind of operator -> choice, as GET /api/rules lists them; what is left out is as for the ordinary gradient."
    )
    target: str | None = _TARGET


class HeadsAsked(BaseModel):
    """What to look at in the heads, and which of them."""

    model_config = ConfigDict(extra="forbid")
    quantity: str = Field("attention", max_length=100, description="One of GET /api/quantities.")
    token: int | None = Field(None, description="Whose row: a patch in raster order or a word piece; none: what the model's head reads.")
    block: int | Annotated[list[int], Field(min_length=1, max_length=1000)] | None = Field(
        None, description="One block or several, counted from 0; none: all. ``heads`` in the answer says how many heads each has."
    )
    head: int | None = Field(None, description="One head, counted from 0; none: all.")
    target: str | None = _TARGET


class ContributionsAsked(BaseModel):
    """Whose blocks to take apart."""

    model_config = ConfigDict(extra="forbid")
    method: str = Field(max_length=300, description="A spec whose method is a sum over blocks (``summed`` in GET /api/methods).")
    target: str | None = _TARGET


@router.post("/{one}/mix")
async def mix(one: str, asked: MixAsked, request: Request, services: Use) -> dict[str, Any]:
    """The same input explained under a rule put together choice by choice.

    ``completeness_error`` is how far FullGrad's terms are, under that rule, from adding up to the score. How well the map names what the
    model needs: send its scores to ``deletion``.
    """
    return await study(services, one, lambda s: inside.mix(services.engine, s, asked.readout, asked.rule, asked.target), request)


@router.post("/{one}/layers")
async def layers(one: str, asked: HeadsAsked, request: Request, services: Use) -> dict[str, Any]:
    """Small maps of every head of every block: attention, its gradient, its relevance, or their products."""
    which = {"token": asked.token, "block": asked.block, "head": asked.head}
    return await study(services, one, lambda s: inside.heads(services.engine, s, asked.quantity, asked.target, **which), request)


@router.post("/{one}/contributions")
async def contributions(one: str, asked: ContributionsAsked, request: Request, services: Use) -> dict[str, Any]:
    """What each block adds to the map of a method that is a sum over blocks."""
    return await study(services, one, lambda s: inside.contributions(services.engine, s, asked.method, asked.target), request)
