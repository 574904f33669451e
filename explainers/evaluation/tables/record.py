"""A table as plain data: rows of methods, columns with heads of several levels, and what is known of each cell."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from explainers.metrics.registry import Direction

#: The default names of the levels of a head.
LEVELS = ("model", "data set", "metric")


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One figure of a table.

    value       None if it has no meaning or is not available; the ``note`` says why
    low, high   ends of its interval; None if they are not known
    error       its standard error; None if it is not known
    inputs      number of inputs that the value is based on; None if unknown
    of          number of inputs that could have a value
    best        whether it is the best of its column
    tied        whether it is tied with the best
    note        a sentence that a reader of the value needs; may be empty
    printed     the value as its source prints it; empty: it is printed like all values
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    error: float | None = None
    inputs: int | None = None
    of: int | None = None
    best: bool = False
    tied: bool = False
    note: str = ""
    printed: str = ""


@dataclass(frozen=True)
class Column:
    """The description of a column.

    head        the headings above it, from the outermost level to its own
    unit        ``share``: values are printed in per cent; ``number``: as they are; any other unit, such as ``s``, is named in the heading
    direction   "lower" or "higher": which values are better; None if neither is
    decimals    number of decimals that are printed; None: one for a share, three significant digits for other numbers
    """

    head: tuple[str, ...]
    unit: str = "number"
    direction: Direction | None = None
    decimals: int | None = None


@dataclass(frozen=True)
class Row:
    """A row of a table.

    title  its heading
    spec   the spec of its method; empty if it has none
    cells  one for each column
    """

    title: str
    spec: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Table:
    """A table: its title, notes for its reader (a sentence each), its columns and its rows.

    rows_are     what a row stands for, such as "method"
    levels       name of each level of the heads, the outermost first
    differences  how it differs from the table that it follows, a sentence each; empty if it follows none

    Raises ValueError if a row has not one cell for each column, or a head not one part for each level.
    """

    title: str
    notes: tuple[str, ...]
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    rows_are: str = "method"
    levels: tuple[str, ...] = LEVELS
    differences: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for column in self.columns:
            if len(column.head) != len(self.levels):
                raise ValueError(f"the head {column.head} has not one part for each of {self.levels}")
        for row in self.rows:
            if len(row.cells) != len(self.columns):
                raise ValueError(f"the row {row.title!r} has {len(row.cells)} cells, the table {len(self.columns)} columns")

    @property
    def numbered_notes(self) -> dict[str, int]:
        """The notes of cells, each once, with numbers from 1 in the order in which they are read."""
        notes = dict.fromkeys(cell.note for row in self.rows for cell in row.cells if cell.note)
        return {note: number for number, note in enumerate(notes, 1)}

    def spans(self, level: int) -> Iterator[tuple[str, int]]:
        """Yield the heads of a level from left to right, with the number of columns below each: neighbours with equal heads so far share
        one.
        """
        for head, columns in groupby(self.columns, lambda column: column.head[: level + 1]):
            yield head[-1], len(list(columns))

    def counts(self, place: int) -> list[str]:
        """Return for each row, in the column number ``place``, on how many inputs its value is based, such as "48 of 60"; an empty text if
        all inputs have a value.

        If a cell does not say how many inputs could have a value, the largest number in the column is taken.
        """
        cells = [row.cells[place] for row in self.rows]
        most = max((cell.inputs for cell in cells if cell.inputs is not None), default=0)
        known = [(cell.inputs if cell.value is not None else None, most if cell.of is None else cell.of) for cell in cells]
        return [f"{inputs} of {of}" if inputs is not None and inputs < of else "" for inputs, of in known]

    @property
    def legend(self) -> tuple[str, ...]:
        """The explanations of the marks in the cells, a sentence each for those that occur."""
        cells = [cell for row in self.rows for cell in row.cells if cell.value is not None]
        counted = any(count for place in range(len(self.columns)) for count in self.counts(place))
        sentences = {
            "Bold: the best.": any(cell.best for cell in cells),
            "*: cannot be told from the best.": any(cell.tied and not cell.best for cell in cells),
            "In brackets: the interval.": any(has_interval(cell) for cell in cells),
            "±: one standard error.": any(cell.error is not None and not has_interval(cell) for cell in cells),
            "n of m: so many of the inputs have a value; the others are left out of it.": counted,
        }
        return tuple(sentence for sentence, occurs in sentences.items() if occurs)


def has_interval(cell: Cell) -> bool:
    """Return whether both ends of the confidence interval of ``cell`` are known."""
    return cell.low is not None and cell.high is not None
