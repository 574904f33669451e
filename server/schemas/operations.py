"""What one request may hold, and how the server is."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from server.schemas.base import Schema
from server.schemas.models import ModelState


class Limit(Schema):
    """At most ``most``; the rest is the refusal of more."""

    most: int
    type: str
    title: str
    detail: str = Field(description="With {count} and {what} for how many of what there were.")
    send: str


class Limits(Schema):
    """What one request may hold."""

    limits: dict[str, Limit]


class Health(Schema):
    """Requests are answered, and work moves."""

    status: Literal["ok"]


class Readiness(Schema):
    """A model is loaded, work moves, and what is made can be stored."""

    status: Literal["ready"]
    models: dict[str, ModelState]
