"""What a figure says of how its maps are drawn."""

from __future__ import annotations

import pytest

from tests.support.node import compute

DRAWN = "async ([view, signed]) => (await script('maps/caption.js')).drawnAs(view, signed)"


@pytest.mark.parametrize(
    ("evidence", "scale", "signed", "says"),
    [
        ("both", "own", [True, True], "shows scores for and against, each map on its own scale"),
        ("both", "own", [False, False], "shows scores weak to strong, each map on its own scale"),
        ("both", "own", [True, False], "shows scores for and against, or weak to strong, each map on its own scale"),
        ("against", "shared", [True], "shows scores against alone, all maps on one scale"),
    ],
)
def test_a_figure_says_which_scores_it_shows_and_on_which_scale(evidence: str, scale: str, signed: list[bool], says: str) -> None:
    assert compute(DRAWN, [{"evidence": evidence, "scale": scale}, signed]) == says
