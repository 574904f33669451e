"""A map in words."""

from __future__ import annotations

from tests.support.node import compute

TELL = "([units, map]) => script('maps/summary.js').then(({ textInWords }) => textInWords(units, map))"


def test_the_words_of_a_plate_are_named_once_each() -> None:
    units = [
        {"text": text, "value": value} for text, value in (("Astonishing", 3), ("film", -1), ("astonishing", 2), ("brave", 1), ("a", 0))
    ]
    said = compute(TELL, [units, {"signed": True, "target": "positive"}])
    assert said == "Strongest for positive: “Astonishing” +3.00 and +2.00, “brave” +1.00. Against: “film” \u22121.00."
