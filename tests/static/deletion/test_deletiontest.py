"""What the deletion test on one input says of the recommended method."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.node import compute

VERDICT = "async ([ranking, best]) => (await script('deletion/deletiontest.js')).verdict(ranking, best)"
BEST = {"spec": "a", "title": "A"}
RANDOM = {"method": "random baseline", "rank": 0, "gap": 0.1, "control": True}


def row(method: str, rank: int, gap: float) -> dict[str, Any]:
    return {"method": method, "rank": rank, "gap": gap}


@pytest.mark.parametrize(
    ("ranking", "says"),
    [
        ([row("a", 1, 0.6), row("b", 2, 0.5), RANDOM], "Here the deletion test agrees: A is the best of 2."),
        ([row("b", 1, 0.6), row("a", 2, 0.5), RANDOM], "Here the deletion test puts A 2nd of 2."),
        ([row("b", 1, 0.6), RANDOM, row("a", 2, 0.1)], "Here a random order did as well as A in the deletion test."),
        ([row("b", 1, 0.6), RANDOM], ""),
    ],
)
def test_the_test_on_this_input_supports_the_recommendation_or_not(ranking: list[dict[str, Any]], says: str) -> None:
    assert compute(VERDICT, [ranking, BEST]) == says
