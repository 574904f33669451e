"""The report on slices: a sentence each, its figures, its tests and ten of its rows, as one page of HTML that needs nothing else."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw

from explainers.collection.intervals import Mean, Share
from explainers.collection.records import CollectedRow
from explainers.collection.report_parts import drawn_map, percent, png_text, rows_at, thumbnails_at, with_interval
from explainers.collection.result import Collection
from explainers.collection.slices.records import CopyTest, HidingTest, Slice, SliceExample, Slices
from explainers.evaluation.html import page_templates
from explainers.evaluation.rows import write_text
from explainers.evaluation.statistics import ALPHA

SLICES, SLICES_PAGE = "slices.json", "slices.html"  # files in the folder of the collection
MAP_SIDE = 120  # pixels of the picture and of the map of an example
_LINES = ("#111111", "#ffffff")  # the outline of a place, a pixel each from outside, so that it is seen on any picture
_OTHERS_IN_WORDS = {
    True: "right rows",
    False: "rows with other answers that were chosen in the same way",
}


@dataclass(frozen=True)
class _Bar:
    """A share as a bar with its interval, in per cent of the width."""

    name: str
    text: str
    value: float
    low: float
    high: float


def write_report(result: Slices, collection: Collection, folder: Path | None = None) -> Path:
    """Write ``slices.json`` and the page ``slices.html`` on the slices of ``collection`` to ``folder``, by default that of the collection,
    where the page Collection links it. Returns the path of the page.
    """
    folder = collection.folder if folder is None else folder
    folder.mkdir(parents=True, exist_ok=True)
    indices = sorted({example.index for each in result.slices for example in each.examples})
    rows, pictures = rows_at(collection, indices), thumbnails_at(collection, indices)
    page = (
        page_templates(Path(__file__).parent)
        .get_template("page.html.jinja")
        .render(
            title=f"Slices of {Path(result.data).name} by {Path(result.model).name}",
            result=result,
            summary=in_words(result),
            slices=[
                {
                    "sentence": each.sentence,
                    "bars": _bars(each),
                    "tests": figures_in_words(each),
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


def in_words(result: Slices) -> list[str]:
    """Return sentences on the search: how many slices there are, of how many that were tried."""
    count = len(result.slices)
    sentences = [
        f"{'No slice' if not count else '1 slice' if count == 1 else f'{count} slices'} in {result.inputs} rows. "
        f"{result.wrong} wrong and {result.doubtful} right rows were searched, and {result.tried} slices tried. "
        f"By chance at most {ALPHA:.0%} of such searches find a slice.".replace("%", " %")
    ]
    if result.without_effect:
        were = "1 more was" if result.without_effect == 1 else f"{result.without_effect} more were"
        sentences.append(f"{were} left out: copied into rows with other answers, what they name does not carry the answer over.")
    return sentences


def figures_in_words(each: Slice) -> list[str]:
    """Return sentences on how far chance explains a slice, and on what became of the answers with and without what it names."""
    others = "rows with other answers" if each.kind == "right" else _OTHERS_IN_WORDS[each.answer is None]
    sentences = [
        f"In the half of the rows that was not searched, {with_interval(each.share)} of the {each.share.of} rows do so, and "
        f"{with_interval(each.others)} of the {each.others.of} {others}: p = {each.p:.2g}."
    ]
    if each.copy_test is not None:
        sentences += _copy_in_words(each, each.copy_test)
    if each.test is not None:
        sentences += _hiding_in_words(each.test)
    return sentences


def _copy_in_words(each: Slice, test: CopyTest) -> list[str]:
    if test.copied.value is None or test.elsewhere.value is None:
        return []
    copied, others, elsewhere = (
        ("Copied into pictures with other answers, the place", "what lies elsewhere", "what lies elsewhere")
        if each.word is None
        else (f"Put into texts with other answers, the word {each.word!r}", "another word of its text", "another word")
    )
    return [
        f"{copied} makes the answer {_hundredfold(test.copied.value)} % probable, {others} {_hundredfold(test.elsewhere.value)} %: "
        f"{_points(test.difference)} more.",
        f"They get this answer: {_count(test.changed)}; by {elsewhere}: {_count(test.changed_elsewhere)}.",
    ]


def _hiding_in_words(test: HidingTest) -> list[str]:
    if test.fall.value is None or test.elsewhere.value is None:
        return []
    return [
        f"Without it the probability of the answer falls by {_hundredfold(test.fall.value)} points, with as much hidden elsewhere by "
        f"{_hundredfold(test.elsewhere.value)}: {_points(test.difference)} more.",
        f"Another answer without it: {_count(test.changed)}; with as much hidden elsewhere: {_count(test.changed_elsewhere)}.",
    ]


def _hundredfold(value: float) -> str:
    """Format 100 times a value with one digit, without the sign of a rounded zero."""
    return f"{round(100 * value, 1) + 0.0:.1f}"


def _points(mean: Mean) -> str:
    """Format a difference of probabilities in points, with its interval."""
    if mean.value is None:
        return "–"
    ends = "" if mean.low is None or mean.high is None else f" ({_hundredfold(mean.low)} to {_hundredfold(mean.high)})"
    return f"{_hundredfold(mean.value)} points{ends}"


def _count(each: Share) -> str:
    return "–" if each.value is None else f"{each.count} of {each.of}, {with_interval(each)}"


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
    outlined = None if picture is None else png_text(_outlined(picture, each.patches, (row.grid[0], row.grid[1])))
    return {
        "input": example.input,
        "answer": row.answer,
        "probability": row.probability,
        "labels": row.labels,
        "outlined": outlined,
        **drawn,
    }


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
