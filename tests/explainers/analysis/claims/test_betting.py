"""Bounds by betting against products by hand, exact probabilities over all courses of a game, scipy's intervals, and simulated draws."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binomtest

from explainers.analysis.claims.betting import (
    BETS,
    STOP_ERROR,
    draws_needed,
    is_hopeless,
    log_stake,
    lower_bound,
    most_as_good,
    most_draws,
    rank_evidence,
    upper_bound,
)

ERROR = 0.05


def test_the_stake_is_the_mean_of_products_of_single_bets() -> None:
    values, mean = [0.9, 0.2, 1.0, 0.7], 0.4
    stakes = []
    for bet in range(1, BETS + 1):
        stake = 1.0
        for value in values:
            stake *= 1 + bet / BETS * (value / mean - 1)
        stakes.append(stake)
    assert log_stake(np.array(values), mean) == pytest.approx(math.log(sum(stakes) / BETS))
    assert log_stake(np.array([]), mean) == 0
    assert math.isfinite(log_stake(np.array([1.0, 0.0]), mean))  # who bet all has lost it, the others have not


@pytest.mark.parametrize("mean", [0.5, 0.95])
def test_whenever_one_stops_a_false_sentence_is_believed_no_oftener_than_the_error(mean: float) -> None:
    """Over every course of 150 draws of 0 or 1: the probability that the stake ever reaches 1 / error."""
    still, believed = {0: 1.0}, 0.0
    for draws in range(1, 151):
        following: dict[int, float] = {}
        for wins, chance in still.items():
            for won, probability in ((1, mean), (0, 1 - mean)):
                following[wins + won] = following.get(wins + won, 0.0) + chance * probability
        for wins in list(following):
            values = np.array([1.0] * wins + [0.0] * (draws - wins))
            if log_stake(values, mean) >= -math.log(ERROR):
                believed += following.pop(wins)
        still = following
    assert 0 < believed <= ERROR


def test_a_bound_for_any_time_is_never_tighter_than_the_exact_one_for_a_fixed_time() -> None:
    for wins, draws in ((0, 5), (3, 10), (40, 50), (120, 120)):
        values = np.array([1.0] * wins + [0.0] * (draws - wins))
        exact = binomtest(wins, draws).proportion_ci(1 - 2 * ERROR, method="exact")
        assert lower_bound(values, ERROR) <= exact.low + 1e-9
        assert upper_bound(values, ERROR) >= exact.high - 1e-9
    for_ones = brentq(lambda mean: np.mean([(1 + j / 20 * (1 / mean - 1)) ** 120 for j in range(1, 21)]) - 1 / ERROR, 0.5, 0.9999)
    assert lower_bound(np.ones(120), ERROR) == pytest.approx(for_ones)  # the exact one for a fixed 120 draws is 0.9753


def test_a_bound_is_where_the_stake_is_just_large_enough() -> None:
    values = np.random.default_rng(0).beta(3, 2, 60)
    low = lower_bound(values, ERROR)
    assert log_stake(values, low) == pytest.approx(-math.log(ERROR), abs=1e-6)
    assert lower_bound(values[:1], 1e-9) == pytest.approx(0, abs=1e-6)


def test_simulated_draws_stay_above_the_largest_bound_that_was_ever_seen() -> None:
    rng = np.random.default_rng(1)
    missed = 0
    for _ in range(300):
        values = rng.beta(0.5, 0.5, 100)  # the mean is 0.5, and most draws lie near 0 or 1
        missed += any(log_stake(values[:draws], 0.5) >= -math.log(ERROR) for draws in range(1, 101))
    assert missed / 300 <= ERROR


def test_the_rank_of_a_random_set_earns_nothing_on_average() -> None:
    """The number of random sets that are as good is even over 0 .. n for a set that is drawn as they are."""
    for draws in (1, 10, 200):
        assert np.mean([rank_evidence(draws, as_good, ERROR) for as_good in range(draws + 1)]) == pytest.approx(1)


def test_whenever_one_stops_a_random_set_passes_no_oftener_than_the_error() -> None:
    """The next random set is as good with probability (s + 1) / (n + 2) after s of n (Laplace's rule of succession)."""
    still, passed = {0: 1.0}, 0.0
    for draws in range(1, 601):
        following: dict[int, float] = {}
        for as_good, chance in still.items():
            again = (as_good + 1) / (draws + 1)
            following[as_good + 1] = following.get(as_good + 1, 0.0) + chance * again
            following[as_good] = following.get(as_good, 0.0) + chance * (1 - again)
        for as_good in list(following):
            if rank_evidence(draws, as_good, ERROR) * ERROR >= 1:
                passed += following.pop(as_good)
        still = following
    assert 0 < passed <= ERROR


def test_the_draws_needed_are_the_first_that_are_enough() -> None:
    for as_good in (0, 1):
        found = draws_needed(as_good, 0.9, 0.05, 0.05, 400)
        first = next(
            draws
            for draws in range(as_good + 1, 401)
            if log_stake(np.array([1.0] * (draws - as_good) + [0.0] * as_good), 0.9) >= math.log(20)
            and rank_evidence(draws, as_good, 0.05) >= 20
        )
        assert found == first
    assert draws_needed(30, 0.9, 0.05, 0.05, 100) is None
    assert draws_needed(3, 0.9, 0.05, 0.05, 2) is None


def test_a_small_error_is_given_twice_the_draws_that_it_needs() -> None:
    assert most_draws(0.95, 0.05, 0.05, 400) == 400
    error = 0.0025
    # the stake with none as good, (1 - (1 - error / 2) ** (n + 1)) / (error / 2), must reach 1 / error
    needed = math.ceil(math.log(2) / -math.log(1 - error / 2)) - 1
    assert most_draws(0.95, 0.05, error, 400) == 2 * needed > 400


CLAIM = (0.95, 0.001, 0.0125, 400)  # the share, two errors and the number of draws of a usual claim


def test_the_most_that_may_be_as_good_is_the_last_for_which_draws_are_enough() -> None:
    most = most_as_good(*CLAIM)
    assert draws_needed(most, *CLAIM) is not None
    assert draws_needed(most + 1, *CLAIM) is None
    assert most_as_good(0.95, 0.001, 0.0125, 20) == -1  # so few draws never do


def test_a_set_that_may_still_earn_a_claim_is_seldom_given_up() -> None:
    """Over every course of 200 draws of a set that is beaten by as many random sets as a claim allows."""
    share = most_as_good(*CLAIM) / CLAIM[-1]
    still, given_up = {0: 1.0}, 0.0
    for draws in range(1, 201):
        following: dict[int, float] = {}
        for as_good, chance in still.items():
            following[as_good + 1] = following.get(as_good + 1, 0.0) + chance * share
            following[as_good] = following.get(as_good, 0.0) + chance * (1 - share)
        for as_good in list(following):
            if is_hopeless(as_good, draws, *CLAIM):
                given_up += following.pop(as_good)
        still = following
    assert 0 < given_up <= STOP_ERROR
    assert not is_hopeless(0, 24, *CLAIM)
    assert is_hopeless(6, 24, *CLAIM)  # a quarter are as good
