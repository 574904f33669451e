"""How unlike two maps may be before they show another reason: the correlations of maps between which the reason stayed the same.

There are three such sets, of which a difference of two checkpoints has one (``NullKind``):

``reference``  maps of the old model and of a third model that is known to be as good, such as one of another seed
``mirror``     maps of the old model for a picture and for its mirror image, turned back: what a change of the input that leaves the answer
               and its reason as they are does to a map
``rows``       the correlations of the old and the new maps themselves. Where nothing else is known, a row can only be held against the
               other rows: those far below them are found, a change that all rows share is not
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import ImageOps

from explainers.datasets import Dataset, Sample
from explainers.json_records import Record, describe

NullKind = Literal["reference", "mirror", "rows"]
NULL_SHARE = 0.05  # of the rows that may lie below the threshold where the reason stayed the same
NULL_ROWS = 400  # inputs of which the null is made, at most
CONFIDENCE = 0.95  # that no more than this share does
LEAST_ROWS = 20  # correlations of which a fence is made
FENCE = 1.5  # spreads between the quartiles below the lower one (Tukey, 1977)
DRAWS = 2000
_LARGEST = 1 - 1e-9  # of a correlation whose Fisher transform is finite


@dataclass(frozen=True, kw_only=True)
class NullCorrelations(Record):
    """Correlations of maps between which the reason stayed the same, and the threshold that follows."""

    kind: Annotated[
        NullKind,
        describe(
            "reference: the old model against a third one; mirror: the old model's maps of a picture and of its mirror image; rows: the "
            "old against the new model, all rows."
        ),
    ]
    rows: Annotated[int, describe("Inputs with such a correlation.")]
    median: Annotated[float | None, describe("The median of the correlations.")]
    threshold: Annotated[
        float | None,
        describe("A map whose correlation with the old one is lower shows another reason; null where there are too few inputs."),
    ]
    expected: Annotated[
        float | None, describe("The share of rows below the threshold to expect where no reason changed, at most; null for `rows`.")
    ]


def null_correlations(kind: NullKind, correlations: NDArray[np.float64], seed: int = 0) -> NullCorrelations:
    """Return the null of ``correlations`` (N,) and its threshold.

    The threshold is one of the lowest correlations, the k-th of N, such that with 95 % confidence no more than 5 % of all inputs lie below
    it (the tolerance limit of Wilks, 1941; it assumes nothing about the distribution, and needs 59 inputs). Of ``rows``, not a null,
    it is Tukey's lower fence of their Fisher transforms; the inputs are drawn again with replacement 2,000 times, and the fence is taken
    that 97.5 % of the draws exceed.
    """
    threshold = _fence(correlations, seed) if kind == "rows" else _tolerance_limit(correlations)
    return NullCorrelations(
        kind=kind,
        rows=len(correlations),
        median=float(np.median(correlations)) if len(correlations) else None,
        threshold=threshold,
        expected=None if kind == "rows" else NULL_SHARE,
    )


def _tolerance_limit(correlations: NDArray[np.float64]) -> float | None:
    from scipy.stats import binom  # takes a second to import

    rank = int(binom.ppf(1 - CONFIDENCE, len(correlations), NULL_SHARE)) if len(correlations) else 0
    return float(np.sort(correlations)[rank - 1]) if rank else None


def _fence(correlations: NDArray[np.float64], seed: int) -> float | None:
    if len(correlations) < LEAST_ROWS:
        return None
    draw, transformed = np.random.default_rng(seed), np.arctanh(np.clip(correlations, -_LARGEST, _LARGEST))
    fences = np.empty(DRAWS)
    for i in range(DRAWS):
        low, high = np.quantile(draw.choice(transformed, len(transformed)), [0.25, 0.75])
        fences[i] = low - FENCE * (high - low)
    return float(np.tanh(np.quantile(fences, 0.025)))


def correlation(first: NDArray[np.float64], second: NDArray[np.float64]) -> float | None:
    """Return Pearson's correlation of two maps (N,) of the same parts; None if one of them has the same score everywhere."""
    first, second = first - first.mean(), second - second.mean()
    size = float(np.sqrt((first @ first) * (second @ second)))
    return None if size == 0 else float(np.clip(first @ second / size, -1, 1))


def mirrored(data: Dataset) -> Dataset:
    """Return a data set of pictures with each mirrored left to right, without its objects."""

    def read(index: int) -> Sample:
        sample = data.read(index)
        assert sample.image is not None
        return replace(sample, image=ImageOps.mirror(sample.image), objects=(), labelled=None)

    return replace(data, name=f"{data.name}, mirrored", read=read)
