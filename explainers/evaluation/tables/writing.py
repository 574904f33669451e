"""A table as text: CSV for programs, Markdown, LaTeX for papers, and one page of HTML that needs nothing else.

CSV has a line a cell and all digits. The others print what people read: figures with intervals, the best in bold, a star where a figure
cannot be told from it, and what must be known below.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from jinja2 import Environment, FileSystemLoader

from explainers.evaluation.html import format_value
from explainers.evaluation.tables.record import Cell, Column, Table, has_interval

_FIGURES = ("value", "low", "high", "error", "inputs", "of", "best", "tied", "note")
_ARROWS = {"higher": "↑", "lower": "↓", None: ""}


@dataclass(frozen=True)
class PrintedCell:
    """A cell as people read it: the figure, how sure it is, of how many inputs where others are of more, and the number of its note."""

    value: str
    spread: str
    count: str
    note: int | None
    is_best: bool
    has_star: bool


def head_of(column: Column) -> str:
    """The innermost head of a column, with its unit and an arrow to the better end."""
    unit = {"share": " %", "number": ""}.get(column.unit, f" ({column.unit})")
    return f"{column.head[-1]}{unit} {_ARROWS[column.direction]}".rstrip()


def printed_rows(table: Table) -> list[list[PrintedCell]]:
    """The cells of each row as people read them."""
    notes, counts = table.numbered_notes, [table.counts(place) for place in range(len(table.columns))]
    return [
        [
            PrintedCell(
                value=cell.printed or format_value(cell.value, column.unit),
                spread=_spread(cell, column.unit),
                count=counts[place][number],
                note=notes.get(cell.note),
                is_best=cell.best,
                has_star=cell.tied and not cell.best and cell.value is not None,
            )
            for place, (column, cell) in enumerate(zip(table.columns, row.cells, strict=True))
        ]
        for number, row in enumerate(table.rows)
    ]


def _spread(cell: Cell, unit: str) -> str:
    if cell.value is None:
        return ""
    if has_interval(cell):
        return f"[{format_value(cell.low, unit)}, {format_value(cell.high, unit)}]"
    return "" if cell.error is None else f"±{format_value(cell.error, unit)}"


def first_upper(text: str) -> str:
    """A text that begins with a capital letter."""
    return text[:1].upper() + text[1:]


def to_csv(table: Table) -> str:
    """A line a cell below a line of heads (RFC 4180): its row, the levels of its column, unit and better end, and all that is known of it,
    numbers with all their digits.
    """
    text = io.StringIO()
    lines = csv.writer(text)
    lines.writerow([table.rows_are, "spec", *table.levels, "unit", "better", *_FIGURES])
    for row in table.rows:
        for column, cell in zip(table.columns, row.cells, strict=True):
            figures = [getattr(cell, name) for name in _FIGURES]
            lines.writerow([row.title, row.spec, *column.head, column.unit, column.direction or "", *figures])
    return text.getvalue()


def to_markdown(table: Table) -> str:
    """A table of GitHub's Markdown with its notes below; heads of several levels stand in one line."""
    heads = [" · ".join([*column.head[:-1], head_of(column)]) for column in table.columns]
    lines = [f"**{_markdown(table.title)}**", "", _markdown_row(map(_markdown, [first_upper(table.rows_are), *heads]))]
    lines.append(_markdown_row(["---", *("---:" for _ in heads)]))
    for row, cells in zip(table.rows, printed_rows(table), strict=True):
        spec = f" `{row.spec}`" if row.spec and row.spec != row.title else ""
        lines.append(_markdown_row([_markdown(row.title) + spec.replace("|", r"\|"), *map(_markdown_cell, cells)]))
    notes = [*table.legend, *table.notes, *(f"[{number}] {note}" for note, number in table.numbered_notes.items())]
    return "\n".join([*lines, "", *(f"- {_markdown(note)}" for note in notes)]).rstrip() + "\n"


def _markdown(text: str) -> str:
    return re.sub(r"([\\`*|<\[\]])|(?<!\w)_|_(?!\w)", r"\\\g<0>", " ".join(text.split()))


def _markdown_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _markdown_cell(cell: PrintedCell) -> str:
    value = f"**{cell.value}**" if cell.is_best else cell.value + r"\*" * cell.has_star
    note = "" if cell.note is None else rf"\[{cell.note}\]"
    return " ".join(part for part in (value, _markdown(cell.spread), cell.count, note) if part)


_LATEX = {
    **{char: f"\\{char}" for char in "&%$#_{}"},
    **{"[": "{[}", "]": "{]}"},  # after \\ an opening bracket would be read as a length
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "|": r"\textbar{}"},
    **{"<": r"\textless{}", ">": r"\textgreater{}", "–": "--", "…": r"\dots{}"},
    **{"↑": r"$\uparrow$", "↓": r"$\downarrow$", "±": r"$\pm$", "×": r"$\times$", "·": r"$\cdot$", "−": "$-$"},
}


def to_latex(table: Table) -> str:
    """A ``table`` for the package booktabs: heads of several levels over rules that join their columns, the best in bold."""
    columns = len(table.columns)
    lines = [r"\begin{table}", r"\centering", rf"\caption{{{_latex(table.title)}}}", rf"\begin{{tabular}}{{l{'r' * columns}}}", r"\toprule"]
    for level in range(len(table.levels) - 1):
        spans = list(table.spans(level))
        lines.append(_latex_row(["", *(rf"\multicolumn{{{width}}}{{c}}{{{_latex(head)}}}" for head, width in spans)]))
        ends = [2 + sum(width for _, width in spans[:place]) for place in range(len(spans) + 1)]
        lines.append("".join(rf"\cmidrule(lr){{{start}-{end - 1}}}" for start, end in pairwise(ends)))
    lines += [_latex_row(map(_latex, [first_upper(table.rows_are), *map(head_of, table.columns)])), r"\midrule"]
    for row, cells in zip(table.rows, printed_rows(table), strict=True):
        lines.append(_latex_row([_latex(row.title), *map(_latex_cell, cells)]))
    lines += [r"\bottomrule", r"\end{tabular}"]
    numbered = [rf"\textsuperscript{{{number}}} {_latex(note)}" for note, number in table.numbered_notes.items()]
    lines += [rf"\par {{\footnotesize {note}}}" for note in [*map(_latex, (*table.legend, *table.notes)), *numbered]]
    return "\n".join([*lines, r"\end{table}"]) + "\n"


def _latex(text: str) -> str:
    return "".join(_LATEX.get(char, char) for char in " ".join(text.split()))


def _latex_row(cells: Iterable[str]) -> str:
    return rf"{' & '.join(cells)} \\"


def _latex_cell(cell: PrintedCell) -> str:
    value = rf"\textbf{{{_latex(cell.value)}}}" if cell.is_best else _latex(cell.value) + "*" * cell.has_star
    small = [rf"{{\scriptsize {_latex(part)}}}" for part in (cell.spread, cell.count) if part]
    return " ".join([value, *small]) + ("" if cell.note is None else rf"\textsuperscript{{{cell.note}}}")


def to_html(*tables: Table) -> str:
    """One page of one or more tables, one below the other, which needs nothing else."""
    here = Path(__file__).parent
    templates = Environment(loader=FileSystemLoader([here, here.parent]), autoescape=True, trim_blocks=True, lstrip_blocks=True)
    parts = [
        {
            "table": table,
            "corner": first_upper(table.rows_are),
            "upper_heads": [list(table.spans(level)) for level in range(len(table.levels) - 1)],
            "heads": [head_of(column) for column in table.columns],
            "rows": list(zip(table.rows, printed_rows(table), strict=True)),
        }
        for table in tables
    ]
    return templates.get_template("table.html.jinja").render(title=tables[0].title, parts=parts)
