"""The simulated queue against what is known in closed form of one with so many processes (M/M/c, and M/M/c/c where nobody may wait)."""

from __future__ import annotations

import math

import pytest

from benchmarks.queueing import erlang_c, fewest, mean_wait, simulate


@pytest.mark.parametrize(("rate", "seconds", "processes"), [(0.5, 1.0, 1), (3.0, 0.8, 3), (10.0, 0.8, 10)])
def test_it_waits_as_the_formula_says(rate: float, seconds: float, processes: int) -> None:
    outcome = simulate(rate, seconds, processes, arrivals=30_000)
    assert outcome.mean == pytest.approx(mean_wait(rate, seconds, processes), rel=0.15)
    assert outcome.refused == 0


def test_the_formula_is_that_of_textbooks() -> None:
    assert mean_wait(0.5, 1.0, 1) == pytest.approx(1.0)  # M/M/1: load / (1 - load) of the time that one takes
    load, processes = 2.4, 3
    terms = [load**k / math.factorial(k) for k in range(processes)]
    last = load**processes / math.factorial(processes) / (1 - load / processes)
    assert erlang_c(3.0, 0.8, 3) == pytest.approx(last / (sum(terms) + last))
    assert mean_wait(2.0, 1.0, 2) == math.inf


def test_where_nobody_may_wait_as_many_are_refused_as_erlang_says() -> None:
    load, processes = 4.0, 5
    lost = (load**processes / math.factorial(processes)) / sum(load**k / math.factorial(k) for k in range(processes + 1))
    outcome = simulate(4.0, 1.0, processes, room=0, arrivals=30_000)
    assert outcome.refused == pytest.approx(lost, rel=0.1)
    assert outcome.p95 == 0


def test_so_many_processes_are_enough_and_one_less_is_not() -> None:
    count = fewest(10.0, 0.8, 1.0)
    assert simulate(10.0, 0.8, count, arrivals=30_000).p95 < 1.0
    assert simulate(10.0, 0.8, count - 1, arrivals=30_000).p95 > 1.0
