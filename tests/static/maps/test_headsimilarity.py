"""Why the heads of a block look alike, in words."""

from __future__ import annotations

from tests.support.node import compute_all

HEADS = "async ([maps, isAttention]) => (await script('maps/headsimilarity.js')).whyHeadsAreSimilar(maps, isAttention)"
CASES = [
    ([[0.25, 0.25, 0.26, 0.24], [0.25, 0.24, 0.26, 0.25]], True, "looks nearly evenly at everything"),
    ([[0.9, 0.05, 0.03, 0.02], [0.8, 0.1, 0.06, 0.04]], True, "look at the same places (any two correlate by 1.00 or more)"),
    ([[0.9, 0.05, 0.03, 0.02], [0.02, 0.03, 0.05, 0.9]], True, ""),
    ([[0, 0, 0, 0], [0, 0, 0, 0]], False, "nothing that they do here reaches the answer"),
    ([[1, 1, 1.1, 0.9]], True, ""),  # one head is alike to nothing
]


def test_heads_that_look_alike_are_explained() -> None:
    for said, (_, _, says) in zip(compute_all(HEADS, [[maps, is_attention] for maps, is_attention, _ in CASES]), CASES, strict=True):
        assert says in said
        assert bool(said) == bool(says)
