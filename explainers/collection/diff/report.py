"""The report on two models: sentences, tables, and the rows to look at first, as one page of HTML that needs nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from explainers.collection.diff.difference import Difference, RowDifference
from explainers.collection.intervals import Mean
from explainers.collection.records import CollectedRow
from explainers.collection.report_parts import drawn_map, percent, png_text, rows_at, thumbnails_at, with_interval
from explainers.collection.result import Collection
from explainers.evaluation.html import page_templates
from explainers.evaluation.reporting import PAGE
from explainers.evaluation.rows import write_text
from explainers.rendering.overlays import map_picture

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
    before, after = rows_at(old, indices), rows_at(new, indices)
    pictures = thumbnails_at(old, indices)
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


def _mean_maps(difference: Difference) -> list[str]:
    """Return the mean maps of the old and the new model as pictures on one scale, PNG in base64; empty if there are none."""
    if not difference.grid:
        return []
    maps = [np.array(each, np.float32).reshape(difference.grid) for each in (difference.old_map, difference.new_map)]
    both = map_picture(np.concatenate(maps, axis=1), False, 2 * MEAN_MAP_SIDE)  # one scale of colours
    middle = both.width // 2
    return [png_text(both.crop((0, 0, middle, both.height))), png_text(both.crop((middle, 0, both.width, both.height)))]


def _case(row: RowDifference, before: CollectedRow, after: CollectedRow, picture: Image.Image | None, method: str) -> dict[str, Any]:
    """Return one of the worst rows with both maps, as the template draws it."""
    sides = [
        {"name": name, "answer": each.answer, "probability": each.probability, **drawn_map(each, method, picture, MAP_SIDE)}
        for name, each in (("before", before), ("after", after))
    ]
    return {"row": row, "labels": before.labels, "sides": sides}
