"""Places that most rows with one answer share: there lies much more of their evidence than of that of rows with other answers.

A mark, a border or a logo that a model reads in place of the object stands at the same place of many pictures; objects do not. The place
of each half of an answer's rows is found in the other half, so that a row never chooses the place by which it is judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from explainers.collection.slices.clusters import MOST_ROWS, SHARED_FROM, place_in_words, place_of
from explainers.json_records import Record

Floats = NDArray[np.float64]
LEAST_ROWS = 5  # with an answer, and with others, in each half


@dataclass(frozen=True)
class SharedPlace(Record):
    """A place that most rows with one answer share: the place in words, how many rows share it, and how many have the answer. Where rows
    have labels, right rows alone are counted in both, as in the slice of such a place.
    """

    answer: str
    place: str
    rows: int
    of: int


@dataclass(frozen=True, eq=False)
class Evidence:
    """The positive scores (N, P) of each row's first map in steps from 0 to 127, on grids with these rows and columns; zeros for a row with
    another grid or without a positive score.
    """

    steps: NDArray[np.uint8]
    grid: tuple[int, int]

    def shares(self, rows: NDArray[np.int64]) -> Floats:
        """Return the share of the positive scores on each patch, (n, P), of ``rows``, each of which must have one."""
        steps = self.steps[rows].astype(np.float64)
        shares: Floats = steps / steps.sum(1, keepdims=True)
        return shares


def find_shared_places(
    evidence: Evidence, answers: Sequence[str], seed: int = 0, *, right: Floats | None = None
) -> tuple[Floats, list[SharedPlace]]:
    """Return for each of the N rows how far its evidence lies at a place that most rows with its answer share, and these places, the most
    rows first.

    0 is as much as the mean of the rows with other answers has there, or less; 1 is all of it. It is 0 too for answers whose rows share no
    place, and NaN for rows without a positive score or with too few others to compare with.

    right  (N,) 1 for a right row, 0 for a wrong one, NaN where that is not known; None: it is known of no row
    """
    is_counted = np.ones(len(answers), bool) if right is None or np.isnan(right).all() else right == 1
    chosen = np.flatnonzero(evidence.steps.any(1))
    is_first = np.zeros(len(answers), bool)
    is_first[np.random.default_rng(seed).permutation(len(answers))[: len(answers) // 2]] = True
    names = np.array(answers)
    halves = [chosen[is_first[chosen]], chosen[~is_first[chosen]]]
    totals = [_sum(evidence, half) for half in halves]
    readings = np.full(len(answers), np.nan)
    places: list[SharedPlace] = []
    for answer in sorted(set(names[chosen].tolist())):
        members = [half[names[half] == answer] for half in halves]
        others = [len(half) - len(each) for half, each in zip(halves, members, strict=True)]
        if min(*map(len, members), *others) < LEAST_ROWS:
            continue
        sums = [_sum(evidence, each) for each in members]
        for judged, finders, of_answer, of_all, count in zip(members, members[::-1], sums[::-1], totals[::-1], others[::-1], strict=True):
            usual = (of_all - of_answer) / count
            patches = place_of(of_answer[None] / len(finders), usual[None])
            base = usual[patches].sum()
            readings[judged] = np.clip((evidence.shares(judged)[:, patches].sum(1) - base) / (1 - base), 0, 1)
        every = np.concatenate(members)
        sharing = int((readings[every] >= SHARED_FROM).sum())
        if sharing < MOST_ROWS * len(every):
            readings[every] = 0
            continue
        usual = (totals[0] + totals[1] - sums[0] - sums[1]) / sum(others)
        place = place_in_words(place_of((sums[0] + sums[1])[None] / len(every), usual[None]), evidence.grid)
        counted = every[is_counted[every]]
        if len(counted):
            places.append(SharedPlace(answer, place, int((readings[counted] >= SHARED_FROM).sum()), len(counted)))
    return readings, sorted(places, key=lambda each: -each.rows)


def _sum(evidence: Evidence, rows: NDArray[np.int64]) -> Floats:
    """Return the sum (P,) of the shares of ``rows``, some of which are computed at a time."""
    total = np.zeros(evidence.steps.shape[1])
    for part in np.array_split(rows, max(1, len(rows) // 1000)):
        total += evidence.shares(part).sum(0)
    return total
