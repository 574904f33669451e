"""Agreement of maps: Spearman's rank correlation of every pair of methods, and an order of the methods by hierarchical clustering."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from explainers.errors import ExplainerError
from explainers.json_records import Record, describe
from explainers.metrics.rank_correlation import rank_correlations
from explainers.records.result import Explanation


def _without_nan(correlations: NDArray[np.float64]) -> list[list[float | None]]:
    return [[None if np.isnan(value) else float(value) for value in row] for row in correlations]


@dataclass(frozen=True, eq=False)
class Agreement(Record):
    """The rank correlations between the maps of one target.

    methods       average linkage on 1 - the correlation, leaves in the optimal order
    correlations  float64 (methods, methods), of the scores as they are, sign included; equal scores share the mean of their ranks; NaN
                  where a map has one score throughout
    """

    target: Annotated[str, describe("The label of the target.")]
    methods: Annotated[tuple[str, ...], describe("Specs, in an order that puts similar maps next to each other.")]
    correlations: Annotated[
        NDArray[np.float64],
        describe(
            "Spearman's rank correlation, rows and columns in the order of the methods; null where a map has one score throughout.",
            kind=list[list[float | None]],
            write=_without_nan,
        ),
    ]
    tokens: Annotated[int, describe("How many patches or word pieces were ranked; special tokens were not.")]

    @property
    def measure(self) -> Annotated[Literal["spearman"], describe()]:
        """The measure of agreement: Spearman's rank correlation."""
        return "spearman"


def agreement(result: Explanation, target: str | None = None) -> Agreement:
    """Return the rank correlations between the maps of ``result`` that explain ``target``, a label, the first one by default.

    Raises ExplainerError for a target that was not explained.
    """
    label = explained_label(result, target)
    return agreement_of(
        {attribution.method: attribution.scores[attribution.content] for attribution in result.maps if attribution.target == label}, label
    )


def explained_label(result: Explanation, target: str | None) -> str:
    """Return ``target``, a label, if ``result`` explains it; if ``target`` is None, the first label that it explains. Raises ExplainerError
    for a label that it does not explain.
    """
    labels = [target_info.label for target_info in result.targets]
    label = labels[0] if target is None else target
    if label not in labels:
        raise ExplainerError(f"{label!r} was not explained; explained were {', '.join(labels)}")
    return label


def agreement_of(scores: Mapping[str, Tensor], target: str) -> Agreement:
    """Return the rank correlations between maps of one ``target``. ``scores`` holds for each method its scores (N,) of the same tokens.
    Raises ExplainerError if it is empty.
    """
    if not scores:
        raise ExplainerError(f"there is no map for {target!r} yet")
    correlations = rank_correlations(np.stack([values.double().numpy() for values in scores.values()]))
    order = cluster(correlations)
    specs = list(scores)
    return Agreement(target, tuple(specs[i] for i in order), correlations[np.ix_(order, order)], len(next(iter(scores.values()))))


def cluster(correlations: NDArray[np.float64]) -> list[int]:
    """Return the row indices of a correlation matrix (M, M) in an order that puts similar rows next to each other; a NaN counts as 0."""
    if len(correlations) < 3:
        return list(range(len(correlations)))
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    distances = 1 - np.nan_to_num(correlations)
    np.fill_diagonal(distances, 0)
    order: list[int] = leaves_list(linkage(squareform(distances, checks=False), "average", optimal_ordering=True)).tolist()
    return order
