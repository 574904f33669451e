"""Numbers in words: what is only rounding is no change."""

from __future__ import annotations

import numpy as np

from tests.browser.support.number_format import MINUS, percent, shown
from tests.support.node import compute_all

NUMBER = "async ([value, digits]) => (await script('core/dom.js')).number(Number(value), digits)"
CHANGED = "async ([was, now]) => (await script('core/dom.js')).formatChange(was, now)"


def test_what_is_only_rounding_is_no_change() -> None:
    changes = [
        ({"probability": 0.7}, {"probability": 0.7 - 6.9e-8}, "0 points"),
        ({"probability": 0.7}, {"probability": 0.7012}, "+0.12 points"),
        ({"probability": 0.7}, {"probability": 0.2}, "\u221250.0 points"),
        ({"probability": 0.002}, {"probability": 0.997}, "+99.5 points"),  # as 99.7 % less 0.2 % says
        ({"probability": 0.0501}, {"probability": 0.1501}, "+10.0 points"),
        ({"probability": 0.0}, {"probability": 1.0}, "+100.0 points"),
        ({"logit": 12.0}, {"logit": 12.00001}, "0"),
        ({"logit": 12.0}, {"logit": 10.5}, "\u22121.50"),
    ]
    assert compute_all(CHANGED, [[was, now] for was, now, _ in changes]) == [says for _, _, says in changes]


def test_numbers_are_written_as_the_tests_of_the_pages_expect_them() -> None:
    """Which is held here for thousands of values, and on the pages for those that happen to be shown."""
    rng = np.random.default_rng(0)
    values = [0, 1, -1, 0.5, 0.09996, 9.996, 99.95, 1e-4, 9.99e-5, -3e-7, *(rng.choice([-1, 1], 3000) * 10 ** rng.uniform(-9, 3, 3000))]
    cases = [[float(value), digits] for value in values for digits in (2, 3)]
    assert compute_all(NUMBER, cases) == [shown(value, digits) for value, digits in cases]


def test_large_numbers_and_what_is_no_number() -> None:
    said = compute_all(NUMBER, [[1234.5, 3], [999999, 3], [1e6, 3], [-2.5e9, 2], ["NaN", 3], ["Infinity", 3], ["-Infinity", 3]])
    assert said == ["1235", "999999", "1.00e6", f"{MINUS}2.5e9", "not a number", "∞", f"{MINUS}∞"]


def test_probabilities_never_read_as_certain() -> None:
    rng = np.random.default_rng(0)
    probabilities = [0.0, 1.0, 1e-9, 0.0004, 0.00051, 0.9994, 0.99951, 1 - 1e-9, *rng.uniform(0, 1, 1000)]
    assert compute_all("async (p) => (await script('core/dom.js')).percent(p)", probabilities) == list(map(percent, probabilities))


def test_counts_have_commas() -> None:
    assert compute_all("async (n) => (await script('core/dom.js')).whole(n)", [0, 999, 1000, 1234567]) == ["0", "999", "1,000", "1,234,567"]
