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
#: The heading of the differences of a table.
DIFFERENCES_HEADING = "How it differs from the paper and its code:"
_ARROWS = {"higher": "↑", "lower": "↓", None: ""}


@dataclass(frozen=True)
class PrintedCell:
    """A cell as people read it, each part as text that is ready to print; empty for a missing part.

    value     the figure
    spread    the ends of its interval
    count     number of inputs, if other cells of the table have more
    note      number of its footnote; None if it has none
    is_best   whether it is the best of its column, printed bold
    has_star  whether it cannot be told from the best, and is not the best itself
    """

    value: str
    spread: str
    count: str
    note: int | None
    is_best: bool
    has_star: bool


def head_of(column: Column) -> str:
    """Return the heading of ``column`` as plain text: the innermost of its stacked headings, its unit (" %" for shares, nothing for plain
    numbers), and an arrow to the better end, such as ``Deletion % ↓``. There is no arrow if neither end is better.
    """
    unit = {"share": " %", "number": ""}.get(column.unit, f" ({column.unit})")
    return f"{column.head[-1]}{unit} {_ARROWS[column.direction]}".rstrip()


def printed_rows(table: Table) -> list[list[PrintedCell]]:
    """Return the cells of each row of ``table`` as people read them, a list of :class:`PrintedCell` for each row: text of the value,
    spread, count, note, and marks for the best and for ties.
    """
    notes, counts = table.numbered_notes, [table.counts(place) for place in range(len(table.columns))]
    return [
        [
            PrintedCell(
                value=cell.printed or format_value(cell.value, column.unit, column.decimals),
                spread=_spread(cell, column),
                count=counts[place][number],
                note=notes.get(cell.note),
                is_best=cell.best,
                has_star=cell.tied and not cell.best and cell.value is not None,
            )
            for place, (column, cell) in enumerate(zip(table.columns, row.cells, strict=True))
        ]
        for number, row in enumerate(table.rows)
    ]


def _spread(cell: Cell, column: Column) -> str:
    if cell.value is None:
        return ""
    low, high, error = (format_value(value, column.unit, column.decimals) for value in (cell.low, cell.high, cell.error))
    if has_interval(cell):
        return f"[{low}, {high}]"
    return "" if cell.error is None else f"±{error}"


def first_upper(text: str) -> str:
    """Return ``text`` with a capital first letter."""
    return text[:1].upper() + text[1:]


def to_csv(table: Table) -> str:
    """Return the table as CSV (RFC 4180): a row of heads, then one row for each cell.

    Each row holds the title of the cell's row, the levels of its column, the unit, the better direction, and all fields of the cell, with
    all digits.
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
    """Return the table in GitHub's Markdown with its notes below; heads of several levels are joined."""
    heads = [" · ".join([*column.head[:-1], head_of(column)]) for column in table.columns]
    lines = [f"**{_markdown(table.title)}**", "", _markdown_row(map(_markdown, [first_upper(table.rows_are), *heads]))]
    lines.append(_markdown_row(["---", *("---:" for _ in heads)]))
    for row, cells in zip(table.rows, printed_rows(table), strict=True):
        spec = f" `{row.spec}`" if row.spec and row.spec != row.title else ""
        lines.append(_markdown_row([_markdown(row.title) + spec.replace("|", r"\|"), *map(_markdown_cell, cells)]))
    notes = [*table.legend, *table.notes, *(f"[{number}] {note}" for note, number in table.numbered_notes.items())]
    differences = [f"- {DIFFERENCES_HEADING}", *(f"  - {_markdown(each)}" for each in table.differences)] if table.differences else []
    return "\n".join([*lines, "", *(f"- {_markdown(note)}" for note in notes), *differences]).rstrip() + "\n"


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


#: The number of letters of average width across the text of a page, upright and turned.
_LETTERS_ACROSS = {"table": 85, "sidewaystable": 125}
#: The width of a letter relative to the usual size, by the command that sets its size.
_LETTER_WIDTHS = {"": 1.0, r"\small": 0.9, r"\footnotesize": 0.8}
_INTERVAL_WIDTH = 0.7  # width of a letter of intervals, which are in \scriptsize
_TURNED_COMMENT = r"% wider than a page: needs \usepackage{rotating}"


def to_latex(table: Table) -> str:
    """Return the table in LaTeX for the package booktabs: heads of several levels over rules that join their columns, the best in bold.

    A table wider than a page is set in small letters; if it is still too wide it is turned, which needs the package rotating, and if that
    is not enough it is shrunk to the page.
    """
    columns, (name, size, is_shrunk) = len(table.columns), _latex_form(_letters_across(table))
    lines = [*([] if name == "table" else [_TURNED_COMMENT]), rf"\begin{{{name}}}", r"\centering", *([size] if size else [])]
    lines += [rf"\caption{{{_latex(table.title)}}}", *([r"\resizebox{\linewidth}{!}{%"] if is_shrunk else [])]
    lines += [rf"\begin{{tabular}}{{l{'r' * columns}}}", r"\toprule"]
    for level in range(len(table.levels) - 1):
        spans = list(table.spans(level))
        lines.append(_latex_row(["", *(rf"\multicolumn{{{width}}}{{c}}{{{_latex(head)}}}" for head, width in spans)]))
        ends = [2 + sum(width for _, width in spans[:place]) for place in range(len(spans) + 1)]
        lines.append("".join(rf"\cmidrule(lr){{{start}-{end - 1}}}" for start, end in pairwise(ends)))
    lines += [_latex_row(map(_latex, [first_upper(table.rows_are), *map(head_of, table.columns)])), r"\midrule"]
    for row, cells in zip(table.rows, printed_rows(table), strict=True):
        lines.append(_latex_row([_latex(row.title), *map(_latex_cell, cells)]))
    lines += [r"\bottomrule", r"\end{tabular}" + "}" * is_shrunk]
    numbered = [rf"\textsuperscript{{{number}}} {_latex(note)}" for note, number in table.numbered_notes.items()]
    sentences = (*table.legend, *table.notes, *([DIFFERENCES_HEADING, *table.differences] if table.differences else []))
    lines += [rf"\par {{\footnotesize {note}}}" for note in [*map(_latex, sentences), *numbered]]
    return "\n".join([*lines, rf"\end{{{name}}}"]) + "\n"


def _letters_across(table: Table) -> float:
    """Return the width of a table, in letters of the usual size: the widest cell of each column, and two more between columns."""
    rows = printed_rows(table)
    titles = max((len(text) for text in (table.rows_are, *(row.title for row in table.rows))), default=0)
    widths = []
    for place, column in enumerate(table.columns):
        cells = [cells[place] for cells in rows]
        figures = [len(cell.value) + _INTERVAL_WIDTH * len(f" {cell.spread} {cell.count}".rstrip()) for cell in cells]
        widths.append(max(len(head_of(column)), *figures, 0))
    return titles + sum(width + 2 for width in widths)


def _latex_form(width: float) -> tuple[str, str, bool]:
    """Return how a table of ``width``, in letters of the usual size, is set on a page: the LaTeX environment (``table`` or
    ``sidewaystable``), the command for the size of its letters ("" for the usual one), and whether it must be shrunk even so.
    """
    for name, across in _LETTERS_ACROSS.items():
        for size, letter_width in _LETTER_WIDTHS.items():
            if letter_width * width <= across:
                return name, size, False
    return name, size, True


def _latex(text: str) -> str:
    return "".join(_LATEX.get(char, char) for char in " ".join(text.split()))


def _latex_row(cells: Iterable[str]) -> str:
    return rf"{' & '.join(cells)} \\"


def _latex_cell(cell: PrintedCell) -> str:
    value = rf"\textbf{{{_latex(cell.value)}}}" if cell.is_best else _latex(cell.value) + "*" * cell.has_star
    small = [rf"{{\scriptsize {_latex(part)}}}" for part in (cell.spread, cell.count) if part]
    return " ".join([value, *small]) + ("" if cell.note is None else rf"\textsuperscript{{{cell.note}}}")


def to_html(*tables: Table, drawing: str = "") -> str:
    """Return one page of HTML, which needs no other files, with the ``tables`` below each other. ``drawing``, the text of an SVG, follows
    the first table.
    """
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
    return templates.get_template("table.html.jinja").render(
        title=tables[0].title, parts=parts, differs=DIFFERENCES_HEADING, drawing=drawing
    )
