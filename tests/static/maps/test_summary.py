"""A map in words."""

from __future__ import annotations

import pytest

from tests.support.node import compute

TELL = "([units, map]) => script('maps/summary.js').then(({ textInWords }) => textInWords(units, map))"


def test_the_words_of_a_plate_are_named_once_each() -> None:
    units = [
        {"text": text, "value": value} for text, value in (("Astonishing", 3), ("film", -1), ("astonishing", 2), ("brave", 1), ("a", 0))
    ]
    said = compute(TELL, [units, {"signed": True, "target": "positive"}])
    assert said == "Strongest for positive: “Astonishing” +3.00 and +2.00, “brave” +1.00. Against: “film” \u22121.00."


PICTURES = "([pictures, map]) => script('maps/summary.js').then(({ picturesInWords }) => picturesInWords(pictures, map))"


@pytest.mark.parametrize(
    ("values", "signed", "said"),
    [
        ([0.25, 1.5, -2], True, "Picture 2 speaks most for cat: its patches add up to +1.50. Next is picture 1 with +0.250."),
        ([0.5, 1, 3], False, "Picture 3 has the largest patch: 3.00. Next is picture 2 with 1.00."),
        ([-1, -2, -0.5], True, "No picture speaks for cat. The highest is picture 3: \u22120.500."),
        ([3, 3.0001, 0], True, "Picture 2 and picture 1 count alike: +3.00 each."),
        ([3], True, ""),
    ],
)
def test_the_picture_that_counts_most_is_named(values: list[float], signed: bool, said: str) -> None:
    pictures = [{"name": f"Picture {number}", "value": value} for number, value in enumerate(values, 1)]
    assert compute(PICTURES, [pictures, {"signed": signed, "target": "cat"}]) == said
