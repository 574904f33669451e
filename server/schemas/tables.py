"""Tables over runs, each figure as it is printed."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from server.schemas.base import Schema


class TableHead(Schema):
    """A head of an outer level, and over how many columns it stands."""

    head: str
    columns: int


class TableColumn(Schema):
    """A column of a table."""

    head: list[str] = Field(description="From the outermost level to its own.")
    printed: str = Field(description="Its own head with its unit and an arrow to the better end.")
    direction: Literal["lower", "higher"] | None


class TableCell(Schema):
    """A figure."""

    value: float | None
    printed: str
    spread: str = Field(description="Its interval, or its standard error.")
    count: str = Field(description="Of how many inputs it is, where others have a value.")
    note: int | None = Field(description="Its place among the numbered notes, from 1.")
    best: bool
    star: bool = Field(description="Whether it cannot be told from the best.")


class TableRow(Schema):
    """A row of a table."""

    title: str
    spec: str = Field(description="Of the method; empty where rows are no methods.")
    cells: list[TableCell]


class TableChoice(Schema):
    """Something that can be selected."""

    name: str
    title: str


class TableMetric(TableChoice):
    """A metric that can be selected."""

    family: str


class TableChoices(Schema):
    """What can be selected of the runs."""

    models: list[str]
    datasets: list[TableChoice]
    metrics: list[TableMetric]
    metric_families: list[TableChoice]
    method_families: list[TableChoice]


class RunTable(Schema):
    """Runs in one table."""

    title: str
    rows_are: str
    upper_heads: list[list[TableHead]] = Field(description="The heads of each outer level, the outermost first.")
    columns: list[TableColumn]
    rows: list[TableRow]
    legend: list[str] = Field(description="What the marks say that occur.")
    notes: list[str]
    numbered_notes: list[str] = Field(description="What cells refer to by number.")
