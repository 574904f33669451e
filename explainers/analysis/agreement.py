"""Agreement of maps: Spearman's rank correlation of every pair of methods, and an order of the methods by hierarchical clustering."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from explainers.errors import ExplainerError
from explainers.metrics.rank_correlation import rank_correlations
from explainers.records.result import Explanation


@dataclass(frozen=True, eq=False)
class Agreement:
    """How alike the maps of one target are.

    target        its label
    methods       specs, like beside like: average linkage on 1 - the correlation, leaves in the optimal order
    correlations  float64 (methods, methods) in that order: Spearman's rank correlation of the scores as they are, sign included; equal
                  scores share the mean of their ranks; NaN where a map has one score throughout, which orders nothing
    tokens        how many patches or word pieces were ranked; special tokens were not
    """

    target: str
    methods: tuple[str, ...]
    correlations: NDArray[np.float64]
    tokens: int

    def to_json(self) -> dict[str, Any]:
        """Plain data; None in place of NaN."""
        rows = [[None if np.isnan(value) else float(value) for value in row] for row in self.correlations]
        return {"target": self.target, "measure": "spearman", "methods": list(self.methods), "correlations": rows, "tokens": self.tokens}


def agreement(result: Explanation, target: str | None = None) -> Agreement:
    """How alike the maps of ``result`` are that explain ``target``, a label, the first one by default.

    Raises ExplainerError for a target that was not explained.
    """
    label = explained_label(result, target)
    return agreement_of(
        {attribution.method: attribution.scores[attribution.content] for attribution in result.maps if attribution.target == label}, label
    )


def explained_label(result: Explanation, target: str | None) -> str:
    """``target`` if it was explained, the first label where it is None. Raises ExplainerError for one that was not explained."""
    labels = [target_info.label for target_info in result.targets]
    label = labels[0] if target is None else target
    if label not in labels:
        raise ExplainerError(f"{label!r} was not explained; explained were {', '.join(labels)}")
    return label


def agreement_of(scores: Mapping[str, Tensor], target: str) -> Agreement:
    """How alike maps are that explain ``target``: the scores (N,) of the same tokens by method. Raises ExplainerError for no map."""
    if not scores:
        raise ExplainerError(f"there is no map for {target!r} yet")
    correlations = rank_correlations(np.stack([values.double().numpy() for values in scores.values()]))
    order = cluster(correlations)
    specs = list(scores)
    return Agreement(target, tuple(specs[i] for i in order), correlations[np.ix_(order, order)], len(next(iter(scores.values()))))


def cluster(correlations: NDArray[np.float64]) -> list[int]:
    """The rows of a matrix of correlations (M, M) in an order that puts like beside like; a NaN counts as no correlation."""
    if len(correlations) < 3:
        return list(range(len(correlations)))
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    distances = 1 - np.nan_to_num(correlations)
    np.fill_diagonal(distances, 0)
    order: list[int] = leaves_list(linkage(squareform(distances, checks=False), "average", optimal_ordering=True)).tolist()
    return order
