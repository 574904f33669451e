"""Slices of a collection: rows that are wrong, or right for a doubtful reason, for one reason that they share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from explainers.collection.intervals import Mean, Share
from explainers.json_records import Record, describe

#: Which rows a slice is part of.
SliceKind = Literal["wrong", "right_off_object", "right_at_border", "right"]


@dataclass(frozen=True, kw_only=True)
class HidingTest(Record):
    """What the model answers to rows of a slice without what the slice names, against as much hidden elsewhere in the same rows."""

    rows: Annotated[int, describe("Rows that were asked again, of those that the search did not see.")]
    fall: Annotated[Mean, describe("How far the probability of the answer falls without what the slice names.")]
    elsewhere: Annotated[Mean, describe("How far it falls with as many other parts hidden, the mean of three random choices.")]
    difference: Annotated[Mean, describe("`fall` less `elsewhere`, row by row.")]
    changed: Annotated[Share, describe("Rows with another answer without what the slice names.")]
    changed_elsewhere: Annotated[Share, describe("Rows with another answer with as much hidden elsewhere, in the first of the choices.")]

    @property
    def is_needed(self) -> bool:
        """Whether the answers need what the slice names: the interval of the difference lies above 0."""
        return self.difference.low is not None and self.difference.low > 0


@dataclass(frozen=True, kw_only=True)
class CopyTest(Record):
    """How probable the answers of rows of a slice are in rows with other answers, into which their place, or their word, is copied."""

    donors: Annotated[int, describe("Rows of the slice that were copied from, of those that the search did not see.")]
    copied: Annotated[Mean, describe("The probability of the row's answer in others that have its place or word, mean of up to four.")]
    elsewhere: Annotated[Mean, describe("The same with as much copied at another place of the same form, or another word of the row.")]
    difference: Annotated[Mean, describe("`copied` less `elsewhere`, row by row.")]
    changed: Annotated[Share, describe("Rows whose answer the first of the others gets by what is copied.")]
    changed_elsewhere: Annotated[Share, describe("Rows whose answer the first of the others gets by what is copied from elsewhere.")]
    p: Annotated[float, describe("That the difference is 0 or less (Student's t, one-sided).")]


@dataclass(frozen=True)
class SliceExample(Record):
    """One row of a slice."""

    index: int
    input: str
    answer: str


@dataclass(frozen=True, kw_only=True)
class Slice(Record):
    """Rows of one kind whose evidence lies at the same place, or on the same word, more often than chance explains."""

    sentence: Annotated[str, describe("What its rows have in common, in words.")]
    kind: Annotated[
        SliceKind,
        describe(
            "Wrong rows; right ones with less than half of their evidence on the object, with more of it at the border than chance "
            "(pictures without masks), or any (texts without marked words, and a place that most right rows of an answer share)."
        ),
    ]
    answer: Annotated[str | None, describe("The answer that its rows have; null for wrong rows of any answer.")]
    word: Annotated[str | None, describe("The word on which its rows stand; null for pictures.")]
    place: Annotated[str | None, describe("Where in the picture their evidence lies, in words; null for texts.")]
    patches: Annotated[list[int], describe("The patches that make up the place, in raster order; empty for texts.")]
    threshold: Annotated[float | None, describe("The share of the positive scores that a row has there at least; null for texts.")]
    rows: Annotated[list[int], describe("The indices of its rows.")]
    of: Annotated[int, describe("The number of all rows of its kind and answer.")]
    share: Annotated[Share, describe("The share of them that it holds, in the half of the rows that the search did not see.")]
    others: Annotated[
        Share,
        describe(
            "The same share of the rows to compare with, in that half: the right rows, or those with other answers that are likewise "
            "wrong, or likewise have their evidence off the object or at the border."
        ),
    ]
    p: Annotated[
        float,
        describe(
            "That chance explains it, corrected by Holm for all slices that were tried; if `copy_test` is there, the larger of both p."
        ),
    ]
    examples: Annotated[list[SliceExample], describe("Ten rows, those with the largest share there, or the surest, first.")]
    test: Annotated[HidingTest | None, describe("Null if the model was not asked.")]
    copy_test: Annotated[CopyTest | None, describe("Null if the model was not asked, and for models that take no grid of pixels.")]


@dataclass(frozen=True, kw_only=True)
class Slices(Record):
    """The slices of a collection, the most rows first."""

    model: Annotated[str, describe("The name of the model.")]
    data: Annotated[str, describe("The name of the data.")]
    method: Annotated[str, describe("The spec of the maps.")]
    inputs: Annotated[int, describe("Rows that were looked at.")]
    left_out: Annotated[int, describe("Rows that were not: without a label, of another grid of patches, or without a positive score.")]
    wrong: Annotated[int, describe("Wrong rows among them.")]
    doubtful: Annotated[int, describe("Right rows that were searched, as `kind` says.")]
    tried: Annotated[int, describe("Slices that were tested, for all of which p is corrected.")]
    without_effect: Annotated[int, describe("Slices that were found but are left out, as their place does not carry the answer over.")]
    slices: list[Slice]
