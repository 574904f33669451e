"""What is asked about an answer that a model wrote, and what is answered."""

from __future__ import annotations

from pydantic import Field

from server.schemas.base import Grid, Schema
from server.schemas.studies import Study


class TokenMapsRequest(Schema):
    """Nothing is chosen."""


class TokenMaps(Study):
    """Where in the picture each token of the answer was, from logits alone."""

    answer: str
    tokens: list[str] = Field(description="Of the answer.")
    places: list[str] = Field(description="Of each token, what the field `at` of POST /api/explanations takes.")
    grid: Grid
    maps: list[list[float]] = Field(description="Of each token, a number from 0 to 1 for each patch, in raster order.")


class AnswerTableRequest(Schema):
    """By which method."""

    method: str | None = Field(None, max_length=1000, description="A spec, whose maps are the rows; none: input_x_gradient:attnlrp.")


class AnswerTable(Study):
    """What each word of the prompt did for each word of the answer."""

    method: str
    title: str = Field(description="Of the method.")
    signed: bool = Field(description="Whether scores are for and against.")
    answer: str
    rows: list[str] = Field(description="The words of the answer.")
    places: list[str] = Field(description="Of each row, what the field `at` of POST /api/explanations takes.")
    columns: list[str] = Field(description="The words of the prompt.")
    logits: list[float] = Field(description="Of each row, the sum of the logits of its tokens.")
    scores: list[list[float]] = Field(description="A row a word of the answer, a column a word of the prompt.")
