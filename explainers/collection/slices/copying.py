"""The test of a place: what other rows are answered when what rows of a slice show there is copied into their pictures."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from explainers.collection.intervals import Sums
from explainers.collection.records import CollectedRow
from explainers.collection.rows import CollectionSetup
from explainers.collection.slices.clusters import Integers
from explainers.collection.slices.hiding import check_cancelled, elsewhere
from explainers.collection.slices.records import CopyTest
from explainers.models.removal.token_removal import answer

TAKERS = 4  # pictures that each row of the slice is copied into
_PIXELS = "pixel_values"


def copy_place(
    setup: CollectionSetup,
    donors: Sequence[CollectedRow],
    patches: Integers,
    takers: Sequence[tuple[int, str]],
    done: Callable[[int], None] | None = None,
) -> CopyTest | None:
    """Copy what the pictures of ``donors`` show at ``patches`` into pictures with other answers, and as much from elsewhere; return how
    probable the donors' answers are then. None for a model whose pictures are no grids of pixels, or without such a picture.

    takers  index and answer of the rows to copy into, of which four with another answer are drawn for each donor

    Elsewhere is the same form at another place, as for :func:`hide_place`; it is copied from there to there. The mean over its pictures is
    the value of a donor, so that one donor counts once. ``done`` is called with the number of donors that are done. Raises Cancelled if the
    setup says so.
    """
    placed, away, difference = Sums(), Sums(), Sums()
    for number, donor in enumerate(donors):
        check_cancelled(setup)
        rng = np.random.default_rng([setup.seed, donor.index, 1])
        others = [index for index, its_answer in takers if its_answer != donor.answer]
        if not others:
            continue
        drawn = rng.permutation(others)[:TAKERS].tolist()
        grid = (donor.grid[0], donor.grid[1])
        places = [np.broadcast_to(patches, (len(drawn), len(patches))), np.stack(elsewhere(patches, grid, len(drawn), rng))]
        probabilities = _copied(setup, donor, drawn, places, grid)
        if probabilities is None:
            return None
        there, not_there = (float(each.mean()) for each in probabilities)
        placed.add(there)
        away.add(not_there)
        difference.add(there - not_there)
        if done is not None:
            done(number + 1)
    if not difference.inputs:
        return None
    return CopyTest(donors=difference.inputs, copied=placed.mean(), elsewhere=away.mean(), difference=difference.mean(), p=difference.p())


def _copied(
    setup: CollectionSetup, donor: CollectedRow, takers: Sequence[int], places: Sequence[Integers], grid: tuple[int, int]
) -> list[Tensor] | None:
    """Return for each of the ``places``, patches (T, K) of each taker, the probability (T,) of the donor's answer in the T takers' pictures
    with what the donor shows there; None if their pixels cannot be exchanged.
    """
    prepared = setup.model.prepare([setup.read(index).model_input for index in (donor.index, *takers)]).tensors
    pixels = prepared.get(_PIXELS)
    if pixels is None or pixels.ndim != 4 or len(pixels) != 1 + len(takers):
        return None
    rest = {name: value[1:] if setup.model.is_sample(name) else value for name, value in setup.with_prompts(prepared).items()}
    probabilities = []
    for patches in places:
        taken = torch.zeros(len(takers), grid[0] * grid[1]).scatter_(1, torch.from_numpy(np.ascontiguousarray(patches)), 1.0)
        mask = F.interpolate(taken.to(pixels).unflatten(1, grid)[:, None], size=pixels.shape[-2:], mode="nearest")
        mixed = torch.where(mask > 0, pixels[:1], pixels[1:])
        logits = answer(setup.model, {**rest, _PIXELS: mixed}).float().cpu()
        probabilities.append(setup.model.calibration.probabilities(logits, setup.model.output)[:, donor.answer_index])
    return probabilities
