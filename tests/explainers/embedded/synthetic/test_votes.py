"""Pictures in which 16 places vote: who wins, and where those are that made it win."""

from __future__ import annotations

import numpy as np

from explainers.embedded.synthetic.votes import GRID, MIN_LEAD, PATCH, READ, READ_COUNT, SIGNS, ballot, read_places, sign_shapes


def test_the_sign_that_wins_has_most_votes_by_its_lead() -> None:
    places = read_places()
    assert places.sum() == READ_COUNT == len(set(READ))
    for seed in range(20):
        drawn = ballot(np.random.default_rng(seed))
        votes = np.bincount(drawn.signs[places], minlength=len(SIGNS))
        assert votes.argmax() == drawn.winner
        assert votes[drawn.winner] - np.delete(votes, drawn.winner).max() >= MIN_LEAD
        assert drawn.voters.sum() == votes[drawn.winner]
        assert (drawn.voters <= places).all()


def test_a_patch_shows_its_sign_and_no_other() -> None:
    """The two colours of a patch lie far apart, so its sign, or its reverse, is what is brighter than its mean."""
    drawn, shapes = ballot(np.random.default_rng(1)), sign_shapes()
    patches = np.asarray(drawn.image, float).mean(2).reshape(GRID, PATCH, GRID, PATCH).swapaxes(1, 2).reshape(-1, PATCH, PATCH)
    for patch, sign in zip(patches, drawn.signs.flat, strict=True):
        likeness = [abs(np.corrcoef(patch.flat, shape.flat)[0, 1]) for shape in shapes]
        assert int(np.argmax(likeness)) == sign
