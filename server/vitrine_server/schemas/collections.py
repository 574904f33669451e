"""The rows of a collection, and what a filter leaves of them."""

from __future__ import annotations

from pydantic import Field

from explainers.collection.table import CollectionRow, Confusion
from vitrine_server.schemas.base import Schema


class CollectionRows(Schema):
    """A page of the rows that pass a filter."""

    total: int = Field(description="How many rows pass the filter.")
    rows: list[CollectionRow]


class Selection(Schema):
    """What a filter leaves of a collection."""

    total: int
    right: int
    wrong: int
    confusion: Confusion
    indices: list[int] | None = Field(description="Of the rows that are left; null: all.")
