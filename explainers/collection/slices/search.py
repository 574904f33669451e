"""The search for slices: reasons that rows of one kind share are looked for in one half of a collection, and tested in the other half."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from explainers.collection.intervals import Share, share
from explainers.collection.slices.clusters import (
    MOST_CLUSTERED,
    MOST_ROWS,
    SHARED_FROM,
    Floats,
    Integers,
    cluster_maps,
    place_of,
    share_at_turns,
)
from explainers.collection.slices.records import SliceKind
from explainers.evaluation.statistics import ALPHA, holm

Bools = NDArray[np.bool_]
LEAST_ROWS = 5  # of a cluster, or with a word, in the half that is searched
MOST_WORDS = 50  # tried for one group of rows
SAME_ROWS = 0.5  # of two slices, above which the less sure one is left out


@dataclass(frozen=True, eq=False, kw_only=True)
class SearchedRows:
    """The rows of a collection in memory, in its order.

    index     (N,) of each input
    answer    (N,) the answers
    right     (N,) whether they are right
    suspect   (N,) whether their evidence lies where it should not, as ``kind`` says for right rows; wrong rows can be so too
    grid      rows and columns of patches; None for texts
    shares    (N, P) of the positive scores on each patch; (N, 0) for texts
    maps      (N, F) the downsized maps
    words     of each text, the words that its map marks most, in small letters; empty for pictures
    """

    index: Integers
    answer: NDArray[np.str_]
    right: Bools
    suspect: Bools
    kind: SliceKind
    grid: tuple[int, int] | None
    shares: Floats
    maps: Floats
    words: Sequence[frozenset[str]] = ()

    @property
    def doubtful(self) -> Bools:
        """The right rows (N,) whose evidence lies where it should not."""
        return self.right & self.suspect


@dataclass(frozen=True, eq=False, kw_only=True)
class FoundSlice:
    """A slice that was tested: the rule by which a row belongs to it, and how many rows do.

    group, rows  (N,) the rows of its kind and answer, and those of them that keep the rule
    p            of the test, without correction
    corrected    p, corrected for all that were tried
    unseen       (N,) the half of the rows that the search did not see
    """

    kind: SliceKind
    answer: str | None
    word: str | None = None
    patches: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    threshold: float | None = None
    group: Bools
    rows: Bools
    unseen: Bools
    share: Share
    others: Share
    p: float
    corrected: float = 1.0


def find(rows: SearchedRows, seed: int = 0) -> tuple[list[FoundSlice], int]:
    """Return the slices of ``rows`` that chance does not explain (Holm, 5 %), the surest first, and how many were tried.

    A slice is found in a random half of all rows and tested in the other: its rows must keep the rule more often than the rows to compare
    with (Fisher's exact test, one-sided), and in pictures also more often than the same maps rolled to other places. Of two slices that
    share more than half of their rows the less sure one is left out.
    """
    unseen = np.ones(len(rows.index), bool)
    unseen[np.random.default_rng(seed).permutation(len(unseen))[: len(unseen) // 2]] = False
    tried = [
        candidate
        for group in _groups(rows)
        for candidate in (_places(rows, *group, unseen, seed) if rows.grid else _words(rows, *group, unseen))
    ]
    tried += _shared_places(rows, unseen)
    corrected = holm(np.array([candidate.p for candidate in tried], np.float64))
    sure = [replace(candidate, corrected=float(p)) for candidate, p in zip(tried, corrected, strict=True) if p < ALPHA]
    kept: list[FoundSlice] = []
    for candidate in sorted(sure, key=lambda each: (each.corrected, -int(each.rows.sum()))):
        if all((candidate.rows & other.rows).sum() <= SAME_ROWS * (candidate.rows | other.rows).sum() for other in kept):
            kept.append(candidate)
    return kept, len(tried)


def corrected_again(p: Sequence[float], tried: int) -> list[float]:
    """Return ``p`` of the slices that were tested further, the larger of both tests for each, corrected by Holm for all ``tried``.

    The p of a slice that was not tested further counts as 1, which is never too small.
    """
    return [float(value) for value in holm(np.array([*p, *[1.0] * (tried - len(p))], np.float64))[: len(p)]]


#: Kind and answer of a group, its rows, and the rows to compare with.
_Group = tuple[SliceKind, "str | None", Bools, Bools]


def _groups(rows: SearchedRows) -> Iterator[_Group]:
    """Yield the groups that are searched: all wrong rows, against the right ones; of each answer the wrong rows, against the other wrong
    rows, and the doubtful ones, against the suspect rows with other answers.

    Maps of wrong or suspect rows lie elsewhere than those of other rows, whatever the answer: against all rows with other answers a place
    would be found that only says how the group was chosen.
    """
    yield "wrong", None, ~rows.right, rows.right
    for answer in sorted(set(rows.answer.tolist())):
        has_it = rows.answer == answer
        yield "wrong", answer, has_it & ~rows.right, ~has_it & ~rows.right
        yield rows.kind, answer, has_it & rows.doubtful, ~has_it & rows.suspect


def _places(
    rows: SearchedRows, kind: SliceKind, answer: str | None, group: Bools, others: Bools, unseen: Bools, seed: int
) -> Iterator[FoundSlice]:
    """Yield a tested slice for each cluster of maps of a ``group`` of pictures."""
    searched, compared = np.flatnonzero(group & ~unseen), rows.shares[others & ~unseen]
    if len(searched) < LEAST_ROWS or not len(compared) or not (group & unseen).any() or not others[unseen].any() or rows.grid is None:
        return
    searched = np.sort(np.random.default_rng(seed).permutation(searched)[:MOST_CLUSTERED])
    labels = cluster_maps(rows.maps[searched], seed)
    for label in range(int(labels.max()) + 1):
        members = rows.shares[searched[labels == label]]
        if len(members) < LEAST_ROWS:
            continue
        patches = place_of(members, compared)
        threshold = float(members[:, patches].sum(1).mean() + compared[:, patches].sum(1).mean()) / 2
        keeps = rows.shares[:, patches].sum(1) >= threshold
        yield _place(kind, answer, keeps, group, others, unseen, rows, patches, threshold)


def _shared_places(rows: SearchedRows, unseen: Bools) -> Iterator[FoundSlice]:
    """Yield a tested slice for the place of each answer that most of its right rows share in the searched half.

    Masks do not matter here: a mark that lies on the object, such as a line across the picture, has its evidence there as well.
    """
    if rows.grid is None:
        return
    for answer in sorted(set(rows.answer.tolist())):
        has_it = rows.answer == answer
        group, others = has_it & rows.right, ~has_it
        searched, compared = rows.shares[group & ~unseen], rows.shares[others & ~unseen]
        if min(len(searched), len(compared)) < LEAST_ROWS or not (group & unseen).any() or not (others & unseen).any():
            continue
        patches = place_of(searched, compared)
        base = float(compared[:, patches].sum(1).mean())
        threshold = base + SHARED_FROM * (1 - base)
        keeps = rows.shares[:, patches].sum(1) >= threshold
        if keeps[group & ~unseen].mean() >= MOST_ROWS:
            yield _place("right", answer, keeps, group, others, unseen, rows, patches, threshold)


def _place(
    kind: SliceKind,
    answer: str | None,
    keeps: Bools,
    group: Bools,
    others: Bools,
    unseen: Bools,
    rows: SearchedRows,
    patches: Integers,
    threshold: float,
) -> FoundSlice:
    """Return the slice of the rows that ``keeps`` their evidence at ``patches``, tested against other rows and rolled maps."""
    assert rows.grid is not None
    rolled = share_at_turns(rows.shares[group & unseen], patches, rows.grid) >= threshold
    p = max(_more_often(keeps, group & unseen, others & unseen), at_least(int(keeps[group & unseen].sum()), rolled.mean(1)))
    return _found(kind, answer, keeps, group, others, unseen, p, patches=patches, threshold=threshold)


def _words(rows: SearchedRows, kind: SliceKind, answer: str | None, group: Bools, others: Bools, unseen: Bools) -> Iterator[FoundSlice]:
    """Yield a tested slice for each word that maps of a ``group`` of texts mark often."""
    if not (others & unseen).any():
        return
    counts = Counter(word for i in np.flatnonzero(group & ~unseen).tolist() for word in sorted(rows.words[i]))
    for word, count in counts.most_common(MOST_WORDS):
        if count >= LEAST_ROWS:
            keeps = np.array([word in marked for marked in rows.words])
            yield _found(kind, answer, keeps, group, others, unseen, _more_often(keeps, group & unseen, others & unseen), word=word)


def _found(
    kind: SliceKind,
    answer: str | None,
    keeps: Bools,
    group: Bools,
    others: Bools,
    unseen: Bools,
    p: float,
    *,
    word: str | None = None,
    patches: Integers | None = None,
    threshold: float | None = None,
) -> FoundSlice:
    return FoundSlice(
        kind=kind,
        answer=answer,
        word=word,
        patches=np.zeros(0, np.int64) if patches is None else patches,
        threshold=threshold,
        group=group,
        rows=group & keeps,
        unseen=unseen,
        share=share(int(keeps[group & unseen].sum()), int((group & unseen).sum())),
        others=share(int(keeps[others & unseen].sum()), int((others & unseen).sum())),
        p=p,
    )


def _more_often(keeps: Bools, group: Bools, others: Bools) -> float:
    """Return the one-sided p of Fisher's exact test that rows of ``group`` keep a rule no more often than ``others``."""
    from scipy.stats import hypergeom  # takes a second to import

    of, kept, total = int(group.sum()), int(keeps[group].sum()), int((group | others).sum())
    return float(hypergeom.sf(kept - 1, total, int(keeps[group | others].sum()), of))


def at_least(count: int, chances: Floats) -> float:
    """Return the probability that at least ``count`` of independent events with these ``chances`` (N,) happen (Poisson's binomial)."""
    distribution = np.zeros(len(chances) + 1)
    distribution[0] = 1
    for chance in chances.tolist():
        distribution[1:] = distribution[1:] * (1 - chance) + distribution[:-1] * chance
        distribution[0] *= 1 - chance
    return float(min(1.0, distribution[count:].sum()))
