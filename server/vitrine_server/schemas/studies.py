"""What the answers of studies on a finished explanation, and questions to them, have in common."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from vitrine_server.schemas.base import Schema

TARGET: Any = Field(None, max_length=2000, description="The label of a target of the explanation; none: the first.")


class Study(Schema):
    """The fields in the answer of every study of a finished explanation: the explanation's id, and notes for people."""

    id: str = Field(description="Of the explanation.")
    notes: list[str] = Field(description="What a person should know.")
