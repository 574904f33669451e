"""What the deletion test on one input says of the recommended method."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.node import compute

VERDICT = "async ([ranking, best, methods]) => (await script('deletion/deletiontest.js')).verdict(ranking, best ?? undefined, methods)"
BEST = {"spec": "a", "title": "A"}
METHODS = [{"spec": name, "title": name.upper()} for name in "abcde"]
RANDOM = {"method": "random baseline", "rank": 0, "gap": 0.1, "control": True}


def row(method: str, rank: int, gap: float) -> dict[str, Any]:
    return {"method": method, "rank": rank, "gap": gap}


ALL_PASS = "No method fails it: each does better than a random order."


@pytest.mark.parametrize(
    ("ranking", "says"),
    [
        ([row("a", 1, 0.6), row("b", 2, 0.5), RANDOM], f"Here the deletion test agrees: A is the best of 2. {ALL_PASS}"),
        ([row("b", 1, 0.6), row("a", 2, 0.5), RANDOM], f"Here the deletion test puts A 2nd of 2. {ALL_PASS}"),
        (
            [row("b", 1, 0.6), RANDOM, row("a", 2, 0.1)],
            "Here the deletion test puts A 2nd of 2. A fails it: no better than a random order.",
        ),
        ([row("b", 1, 0.6), RANDOM], ALL_PASS),
        ([row("b", 1, 0.6), RANDOM, row("c", 2, 0.0), row("d", 3, -0.2)], "C and D fail it: no better than a random order."),
        (
            [RANDOM, row("a", 1, 0.1), row("b", 2, 0.0), row("c", 3, 0.0), row("d", 4, -0.2), row("e", 5, -0.3)],
            "Here the deletion test agrees: A is the best of 5. A, B, C and 2 more fail it: no better than a random order.",
        ),
        ([row("random", 0, 0.0), RANDOM], ""),  # the control fails by design
        (
            [row("a", 1, 0.6), row("random", 0, 0.2), row("b", 2, 0.15), RANDOM],
            f"Here the deletion test agrees: A is the best of 2. {ALL_PASS}",
        ),
        ([row("random", 0, 0.9), row("b", 1, 0.6), row("a", 2, 0.5), RANDOM], f"Here the deletion test puts A 2nd of 2. {ALL_PASS}"),
        ([row("a", 1, 0.6), RANDOM, row("random", 0, 0.0)], ALL_PASS),  # of one map there is no best
    ],
)
def test_the_test_on_this_input_supports_the_recommendation_or_not_and_names_what_fails(ranking: list[dict[str, Any]], says: str) -> None:
    assert compute(VERDICT, [ranking, BEST, METHODS]) == says


def test_what_fails_is_said_where_no_method_is_recommended() -> None:
    assert compute(VERDICT, [[row("b", 1, 0.6), row("c", 2, 0.1), RANDOM], None, METHODS]) == "C fails it: no better than a random order."
