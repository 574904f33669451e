"""What is asked about an answer that a model wrote, and what is answered."""

from __future__ import annotations

from pydantic import Field

from explainers.analysis.answer_table import AnswerTable as Table
from explainers.analysis.token_activation import TokenActivationMaps
from explainers.json_records import schema_of
from vitrine_server.schemas.base import Grid, Schema
from vitrine_server.schemas.studies import Study


class TokenMapsRequest(Schema):
    """Empty: there are no options."""


class MapsOnGrid(Study):
    """Maps of the tokens of an answer on the grid of one picture."""

    grid: Grid
    maps: list[list[float]] = Field(description="Of each token, a number from 0 to 1 for each patch, in raster order.")


TokenMaps = schema_of(TokenActivationMaps, base=MapsOnGrid)


class AnswerTableRequest(Schema):
    """The method by whose maps to make the table of an answer."""

    method: str | None = Field(None, max_length=1000, description="A spec, whose maps are the rows; none: input_x_gradient:attnlrp.")


AnswerTable = schema_of(Table, base=Study, without=("model", "prompt"))
