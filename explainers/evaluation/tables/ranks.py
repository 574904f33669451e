"""Whether methods differ measurably over several models and data sets, by their ranks: Friedman's test, and Nemenyi's against the best.

Both are computed by permutation. If methods are alike, every order of them is equally likely in each block, so the ranks of each block are
shuffled many times. The formulas for many blocks (chi-square, studentised range) are wrong for the two to ten that people have; Demšar,
2006: Statistical Comparisons of Classifiers over Multiple Data Sets, JMLR 7, says which tests these are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from explainers.evaluation.statistics import ALPHA, BOOTSTRAP_DRAWS, Numbers, without_rounding


@dataclass(frozen=True, eq=False)
class RankTest:
    """The result of comparing M methods over several blocks by their ranks.

    ranks       (M,): the mean rank of each method, 1 for the best
    p           p of Friedman's test that all methods are alike
    p_of_best   (M,): p of Nemenyi's test that a method is as good as the one with the best mean rank; 1 for that one
    can_tell    whether there are enough blocks to distinguish two methods at all, if one were best and the other worst in every block
    """

    ranks: Numbers
    p: float
    p_of_best: Numbers
    can_tell: bool

    @property
    def tied(self) -> NDArray[np.bool_]:
        """The methods that are tied with the best, bool (M,)."""
        tied: NDArray[np.bool_] = self.p_of_best >= ALPHA
        return tied


def ranks_of(values: Numbers, direction: str) -> Numbers:
    """Return the ranks (..., M) of ``values`` (..., M), 1 for the best, which is the largest if ``direction`` is "higher", else the
    smallest; equal values share their mean rank.
    """
    values = without_rounding(values)
    from scipy.stats import rankdata  # takes a second to import

    ranks: Numbers = rankdata(-values if direction == "higher" else values, axis=-1)
    return ranks


def compare_ranks(ranks: Numbers, seed: int = 0) -> RankTest:
    """Test by permutation whether M methods differ in their ranks (N, M) over N blocks, and return the result."""
    draw = np.random.default_rng(seed)
    means = ranks.mean(0)
    drawn = np.zeros((BOOTSTRAP_DRAWS, ranks.shape[1]))
    for block in ranks:
        drawn += draw.permuted(np.tile(block, (BOOTSTRAP_DRAWS, 1)), axis=1)
    drawn /= len(ranks)
    spans = drawn.max(1) - drawn.min(1)

    def p_of(observed: float, by_chance: Numbers) -> float:
        return float((np.count_nonzero(by_chance >= observed - 1e-9) + 1) / (len(by_chance) + 1))

    # for given ranks Friedman's statistic grows with the variance of their means
    return RankTest(
        ranks=means,
        p=p_of(float(means.var()), drawn.var(1)),
        p_of_best=np.array([p_of(float(mean - means.min()), spans) for mean in means]),
        can_tell=p_of(float((ranks.max(1) - ranks.min(1)).mean()), spans) < ALPHA,
    )
