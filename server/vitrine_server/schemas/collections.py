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
    flags: dict[str, int] = Field(description="How many of them have each flag, by its name.")
    confusion: Confusion
    indices: list[int] | None = Field(description="Of the rows that are left; null: all.")


class CollectionRequest(Schema):
    """A request to collect the inputs of a data set with a model: at most ``limit`` inputs, drawn with a seed."""

    model: str = Field(max_length=1000, description="A model that is loaded.")
    dataset: str = Field(max_length=100, description="A data set of GET /api/collections, or the name that POST /api/runs/data gave.")
    methods: list[str] = Field([], max_length=8, description="Specs of the maps; empty: the usual three.")
    limit: int = Field(500, ge=1, description="How many inputs, drawn with the seed.")
    labels: bool = Field(True, description="Whether labels say which answer is right; else they are only written down.")
    seed: int = Field(0, ge=0, lt=2**32)
    removal: bool = Field(True, description="Ask the model again without the parts that matter most: a pass more for each method.")
    skip_broken: bool = Field(False, description="Leave out inputs that cannot be read.")


class SlicesWanted(Schema):
    """A request to search a collection for slices."""

    seed: int = Field(0, ge=0, lt=2**32, description="Of the halves, clusters and random choices.")


class SlicesRequest(Schema):
    """A search for slices: the collection, the model here with its weights, its number of rows, and the seed."""

    model: str = Field(max_length=1000, description="The model that is asked again.")
    dataset: str = Field(max_length=200, description="The id of the collection.")
    limit: int = Field(ge=0, description="The number of its rows.")
    seed: int = Field(0, ge=0, lt=2**32)
