"""What changed between two models on the same inputs: the record of each input, of each place and word, and of all together."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from explainers.collection.diff.null_correlations import NullCorrelations
from explainers.collection.intervals import Mean, Share
from explainers.evaluation.rows import write_json
from explainers.json_records import HIDDEN, Record, describe

#: What became of an answer. ``right now`` and ``wrong now`` are changed answers that were wrong or right by the labels before.
Change = Literal["wrong now", "right now", "other answer", "other reason", "same"]
WORST = 10  # rows that are shown


@dataclass(frozen=True, kw_only=True)
class RowDifference(Record):
    """What became of the answer to one input, and how alike the maps for it are before and after."""

    index: int
    input: str
    change: Change
    old_answer: str
    new_answer: str
    old_probability: float | None
    new_probability: float | None
    correlations: Annotated[
        list[float | None],
        describe("Pearson's correlation of the two maps by each method; null where they have other parts, or one is the same everywhere."),
    ]

    @property
    def is_to_check(self) -> bool:
        """Whether a person should look at it: the answer changed and is not right now, or stands for another reason."""
        return self.change not in ("same", "right now")


@dataclass(frozen=True, kw_only=True)
class PlaceDifference(Record):
    """How much of the maps of one method lies on the object, or at the border, before and after."""

    method: str
    place: Literal["object", "border"]
    old: Annotated[Mean, describe("The mean share of the positive scores there, of the old model.")]
    new: Mean
    difference: Annotated[Mean, describe("New less old, input by input.")]


@dataclass(frozen=True, kw_only=True)
class WordDifference(Record):
    """How much of the maps of the first method lies on one word, before and after, in the texts that contain it."""

    word: str
    old: Mean
    new: Mean
    difference: Mean
    p: Annotated[float, describe("That its share rises in as many texts as it falls: a sign test, corrected by Holm for all words tried.")]


@dataclass(frozen=True, kw_only=True)
class PatchDifference(Record):
    """How much of the maps of the first method lies on one place of the grid, before and after."""

    row: Annotated[int, describe("From 0, at the top.")]
    column: Annotated[int, describe("From 0, at the left.")]
    old: Annotated[float, describe("The mean share of the positive scores there, of the old model.")]
    new: float
    p: Annotated[float, describe("That its share rises in as many inputs as it falls: a sign test, corrected by Holm for all patches.")]


@dataclass(frozen=True, kw_only=True)
class Difference(Record):
    """What changed between two models on the same inputs: a summary, and in ``rows`` each input.

    ``save`` wrote it as report.json. The intervals have 95 %.
    """

    old: Annotated[str, describe("The name of the old model.")]
    new: Annotated[str, describe("The name of the new model.")]
    data: Annotated[str, describe("The name of the data.")]
    inputs: Annotated[int, describe("Inputs that both collections have.")]
    methods: Annotated[list[str], describe("Specs of the maps; by the first is judged whether the reason changed.")]
    old_right: Annotated[Share, describe("Right answers of the old model among the inputs with a label.")]
    new_right: Annotated[Share, describe("The same of the new model.")]
    changed: Annotated[Share, describe("Inputs with another answer.")]
    wrong_now: Annotated[Share, describe("Inputs whose answer was right and is wrong.")]
    right_now: Annotated[Share, describe("Inputs whose answer was wrong and is right.")]
    other_reason: Annotated[
        Share, describe("Inputs whose maps correlate less than the threshold, among those with the same answer and comparable maps.")
    ]
    to_check: Annotated[Share, describe("Inputs whose answer changed and is not right now, or stands for another reason.")]
    null: Annotated[NullCorrelations, describe("The threshold of that correlation, and how it was found.")]
    correlations: Annotated[
        dict[str, float | None], describe("The median correlation of old and new maps for the same answer, by method; null without one.")
    ]
    places: Annotated[
        list[PlaceDifference], describe("By method how much of its maps lies on the object and at the border, before and after.")
    ]
    words: Annotated[list[WordDifference], describe("The words whose share changed most surely, at most ten.")]
    patches: Annotated[
        list[PatchDifference], describe("The places whose share rises or falls in more inputs than chance explains, the surest first.")
    ]
    grid: Annotated[list[int], describe("Rows and columns of `old_map` and `new_map`; empty for texts and where grids differ.")]
    old_map: Annotated[
        list[float],
        describe("The mean over the inputs of the share of the positive scores on each patch, by the first method, raster order."),
    ]
    new_map: Annotated[list[float], describe("The same of the new model.")]
    rows: Annotated[list[RowDifference], HIDDEN] = field(repr=False)

    @property
    def has_other_reasons(self) -> bool | None:
        """Whether more answers stand for another reason than chance explains; None where the null does not say what chance does."""
        if self.null.expected is None or self.other_reason.low is None:
            return None
        return self.other_reason.low > self.null.expected

    def worst(self, count: int = WORST) -> list[RowDifference]:
        """Return the ``count`` rows to look at first: changed answers, those that are wrong now and the surest before among them, by turns
        with answers that stand for another reason, the least alike first.
        """
        rank = {"wrong now": 0, "other answer": 1}
        answers = sorted(
            (row for row in self.rows if row.change in rank), key=lambda row: (rank[row.change], -(row.old_probability or 0.0))
        )
        reasons = sorted((row for row in self.rows if row.change == "other reason"), key=lambda row: row.correlations[0] or 0.0)
        turns: list[RowDifference] = []
        for place in range(max(len(answers), len(reasons))):
            turns += [*answers[place : place + 1], *reasons[place : place + 1]]
        return turns[:count]

    def save(self, folder: Path) -> None:
        """Write ``report.json`` and ``differences.parquet``, which has a row for each input, to ``folder``."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / "report.json", self.to_json())
        pq.write_table(pa.Table.from_pylist([row.to_json() for row in self.rows]), folder / "differences.parquet")
