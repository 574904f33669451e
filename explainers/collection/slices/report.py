"""The report on slices: a sentence each, its figures, its tests and ten of its rows, as one page of HTML that needs nothing else."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw

from explainers.collection.records import CollectedRow
from explainers.collection.report_parts import drawn_map, percent, png_text, rows_at, thumbnails_at
from explainers.collection.result import Collection
from explainers.collection.slices.records import Slice, SliceExample, Slices
from explainers.collection.slices.words import figures_in_words, finding_of, in_words
from explainers.evaluation.html import page_templates
from explainers.evaluation.rows import write_text
from explainers.methods import parse

SLICES, SLICES_PAGE = "slices.json", "slices.html"  # files in the folder of the collection
MAP_SIDE = 120  # pixels of the picture and of the map of an example
_LINES = ("#111111", "#ffffff")  # the outline of a place, a pixel each from outside, so that it is seen on any picture
_ENLARGED_AROUND = 1  # patches around a place that are shown with it: what lies there may reach beyond
_MOST_ENLARGED = 0.5  # of the picture, beyond which a place is not enlarged


@dataclass(frozen=True)
class _Bar:
    """A share as a bar with its interval, in per cent of the width."""

    name: str
    text: str
    value: float
    low: float
    high: float


def rows_of_slices(folder: Path) -> frozenset[int]:
    """Return the indices of the rows that belong to a slice of the report in ``folder``; empty if there is none, or it cannot be read."""
    try:
        document = json.loads((folder / SLICES).read_text("utf-8"))
        return frozenset(int(index) for each in document["slices"] for index in each["rows"])
    except (OSError, ValueError, KeyError, TypeError):
        return frozenset()


def write_report(result: Slices, collection: Collection, folder: Path | None = None, title: str = "") -> Path:
    """Write ``slices.json`` and the page ``slices.html`` on the slices of ``collection`` to ``folder``, by default that of the collection,
    where the page Collection links it. ``title`` names the data, by
    default as the collection does. Returns the path of the page.
    """
    folder = collection.folder if folder is None else folder
    folder.mkdir(parents=True, exist_ok=True)
    indices = sorted({example.index for each in result.slices for example in each.examples})
    rows, pictures = rows_at(collection, indices), thumbnails_at(collection, indices)
    page = (
        page_templates(Path(__file__).parent)
        .get_template("page.html.jinja")
        .render(
            title=f"Slices of {title or Path(result.data).name} by {Path(result.model).name}",
            method=parse(result.method).name.title,
            summary=in_words(result),
            slices=[
                {
                    "sentence": each.sentence,
                    "untested": each.test is None,
                    "finding": finding_of(each),
                    "bars": _bars(each),
                    "figures": figures_in_words(each),
                    "examples": [
                        _example(each, example, rows[example.index], pictures.get(example.index), result.method)
                        for example in each.examples
                    ],
                }
                for each in result.slices
            ],
        )
    )
    write_text(folder / SLICES, json.dumps(result.to_json(), indent=1, ensure_ascii=False))
    write_text(folder / SLICES_PAGE, page)
    return folder / SLICES_PAGE


def _bars(each: Slice) -> list[_Bar]:
    """Return the shares of a slice and of the rows to compare with as bars; none of no rows."""
    names = ("wrong rows", "right rows") if each.answer is None else ("with this answer", "with other answers")
    named = zip(names, (each.share, each.others), strict=True)
    return [
        _Bar(name, percent(share), 100 * share.value, 100 * share.low, 100 * share.high)
        for name, share in named
        if share.value is not None and share.low is not None and share.high is not None
    ]


def _example(each: Slice, example: SliceExample, row: CollectedRow, picture: Image.Image | None, method: str) -> dict[str, Any]:
    """Return one of the rows of a slice, as the template draws it: with its words, or its picture with the place outlined and its map."""
    drawn = drawn_map(row, method, picture, MAP_SIDE)
    outlined = enlarged = None
    if picture is not None:
        grid = (row.grid[0], row.grid[1])
        outlined = png_text(_outlined(picture, each.patches, grid))
        part = _enlarged(picture, each.patches, grid)
        enlarged = None if part is None else png_text(part)
    return {
        "input": example.input,
        "enlarged": enlarged,
        "answer": row.answer,
        "probability": row.probability,
        "labels": row.labels,
        "outlined": outlined,
        **drawn,
    }


def _enlarged(picture: Image.Image, patches: list[int], grid: tuple[int, int]) -> Image.Image | None:
    """Return the part of ``picture`` with ``patches`` of a grid (rows, columns) and those around them, its longer side ``MAP_SIDE``; None
    for patches that lie all over it.
    """
    rows, columns = ([patch // grid[1] for patch in patches], [patch % grid[1] for patch in patches])
    top, left = (max(0, min(each) - _ENLARGED_AROUND) for each in (rows, columns))
    bottom, right = (min(most, max(each) + 1 + _ENLARGED_AROUND) for each, most in zip((rows, columns), grid, strict=True))
    if (bottom - top) * (right - left) > _MOST_ENLARGED * grid[0] * grid[1]:
        return None
    across, down = picture.width / grid[1], picture.height / grid[0]
    part = picture.convert("RGB").crop((round(left * across), round(top * down), round(right * across), round(bottom * down)))
    factor = MAP_SIDE / max(part.size)
    return part.resize((max(1, round(part.width * factor)), max(1, round(part.height * factor))), Image.Resampling.LANCZOS)


def _outlined(picture: Image.Image, patches: list[int], grid: tuple[int, int]) -> Image.Image:
    """Return ``picture`` with the longer side ``MAP_SIDE``, and a line around ``patches`` of a grid (rows, columns)."""
    factor = MAP_SIDE / max(picture.size)
    width, height = (max(1, round(side * factor)) for side in picture.size)
    drawn = picture.convert("RGB").resize((width, height), Image.Resampling.LANCZOS)
    pencil = ImageDraw.Draw(drawn)
    named = {divmod(patch, grid[1]) for patch in patches}
    for row, column in named:
        left, right = (width * each // grid[1] for each in (column, column + 1))
        top, bottom = (height * each // grid[0] for each in (row, row + 1))
        for inset, colour in enumerate(_LINES):
            x0, x1, y0, y1 = left + inset, right - 1 - inset, top + inset, bottom - 1 - inset
            sides = {
                (row - 1, column): (left, y0, right - 1, y0),
                (row + 1, column): (left, y1, right - 1, y1),
                (row, column - 1): (x0, top, x0, bottom - 1),
                (row, column + 1): (x1, top, x1, bottom - 1),
            }
            for neighbour, line in sides.items():
                if neighbour not in named:
                    pencil.line(line, fill=colour)
    return drawn
