"""What the deletion test on one input says of the recommended method."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.node import compute

VERDICT = "async ([answer, best, methods]) => (await script('deletion/deletiontest.js')).verdict(answer, best ?? undefined, methods)"
RULE = "async (answer) => (await script('maps/chance.js')).failureRule(answer)"
BEST = {"spec": "a", "title": "A", "standing": {"inputs": "60 pictures"}}
METHODS = [{"spec": name, "title": name.upper()} for name in "abcde"]
BASELINE = {"method": "random baseline", "rank": 0, "gap": 0.0, "control": True}
CHANCE = 0.1  # between two random orders


def answer(*ranking: dict[str, Any]) -> dict[str, Any]:
    return {"ranking": ranking, "chance_gap": CHANCE, "random": {"seeds": 5}}


def row(method: str, rank: int, gap: float) -> dict[str, Any]:
    return {"method": method, "rank": rank, "gap": gap}


ALL_PASS = "No map fails: what each marks matters more than random parts."
ONE_PASSES = ALL_PASS.replace("each", "it")
ONE = "what it marks matters no more than random parts"
SEVERAL = ONE.replace("it", "each")
SECOND = "Here B does best; A, best on 60 pictures, is 2nd of 2."


@pytest.mark.parametrize(
    ("ranking", "says"),
    [
        ([row("a", 1, 0.6), row("b", 2, 0.5)], f"Here the test agrees: A is best of 2. {ALL_PASS}"),
        ([row("b", 1, 0.6), row("a", 2, 0.5)], f"{SECOND} {ALL_PASS}"),
        ([row("b", 1, 0.6), row("a", 2, 0.1)], f"{SECOND} A fails: {ONE}."),  # better than 0, as chance is
        ([row("b", 1, 0.6)], ONE_PASSES),
        ([row("b", 1, 0.6), row("c", 2, 0.0), row("d", 3, -0.2)], f"C and D fail: {SEVERAL}."),
        (
            [row("a", 1, 0.1), row("b", 2, 0.0), row("c", 3, 0.0), row("d", 4, -0.2), row("e", 5, -0.3)],
            f"Here the test agrees: A is best of 5. A, B, C and 2 more fail: {SEVERAL}.",
        ),
        ([row("random", 0, 0.0)], ""),  # the control fails by design
        # a map of random numbers is chance too: what stands under it in the table does no better
        (
            [row("a", 1, 0.6), row("random", 0, 0.2), row("b", 2, 0.15)],
            f"Here the test agrees: A is best of 2. B fails: {ONE}.",
        ),
        ([row("a", 1, 0.6), row("random", 0, 0.0)], ONE_PASSES),  # of one map there is no best
    ],
)
def test_the_test_on_this_input_stands_next_to_the_recommendation_and_names_what_fails(ranking: list[dict[str, Any]], says: str) -> None:
    assert compute(VERDICT, [answer(*ranking, BASELINE), BEST, METHODS]) == says


def test_what_fails_is_said_where_no_method_is_recommended() -> None:
    judged = answer(row("b", 1, 0.6), row("c", 2, 0.1), BASELINE)
    assert compute(VERDICT, [judged, None, METHODS]) == f"C fails: {ONE}."


def test_a_map_in_doubt_stays_in_doubt_where_it_passes() -> None:
    doubted = VERDICT.replace("undefined, methods)", "undefined, methods, new Set(['c', 'e']))")
    judged = answer(row("b", 1, 0.6), row("c", 2, 0.5), BASELINE)  # of E no map is on show
    assert compute(doubted, [judged, None, METHODS]) == ALL_PASS.replace("fails", "fails this test")


def test_what_it_means_to_fail_is_said_with_its_threshold() -> None:
    rule = "A map fails if the gap between its two areas is {} or less: as large as chance gave on this input ({})."
    assert compute(RULE, answer(row("b", 1, 0.6), BASELINE)) == rule.format("0.10", "5 random orders")
    with_map = answer(row("b", 1, 0.6), row("random", 0, 0.2), BASELINE)
    assert compute(RULE, with_map) == rule.format("0.20", "5 random orders and a random map")
