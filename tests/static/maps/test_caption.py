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


@pytest.mark.parametrize(
    ("ends", "where", "says"),
    [
        ([1, 3], [], "Nothing here speaks against, so the map is drawn as strength: only the order counts."),
        ([-3, -1], ["in the picture"], "Nothing in the picture speaks for, so the map is drawn as strength: only the order counts."),
        ([-3, 3], ["in the picture"], ""),
    ],
)
def test_a_map_of_one_sign_says_where_nothing_has_the_other(ends: list[int], where: list[str], says: str) -> None:
    """Of a picture and its prompt each part has its own scale."""
    assert compute("async (given) => (await script('maps/caption.js')).oneSignNote(...given)", [ends, True, *where]) == says
