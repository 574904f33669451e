"""Which methods stand first."""

from __future__ import annotations

from typing import Any

from tests.support.node import compute

LEADERS = "async (given) => (await script('core/registry.js')).leaders(given).map(({ spec }) => spec)"


def variant(rank: int | None, family: str = "gradients") -> dict[str, Any]:
    standing = None if rank is None else {"rank": rank}
    return {"spec": f"{family}{rank}", "family": family, "standing": standing}


def test_the_first_four_are_one_a_family_the_best_of_all_in_front() -> None:
    plates = [variant(3), variant(1), variant(9, "attention"), variant(2), variant(7, "relevance"), variant(None, "control")]
    plates = [each | {"place": place} for place, each in enumerate(plates)]
    assert compute(LEADERS, plates) == ["gradients1", "relevance7", "attention9", "gradients2"]
