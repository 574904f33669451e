"""A table as curves: what a paper draws over a number that its columns have as heads."""

from __future__ import annotations

import math
from itertools import groupby
from pathlib import Path

from jinja2 import Environment, FileSystemLoader

from explainers.evaluation.tables.record import Table

__all__ = ["curves_of"]

_WIDTH, _HEIGHT = 440, 300  # size of the axes in pixels
_TICKS = 5  # about how many ticks an axis has
_HUES = ("#ba4e00", "#0f62fe", "#007d79", "#6f6f6f", "#b28600", "#8a3ffc", "#d12771", "#24a148")
_DASHES = ("", "6 3", "2 3")  # dash patterns of further rows, where there are more rows than hues


def curves_of(table: Table, x: str, y: str) -> str:
    """Draw ``table`` as curves and return the SVG text: one pair of axes for each model and data set, with a curve for each row of the
    table. The headings of the columns must be numbers: they are the positions along the x axis.

    ``x`` and ``y`` are the titles of the axes. A cell without a value is left out of its curve. Raises ValueError if a heading is no
    number.
    """
    panels = []
    for head, columns in groupby(enumerate(table.columns), lambda entry: entry[1].head[:-1]):
        places = [(place, float(column.head[-1]), 100.0 if column.unit == "share" else 1.0) for place, column in columns]
        lines = [
            [(number, value * factor) for place, number, factor in places if (value := row.cells[place].value) is not None]
            for row in table.rows
        ]
        panels.append(_panel(" on ".join(head), [number for _, number, _ in places], lines))
    is_share = any(column.unit == "share" for column in table.columns)
    marks = [
        {"title": row.title, "hue": _HUES[i % len(_HUES)], "dash": _DASHES[i // len(_HUES) % len(_DASHES)]}
        for i, row in enumerate(table.rows)
    ]
    templates = Environment(loader=FileSystemLoader(Path(__file__).parent), autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return templates.get_template("curves.svg.jinja").render(
        title=table.title, x=x, y=f"{y}, %" if is_share else y, panels=panels, marks=marks, width=_WIDTH, height=_HEIGHT
    )


def _panel(title: str, numbers: list[float], lines: list[list[tuple[float, float]]]) -> dict[str, object]:
    """Return the data for one pair of axes: its title, its ticks and the points of its curves, in pixels from its top left corner.
    ``numbers`` are the ticks of the x axis, ``lines`` the curves as lists of (x, y). The y axis begins at 0, or below.
    """
    values = [value for line in lines for _, value in line] or [0.0]
    ticks = _ticks(min(0.0, *values), max(0.0, *values))
    left, right = min(numbers), max(numbers)

    def at(number: float, value: float) -> tuple[str, str]:
        across = (number - left) / (right - left) if right > left else 0.5
        return f"{_WIDTH * across:.1f}", f"{_HEIGHT * (ticks[-1] - value) / (ticks[-1] - ticks[0]):.1f}"

    return {
        "title": title,
        "x_ticks": [(at(number, ticks[0])[0], f"{number:g}") for number in numbers],
        "y_ticks": [(at(left, tick)[1], f"{tick:g}") for tick in ticks],
        "lines": [[at(number, value) for number, value in line] for line in lines],
    }


def _ticks(low: float, high: float) -> list[float]:
    """Return round numbers at equal steps, from at most ``low`` to at least ``high``."""
    wanted = (high - low) / _TICKS or 1.0
    power = 10.0 ** math.floor(math.log10(wanted))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= wanted * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(step * number, 12) for number in range(first, max(last, first + 1) + 1)]
