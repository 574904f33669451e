"""Bounds and evidence from draws one by one, valid at whatever draw one stops: bets that cannot win on average if a sentence is false.

A gambler bets on each draw at odds that are fair, or better for the house, if the sentence is false. By Ville's inequality the stake then
grows 1 / error-fold, at any time at all, with a probability of at most ``error``: so one may look after each draw, stop when it is enough,
and be wrong no oftener than that. No draw needs a distribution; it is enough that it lies between 0 and 1.

Waudby-Smith & Ramdas, "Estimating means of bounded random variables by betting", JRSS B 86 (2024), 2010.09686: bounds for means, here by
the mean over fixed bets (their dKelly). Fischer & Ramdas, "Sequential Monte-Carlo testing by betting", JRSS B (2025), 2401.07365: ranks
among random sets, here by their binomial mixture.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

BETS = 20  # shares of the stake that are bet, evenly spaced up to all of it
STOP_ERROR = 0.05  # with which a search is given up that would have earned a claim
_HALVINGS = 40  # of the interval in which a bound is searched: exact to 1e-12


def log_stake(values: NDArray[np.float64], mean: float) -> float:
    """Return the logarithm of what a stake of 1 has become after betting that the mean of ``values`` (n,), draws between 0 and 1, is larger
    than ``mean``.

    It is the mean over j = 1 .. ``BETS`` of prod_i (1 + (j / BETS) (x_i / mean - 1)), whose expectation is at most 1 if the true mean is
    ``mean`` or less.
    """
    return _log_stake(*np.unique(values, return_counts=True), mean)


def _log_stake(distinct: NDArray[np.float64], counts: NDArray[np.int64], mean: float) -> float:
    """Return :func:`log_stake` of values of which each of ``distinct`` (m,) was drawn as often as ``counts`` (m,) says."""
    if not len(distinct):
        return 0.0
    shares = np.arange(1, BETS + 1) / BETS
    factors = 1 + shares[:, None] * (distinct / mean - 1)
    with np.errstate(divide="ignore"):  # all is lost at a draw of 0
        logarithms = np.log(factors) @ counts if factors.min() > 0 else (counts * np.log(np.maximum(factors, 0))).sum(1)
    return float(np.logaddexp.reduce(logarithms) - math.log(BETS))


def lower_bound(values: NDArray[np.float64], error: float) -> float:
    """Return the largest number that the mean of ``values`` (n,), draws between 0 and 1, exceeds with an error of at most ``error``,
    whenever one stopped drawing; 0 if they are too few.
    """
    low, high = 0.0, 1.0
    distinct, counts = np.unique(values, return_counts=True)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _log_stake(distinct, counts, middle) >= -math.log(error) else (low, middle)
    return low


def upper_bound(values: NDArray[np.float64], error: float) -> float:
    """Return the smallest number that the mean of ``values`` stays below, as :func:`lower_bound`."""
    return 1 - lower_bound(1 - values, error)


def rank_evidence(draws: int, as_good: int, error: float) -> float:
    """Return how many times a stake has grown on the bet that a set is better than random sets, after ``draws`` of these of which
    ``as_good`` were as good or better.

    If the set was itself drawn at random, its rank among all is even, and the stake is expected to stay 1: it reaches 1 / ``error`` with a
    probability of at most ``error``. The bet is that less than ``error`` / 2 of the random sets are as good: the stake is the posterior
    probability of that under an even prior, over ``error`` / 2.
    """
    share = error / 2
    from scipy.special import betainc  # slow to import

    return float(betainc(as_good + 1, draws - as_good + 1, share)) / share


@cache
def most_draws(share: float, share_error: float, rank_error: float, usual: int) -> int:
    """Return how many random sets to draw at most: ``usual`` ones, or, where that is more, twice as many as are needed if none is as good.
    The arguments are those of :func:`draws_needed`.
    """
    most = usual
    while (needed := draws_needed(0, share, share_error, rank_error, most)) is None:
        most *= 2
    return max(usual, 2 * needed)


@cache
def draws_needed(as_good: int, share: float, share_error: float, rank_error: float, most: int) -> int | None:
    """Return the smallest number of random sets, ``as_good`` of them as good, at which both hold: a set is better than ``share`` of them
    with an error of at most ``share_error``, and it is no random set with an error of ``rank_error``. None if ``most`` are too few.

    All draws but the last ones are taken to be the good ones: the order does not count.
    """
    low, high = as_good + 1, most

    def enough(draws: int) -> bool:
        wins = np.concatenate([np.ones(draws - as_good), np.zeros(as_good)])
        return log_stake(wins, share) >= -math.log(share_error) and rank_evidence(draws, as_good, rank_error) * rank_error >= 1

    if low > high or not enough(high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return low


@cache
def is_hopeless(as_good: int, draws: int, share: float, share_error: float, rank_error: float, most: int) -> bool:
    """Return whether a set cannot be expected to earn a claim: with an error of at most ``STOP_ERROR`` the share of random sets that are as
    good, ``as_good`` of ``draws``, is larger than the share that ``most`` of them may hold. The other arguments are those of
    :func:`draws_needed`.

    It is a bet as those for the claim, so that one may look after each draw. To stop costs claims and makes none.
    """
    allowed = most_as_good(share, share_error, rank_error, most) / most
    values = np.concatenate([np.ones(as_good), np.zeros(draws - as_good)])
    return as_good > 0 and log_stake(values, max(allowed, 1 / most)) >= -math.log(STOP_ERROR)


@cache
def most_as_good(share: float, share_error: float, rank_error: float, most: int) -> int:
    """Return how many of ``most`` random sets may be as good where a claim can still be made; -1 if none is possible at all. The arguments
    are those of :func:`draws_needed`.
    """
    as_good = 0
    while draws_needed(as_good, share, share_error, rank_error, most) is not None:
        as_good += 1
    return as_good - 1
