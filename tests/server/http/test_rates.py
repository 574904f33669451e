"""A minute's worth of requests at once, and then one after the other."""

from __future__ import annotations

from vitrine_server.http import rates
from vitrine_server.http.rates import Rate


def test_a_minute_holds_so_many_and_they_come_back_one_by_one() -> None:
    now = 1000.0
    rate = Rate(4, lambda: now)
    assert [rate.wait("a") for _ in range(4)] == [0.0] * 4
    assert rate.wait("a") == rate.wait("a") == 15.0  # what is refused does not count
    assert rate.wait("b") == 0.0
    now += 14.0
    assert (rate.seconds_full("a"), rate.wait("a")) == (1.0, 1.0)
    now += 1.0
    assert (rate.wait("a"), rate.wait("a")) == (0.0, 15.0)
    now += 60.0
    assert [rate.wait("a") for _ in range(5)] == [0.0] * 4 + [15.0]


def test_who_has_not_asked_for_a_minute_is_forgotten() -> None:
    now = 0.0
    rate = Rate(1, lambda: now)
    for number in range(rates._MOST_KEYS):
        rate.wait(str(number))
    now += 61.0
    rate.wait("another")
    assert len(rate._whole_at) == 1
