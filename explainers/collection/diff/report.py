"""The report on two models: sentences, tables, and the rows to look at first, as one page of HTML that needs nothing else."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from explainers.collection.diff.difference import Difference, RowDifference
from explainers.collection.intervals import Mean, Share
from explainers.collection.records import LARGEST_INT8, CollectedRow
from explainers.collection.result import THUMBNAILS, Collection
from explainers.evaluation.html import page_templates
from explainers.evaluation.reporting import PAGE
from explainers.evaluation.rows import ROWS, write_text
from explainers.methods import parse
from explainers.rendering.overlays import lay_over, map_picture

MAP_SIDE = 192  # pixels of a map of one of the rows
MEAN_MAP_SIDE = 220
MOST_PATCHES = 6  # that are named in a sentence

_LESS_ALIKE = {
    "reference": "less alike than those of the old and the third model are in 95 % of the inputs",
    "mirror": "less alike than those of the old model for a picture and its mirror image are in 95 % of the pictures",
    "rows": "far less alike than those of the other inputs (below the lower fence)",
}


def in_words(difference: Difference) -> list[str]:
    """Return sentences on what changed: the answers, the reasons, and what chance does to these."""
    sentences = []
    if difference.old_right.of:
        sentences.append(
            f"Right answers: {percent(difference.old_right)} before, {percent(difference.new_right)} after, "
            f"of {difference.new_right.of} inputs with a label."
        )
    judged = f" ({difference.wrong_now.count} right before and wrong now, {difference.right_now.count} the other way round)"
    sentences.append(
        f"{difference.changed.count} of {difference.inputs} answers changed{judged if difference.old_right.of else ''}: "
        f"{with_interval(difference.changed)}."
    )
    if difference.grid:
        sentences.append(_patches_in_words(difference))
    null, reasons = difference.null, difference.other_reason
    if null.threshold is None:
        return [*sentences, f"Whether reasons changed cannot be said: only {null.rows} inputs have maps to compare with."]
    sentences.append(
        f"{reasons.count} of {reasons.of} answers that stayed stand for another reason: {with_interval(reasons)}. These are those whose "
        f"maps are {_LESS_ALIKE[null.kind]}: r < {null.threshold:.2f}."
    )
    if null.expected is None:
        sentences.append("A change that all inputs share cannot be seen this way: name a third model with --reference.")
    else:
        sentences.append(
            f"{'More' if difference.has_other_reasons else 'No more'} than chance explains, which is {100 * null.expected:.0f} % at most."
        )
    return sentences


def _patches_in_words(difference: Difference) -> str:
    """Return a sentence on the patches that the maps moved to."""
    total = difference.grid[0] * difference.grid[1]
    risen = [patch for patch in difference.patches if patch.new > patch.old]
    if not risen:
        return f"None of the {total} patches has more of the maps than before in more pictures than chance explains."
    named = "; ".join(
        f"row {patch.row + 1}, column {patch.column + 1} ({100 * patch.old:.1f} % before, {100 * patch.new:.1f} % after)"
        for patch in risen[:MOST_PATCHES]
    )
    return (
        f"{len(risen)} of {total} patches {'has' if len(risen) == 1 else 'have'} more of the maps than before in more pictures than chance "
        f"explains: {named}{'; and others' if len(risen) > MOST_PATCHES else ''}."
    )


def percent(share: Share) -> str:
    """Format a share for people."""
    return "–" if share.value is None else f"{100 * share.value:.1f} %"


def with_interval(share: Share) -> str:
    """Format a share with its interval."""
    return "–" if share.low is None or share.high is None else f"{percent(share)} ({100 * share.low:.1f} to {100 * share.high:.1f})"


def mean_percent(mean: Mean, signed: bool = False) -> str:
    """Format a mean of shares as a number of per cent, with its interval where ``signed``: a difference."""
    if mean.value is None:
        return "–"
    if not signed:
        return f"{100 * mean.value:.1f}"
    ends = "" if mean.low is None or mean.high is None else f" ({100 * mean.low:+.1f} to {100 * mean.high:+.1f})"
    return f"{100 * mean.value:+.1f}{ends}"


def place_rows(difference: Difference) -> list[tuple[str, ...]]:
    """Return the rows of a table of shares before and after, in per cent: method, where, old, new, difference with interval, inputs."""
    return [
        (
            place.method,
            {"object": "on the object", "border": "on the border"}[place.place],
            mean_percent(place.old),
            mean_percent(place.new),
            mean_percent(place.difference, signed=True),
            str(place.difference.inputs),
        )
        for place in difference.places
    ]


def word_rows(difference: Difference) -> list[tuple[str, ...]]:
    """Return the rows of a table of words: the word, its share before and after, the difference with interval, texts with it."""
    return [
        (
            word.word,
            mean_percent(word.old),
            mean_percent(word.new),
            mean_percent(word.difference, signed=True),
            str(word.difference.inputs),
        )
        for word in difference.words
    ]


def write_page(difference: Difference, old: Collection, new: Collection, folder: Path) -> None:
    """Write ``report.html`` of a difference between two collections to ``folder``."""
    worst = difference.worst()
    indices = [row.index for row in worst]
    before, after = _rows_at(old, indices), _rows_at(new, indices)
    pictures = _thumbnails_at(old, indices)
    page = (
        page_templates(Path(__file__).parent)
        .get_template("page.html.jinja")
        .render(
            title=f"{difference.old} and {difference.new} on {difference.data}",
            difference=difference,
            sentences=in_words(difference),
            places=place_rows(difference),
            words=word_rows(difference),
            mean_maps=_mean_maps(difference),
            cases=[_case(row, before[row.index], after[row.index], pictures.get(row.index), difference.methods[0]) for row in worst],
        )
    )
    write_text(folder / PAGE, page)


def _rows_at(collection: Collection, indices: Sequence[int]) -> dict[int, CollectedRow]:
    """Return the rows of a collection with these indices."""
    return {row["index"]: CollectedRow.from_row(row) for row in _read_at(collection.folder / ROWS, indices)}


def _thumbnails_at(collection: Collection, indices: Sequence[int]) -> dict[int, Image.Image]:
    """Return the thumbnails of the inputs with these indices; none for texts."""
    path = collection.folder / THUMBNAILS
    rows = _read_at(path, indices) if path.is_file() else ()
    return {row["index"]: Image.open(io.BytesIO(row["thumbnail"])) for row in rows if row["thumbnail"] is not None}


def _read_at(path: Path, indices: Sequence[int]) -> Iterable[dict[str, Any]]:
    import pyarrow.parquet as pq

    rows: list[dict[str, Any]] = pq.read_table(path, filters=[("index", "in", list(indices))]).to_pylist() if indices else []
    return rows


def _mean_maps(difference: Difference) -> list[str]:
    """Return the mean maps of the old and the new model as pictures on one scale, PNG in base64; empty if there are none."""
    if not difference.grid:
        return []
    maps = [np.array(each, np.float32).reshape(difference.grid) for each in (difference.old_map, difference.new_map)]
    both = map_picture(np.concatenate(maps, axis=1), False, 2 * MEAN_MAP_SIDE)  # one scale of colours
    middle = both.width // 2
    return [_png(both.crop((0, 0, middle, both.height))), _png(both.crop((middle, 0, both.width, both.height)))]


def _case(row: RowDifference, before: CollectedRow, after: CollectedRow, picture: Image.Image | None, method: str) -> dict[str, Any]:
    """Return one of the worst rows with both maps, as the template draws it."""
    sides = []
    for name, each in (("before", before), ("after", after)):
        scores = np.array(each.map(method).scores, np.float32) / np.float32(LARGEST_INT8)
        words = [(word.text, float(score)) for word, score in zip(each.words, scores, strict=True)] if each.words else None
        drawn = None
        if words is None and picture is not None:
            drawn = _png(lay_over(picture, scores.reshape(each.grid), parse(method).method.signed, MAP_SIDE))
        sides.append({"name": name, "answer": each.answer, "probability": each.probability, "words": words, "picture": drawn})
    return {"row": row, "labels": before.labels, "sides": sides}


def _png(picture: Image.Image) -> str:
    file = io.BytesIO()
    picture.save(file, "PNG", optimize=True)
    return base64.b64encode(file.getvalue()).decode("ascii")
