"""Two collections of the same inputs compared, row by row: changed answers, the same answer for another reason, where the maps moved to."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from explainers.collection.diff.difference import Change, Difference, PatchDifference, PlaceDifference, RowDifference, WordDifference
from explainers.collection.diff.null_correlations import NULL_ROWS, NullKind, correlation, null_correlations
from explainers.collection.intervals import Sums, share, sign_test
from explainers.collection.records import CollectedMap, CollectedRow
from explainers.collection.result import Collection
from explainers.errors import ExplainerError
from explainers.evaluation.rows import ROWS
from explainers.evaluation.statistics import ALPHA, holm

Scores = NDArray[np.float64]
MOST_WORDS = 10  # that are named
LEAST_ROWS_OF_A_WORD = 10
#: Facts of run.json in which two collections must agree, by their names in a message.
_SAME = {
    "input_kind": "kind of inputs",
    "limit": "limit",
    "seed": "seed",
    "labels": "use of the labels",
    "prompts": "prompts",
    "data_digest": "inputs",
}


def compare(old: Collection, new: Collection, null: Collection | None = None, kind: NullKind = "rows", seed: int = 0) -> Difference:
    """Compare two finished collections of the same inputs, and return the :class:`Difference`.

    null  the collection with which that of the old model is correlated for the threshold: that of a third model (``kind`` "reference"),
          or of the old one on mirrored pictures ("mirror"); None: the rows are held against each other ("rows")

    Raises ExplainerError if the collections are of other inputs, or have no method in common.
    """
    methods = _common_methods(old, new)
    _check_same_inputs(old, new)
    held = {} if null is None else _null_rows(null, methods[0], is_mirrored=kind == "mirror")
    of_null: list[float] = []
    compared: list[tuple[RowDifference, bool]] = []
    places: dict[tuple[str, Literal["object", "border"]], _PairedSums] = defaultdict(_PairedSums)
    words: dict[str, _PairedSums] = defaultdict(_PairedSums)
    where = _MeanMaps()
    right = Counter[str]()
    for before, after in _pairs(old, new):
        right.update(f"old {before.right}" for _ in range(before.right is not None))
        right.update(f"new {after.right}" for _ in range(after.right is not None))
        compared.append((_row_difference(before, after, methods), before.answer == after.answer))
        if before.index in held and (value := held[before.index].correlation_with(before, methods[0])) is not None:
            of_null.append(value)
        for method in methods:
            first, second = before.map(method), after.map(method)
            places[method, "object"].add(first.share_on_object, second.share_on_object)
            places[method, "border"].add(first.share_on_border, second.share_on_border)
        _add_words(words, before, after, methods[0])
        where.add(before, after, methods[0])
    if not compared:
        raise ExplainerError(f"{old.folder} and {new.folder} have no input in common.")
    same = [row.correlations[0] for row, is_same in compared if is_same and row.correlations[0] is not None]
    limits = null_correlations(kind, np.array(same if kind == "rows" else of_null), seed)
    rows = [_judged(row, is_same, limits.threshold) for row, is_same in compared]
    changes = Counter(row.change for row in rows)
    count = len(rows)
    return Difference(
        old=str(old.about["model"]),
        new=str(new.about["model"]),
        data=str(old.about["data"]),
        inputs=count,
        methods=methods,
        old_right=share(right["old True"], right["old True"] + right["old False"]),
        new_right=share(right["new True"], right["new True"] + right["new False"]),
        changed=share(sum(not is_same for _, is_same in compared), count),
        wrong_now=share(changes["wrong now"], count),
        right_now=share(changes["right now"], count),
        other_reason=share(changes["other reason"], len(same) if limits.threshold is not None else 0),
        to_check=share(sum(row.is_to_check for row in rows), count),
        null=limits,
        correlations={method: _median(row.correlations[i] for row, is_same in compared if is_same) for i, method in enumerate(methods)},
        places=[
            PlaceDifference(method=method, place=place, **sums.means())
            for (method, place), sums in places.items()
            if sums.difference.inputs
        ],
        words=_most_changed(words),
        patches=where.most_changed(),
        grid=where.grid,
        old_map=where.means(0),
        new_map=where.means(1),
        rows=rows,
    )


def _common_methods(old: Collection, new: Collection) -> list[str]:
    of_new = set(new.about["methods"])
    if methods := [method for method in old.about["methods"] if method in of_new]:
        return methods
    raise ExplainerError(f"{old.folder} and {new.folder} have no method in common: collect both by the same methods.")


def _check_same_inputs(old: Collection, new: Collection) -> None:
    """Raise ExplainerError if the collections are of other inputs. Where some were left out, their digests need not agree."""
    left_out = bool(old.broken or new.broken)
    facts = {key: title for key, title in _SAME.items() if not (left_out and key == "data_digest")}
    if differences := [title for key, title in facts.items() if old.about.get(key) != new.about.get(key)]:
        raise ExplainerError(
            f"{new.folder} has other {', '.join(differences)} than {old.folder}: only collections of the same inputs can be compared."
        )


def _pairs(old: Collection, new: Collection) -> Iterator[tuple[CollectedRow, CollectedRow]]:
    """Yield the rows of each input that both collections have; rows are read some at a time, in the order that both have."""
    common = _indices(old) & _indices(new)
    for before, after in zip((row for row in old if row.index in common), (row for row in new if row.index in common), strict=True):
        if (before.index, before.input, before.text) != (after.index, after.input, after.text):
            raise ExplainerError(f"row {before.index} is {before.input} in {old.folder} and {after.input} in {new.folder}: other inputs.")
        yield before, after


def _indices(collection: Collection) -> set[int]:
    import pyarrow.parquet as pq

    return set(pq.read_table(collection.folder / ROWS, columns=["index"]).column("index").to_pylist())


@dataclass(frozen=True)
class _NullRow:
    """The map of an input that a map of the old model is correlated with, and the answer that it explains."""

    answer: str
    parts: tuple[Any, ...]
    scores: Scores

    def correlation_with(self, row: CollectedRow, method: str) -> float | None:
        """Return the correlation with the old model's map; None if the answer is another one or the parts are."""
        if row.answer != self.answer or _parts_of(row) != self.parts:
            return None
        return correlation(_scores_of(row.map(method)), self.scores)


def _null_rows(null: Collection, method: str, *, is_mirrored: bool) -> dict[int, _NullRow]:
    """Return up to ``NULL_ROWS`` rows of ``null`` by their index, with mirrored maps turned back."""
    rows: dict[int, _NullRow] = {}
    if method not in null.about["methods"]:
        raise ExplainerError(f"{null.folder} has no maps of {method}, by which maps are compared.")
    for row in null:
        if len(rows) == NULL_ROWS:
            break
        scores = _scores_of(row.map(method))
        if is_mirrored:
            scores = scores.reshape(row.grid)[:, ::-1].reshape(-1)
        rows[row.index] = _NullRow(row.answer, _mirrored_parts(row) if is_mirrored else _parts_of(row), scores)
    return rows


def _scores_of(each: CollectedMap) -> Scores:
    return np.array(each.scores, np.float64)  # the size of a step does not change a correlation


def _parts_of(row: CollectedRow) -> tuple[Any, ...]:
    """Return what two rows must have in common for their maps to be of the same parts."""
    return tuple(row.grid), tuple(row.crop), tuple((word.part, word.start, word.end) for word in row.words)


def _mirrored_parts(row: CollectedRow) -> tuple[Any, ...]:
    """Return the parts of a mirrored picture as those of the picture itself."""
    (left, top, right, bottom), width = row.crop, row.size[0]
    return tuple(row.grid), (width - right, top, width - left, bottom), ()


def _row_difference(before: CollectedRow, after: CollectedRow, methods: Sequence[str]) -> RowDifference:
    change: Change = "same"
    if before.answer != after.answer:
        is_judged = before.right is not None and after.right is not None
        change = "wrong now" if is_judged and before.right and not after.right else "other answer"
        change = "right now" if is_judged and after.right and not before.right else change
    are_comparable = _parts_of(before) == _parts_of(after)
    return RowDifference(
        index=before.index,
        input=before.input,
        change=change,
        old_answer=before.answer,
        new_answer=after.answer,
        old_probability=before.probability,
        new_probability=after.probability,
        correlations=[
            correlation(_scores_of(before.map(method)), _scores_of(after.map(method))) if are_comparable else None for method in methods
        ],
    )


def _judged(row: RowDifference, is_same: bool, threshold: float | None) -> RowDifference:
    """Return the row with the change "other reason" if its answer is the same and its correlation below the threshold."""
    value = row.correlations[0]
    if not is_same or value is None or threshold is None or value >= threshold:
        return row
    return replace(row, change="other reason")


class _PairedSums:
    """Sums of values before and after, and of their differences, of the inputs that have both."""

    def __init__(self) -> None:
        self.old, self.new, self.difference = Sums(), Sums(), Sums()
        self._rises = self._changes = 0

    def add(self, old: float | None, new: float | None) -> None:
        """Count the values of one input; nothing if it lacks one."""
        if old is not None and new is not None:
            self.old.add(old)
            self.new.add(new)
            self.difference.add(new - old)
            self._rises += new > old
            self._changes += new != old

    def p(self) -> float:
        """Return the p of a sign test of the differences."""
        return sign_test(self._rises, self._changes)

    def means(self) -> dict[str, Any]:
        """Return the means by their names in the records."""
        return {"old": self.old.mean(), "new": self.new.mean(), "difference": self.difference.mean()}


def _positive_shares(scores: Scores) -> Scores | None:
    """Return the positive scores (N,) over their sum; None if no score is positive."""
    positive = np.maximum(scores, 0)
    return positive / positive.sum() if positive.any() else None


def _add_words(words: Mapping[str, _PairedSums], before: CollectedRow, after: CollectedRow, method: str) -> None:
    """Add to ``words`` the share of the positive scores that each word of a text has before and after."""
    if not before.words or _parts_of(before) != _parts_of(after):
        return
    old, new = _positive_shares(_scores_of(before.map(method))), _positive_shares(_scores_of(after.map(method)))
    if old is None or new is None:
        return
    places: dict[str, list[int]] = defaultdict(list)
    for place, word in enumerate(before.words):
        places[word.text.casefold()].append(place)
    for text, at in places.items():
        words[text].add(float(old[at].sum()), float(new[at].sum()))


def _most_changed(words: Mapping[str, _PairedSums]) -> list[WordDifference]:
    """Return the words whose share differs by more than chance (Holm, 5 %), the largest difference first."""
    tried = {text: sums for text, sums in words.items() if sums.difference.inputs >= LEAST_ROWS_OF_A_WORD}
    p_values = holm(np.array([sums.p() for sums in tried.values()], np.float64))
    changed = [
        WordDifference(word=text, p=float(p), **sums.means()) for (text, sums), p in zip(tried.items(), p_values, strict=True) if p < ALPHA
    ]
    return sorted(changed, key=lambda each: -abs(each.difference.value or 0.0))[:MOST_WORDS]


class _MeanMaps:
    """The mean maps of both models over the inputs, as shares of the positive scores; empty if grids differ."""

    def __init__(self) -> None:
        self.grid: list[int] = []
        self._sums: list[Scores] = []
        self._rises: Scores = np.zeros(0)
        self._changes: Scores = np.zeros(0)
        self._inputs, self._are_alike = 0, True

    def add(self, before: CollectedRow, after: CollectedRow, method: str) -> None:
        """Count the maps of one input."""
        if not before.grid or not self._are_alike:
            return
        self.grid = self.grid or before.grid
        if before.grid != self.grid or after.grid != self.grid:
            self.grid, self._sums, self._are_alike = [], [], False
            return
        old, new = _positive_shares(_scores_of(before.map(method))), _positive_shares(_scores_of(after.map(method)))
        if old is not None and new is not None:
            if not self._sums:
                self._sums, self._rises, self._changes = [0 * old, 0 * new], 0 * old, 0 * old
            self._sums = [self._sums[0] + old, self._sums[1] + new]
            self._rises, self._changes = self._rises + (new > old), self._changes + (new != old)
            self._inputs += 1

    def most_changed(self) -> list[PatchDifference]:
        """Return the places whose share rises or falls in more inputs than chance explains (Holm, 5 %), the surest first."""
        if not self._sums:
            return []
        counts = zip(self._rises.tolist(), self._changes.tolist(), strict=True)
        p_values = holm(np.array([sign_test(int(rises), int(changes)) for rises, changes in counts]))
        old, new = self.means(0), self.means(1)
        return [
            PatchDifference(row=i // self.grid[1], column=i % self.grid[1], old=old[i], new=new[i], p=float(p_values[i]))
            for i in np.argsort(p_values, kind="stable").tolist()
            if p_values[i] < ALPHA
        ]

    def means(self, which: int) -> list[float]:
        """Return the mean map of the old (0) or the new (1) model."""
        return (self._sums[which] / self._inputs).tolist() if self._sums else []


def _median(values: Iterator[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.median(known)) if known else None
