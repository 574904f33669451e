"""What a figure says of how its maps are drawn."""

from __future__ import annotations

import pytest

from tests.support.node import compute

DRAWN = "async (view) => (await script('maps/caption.js')).drawnAs(view)"


@pytest.mark.parametrize(
    ("evidence", "scale", "says"),
    [
        ("both", "own", "shows scores for and against, each map on its own scale"),
        ("against", "shared", "shows scores against alone, all maps on one scale"),
    ],
)
def test_a_figure_says_which_scores_it_shows_and_on_which_scale(evidence: str, scale: str, says: str) -> None:
    assert compute(DRAWN, {"evidence": evidence, "scale": scale}) == says
