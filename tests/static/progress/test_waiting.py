"""How long an answer takes, and how far it is, in words."""

from __future__ import annotations

from tests.support.node import compute, compute_all

REMAINING = "async (state) => (await script('progress/waitingline.js')).remaining(state)"
CASES = [
    ({"elapsed": 0.1}, ""),
    ({"elapsed": 3.2}, "3 s so far"),
    ({"elapsed": 0, "expected": 1.2}, ""),
    ({"elapsed": 0, "expected": 5}, "about 5 s left"),
    ({"elapsed": 3, "expected": 45}, "about 40 s left"),
    ({"elapsed": 0, "expected": 221}, "about 4 minutes left"),
    ({"elapsed": 9, "expected": 5}, "longer than expected, 9 s so far"),
    ({"elapsed": 4, "done": 10, "all": 60}, "about 20 s left"),
    ({"elapsed": 0.1, "done": 10, "all": 60}, ""),
]


def test_how_long_it_takes_in_words() -> None:
    assert compute_all(REMAINING, [state for state, _ in CASES]) == [said for _, said in CASES]


def test_it_is_said_what_is_counted() -> None:
    line = "async (given) => (await script('progress/waiting.js')).askedLine(...given)"
    assert compute(line, [152, 198, "at least"]) == "The model was asked 152 of at least 198 times"
    assert compute(line, [0, 24]) == "The model was asked 0 of 24 times"
