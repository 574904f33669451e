"""What one request may hold, and how the server is."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from vitrine_server.schemas.base import Schema
from vitrine_server.schemas.models import ModelState


class Limit(Schema):
    """The maximum of one quantity (``most``); the other fields are the refusal of more."""

    most: int
    type: str
    title: str
    detail: str = Field(description="With {count} and {what} for how many of what there were.")
    send: str


class Limits(Schema):
    """The limits of one request, by name."""

    limits: dict[str, Limit]


class Health(Schema):
    """The server answers requests, and its worker makes progress."""

    status: Literal["ok"]


class Readiness(Schema):
    """The server is ready: a model is loaded, the worker makes progress, and results can be stored."""

    status: Literal["ready"]
    models: dict[str, ModelState]
