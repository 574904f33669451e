"""Tables over runs, each figure as it is printed."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from vitrine_server.schemas.base import Schema


class TableHead(Schema):
    """A heading above several columns, and the number of columns below it."""

    head: str
    columns: int


class TableColumn(Schema):
    """A column of a table: its heads, the one that is printed, and whether low or high figures are better."""

    head: list[str] = Field(description="From the outermost level to its own.")
    printed: str = Field(description="Its own head with its unit and an arrow to the better end.")
    direction: Literal["lower", "higher"] | None


class TableCell(Schema):
    """One figure of a table: its value, how it is printed, its interval and number of inputs, and whether it is the best or ties with
    it.
    """

    value: float | None
    printed: str
    spread: str = Field(description="Its interval, or its standard error.")
    count: str = Field(description="Of how many inputs it is, where others have a value.")
    note: int | None = Field(description="Its place among the numbered notes, from 1.")
    best: bool
    star: bool = Field(description="Whether it cannot be told from the best.")


class TableRow(Schema):
    """One row of a table: its title, the spec of its method if it has one, and its cells."""

    title: str
    spec: str = Field(description="Of the method; empty where rows are no methods.")
    cells: list[TableCell]


class TableChoice(Schema):
    """The name and title of a model, data set or family that can be selected for a table."""

    name: str
    title: str


class TableMetric(TableChoice):
    """A metric that can be selected: its name, title and family."""

    family: str


class TableChoices(Schema):
    """All models, data sets, metrics and families that can be selected for a table of runs."""

    models: list[str]
    datasets: list[TableChoice]
    metrics: list[TableMetric]
    metric_families: list[TableChoice]
    method_families: list[TableChoice]


class RunTable(Schema):
    """A table of results over runs: its title, heads, columns and rows, how many rows the whole has, and its notes."""

    title: str
    rows_are: str
    upper_heads: list[list[TableHead]] = Field(description="The heads of each outer level, the outermost first.")
    columns: list[TableColumn]
    row_count: int = Field(description="How many rows the whole table has.")
    rows: list[TableRow]
    legend: list[str] = Field(description="What the marks say that occur.")
    notes: list[str]
    numbered_notes: list[str] = Field(description="What cells refer to by number.")
