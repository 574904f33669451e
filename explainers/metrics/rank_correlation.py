"""Spearman's rank correlation of many maps at once, which metrics and comparisons of methods share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def rank_correlations(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return Spearman's rank correlation of every pair of rows of ``scores``, (M, N) -> (M, M); NaN in the row and column of a constant
    one.
    """
    from scipy.stats import rankdata  # takes a second to import

    ranks = rankdata(scores, axis=1)
    ranks = ranks - ranks.mean(1, keepdims=True)
    sizes = np.sqrt((ranks**2).sum(1))
    products = ranks @ ranks.T
    with np.errstate(invalid="ignore"):  # 0 / 0 of a constant row is the NaN that is wanted
        cosines: NDArray[np.float64] = np.clip(products / np.outer(sizes, sizes), -1, 1)
    return cosines
