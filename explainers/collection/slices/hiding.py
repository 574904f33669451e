"""The test of a slice: what its rows are answered without what it names, against as much hidden elsewhere in the same rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from explainers.collection.intervals import Sums, share
from explainers.collection.records import CollectedRow
from explainers.collection.rows import CollectionSetup
from explainers.collection.slices.clusters import Integers
from explainers.collection.slices.records import HidingTest
from explainers.models.inputs.types import TextInput
from explainers.models.removal.input_removal import input_removal
from explainers.models.removal.together import answers_without_patches
from explainers.records.session import Cancelled

CHOICES = 3  # of parts elsewhere, for each row

#: A row that is asked again, and its logits (1 + CHOICES, C): without what the slice names, and without each choice of parts elsewhere.
_Asked = tuple[CollectedRow, Tensor]


def hide_place(
    setup: CollectionSetup, rows: Sequence[CollectedRow], patches: Integers, done: Callable[[int], None] | None = None
) -> HidingTest:
    """Hide ``patches``, in raster order, in the pictures of ``rows``, and as many elsewhere; return what the model answers.

    Elsewhere is the same form at a random place that overlaps it least; random patches take the place of those that still overlap. ``done``
    is called with the number of rows that are done. Raises Cancelled if the setup says so.
    """
    replies: list[_Asked] = []
    for start in range(0, len(rows), setup.batch):
        check_cancelled(setup)
        batch = rows[start : start + setup.batch]
        grid = (batch[0].grid[0], batch[0].grid[1])
        prepared = setup.model.prepare([setup.read(row.index).model_input for row in batch])
        tensors = setup.with_prompts(prepared.tensors)
        hidden = np.stack(
            [np.stack([patches, *elsewhere(patches, grid, CHOICES, np.random.default_rng([setup.seed, row.index]))]) for row in batch]
        )
        keep = torch.ones(len(batch), 1 + CHOICES, grid[0] * grid[1], dtype=torch.bool).scatter_(2, torch.from_numpy(hidden), value=False)
        logits = [answers_without_patches(setup.model, tensors, keep[:, i], grid, setup.how) for i in range(1 + CHOICES)]
        replies += zip(batch, torch.stack(logits, dim=1), strict=True)
        if done is not None:
            done(len(replies))
    return _tested(setup, replies)


def elsewhere(patches: Integers, grid: tuple[int, int], choices: int, rng: np.random.Generator) -> list[Integers]:
    """Return ``choices`` sets of as many other patches as ``patches`` of a grid (rows, columns), none of which is among them.

    Each is the same form rolled to a place with the least overlap, of equal ones drawn by ``rng``; random patches take the place of those
    that overlap.
    """
    place = np.zeros(grid, bool)
    place.reshape(-1)[patches] = True
    rolled = [np.roll(place, (down, right), (0, 1)) for down in range(grid[0]) for right in range(grid[1])]
    overlaps = np.array([(each & place).sum() for each in rolled])
    least = np.flatnonzero(overlaps == overlaps.min())
    sets: list[Integers] = []
    for chosen in rng.choice(least, choices):
        apart = rolled[chosen] & ~place
        free = np.flatnonzero(~(rolled[chosen] | place))
        sets.append(np.concatenate([np.flatnonzero(apart), rng.permutation(free)[: len(patches) - int(apart.sum())]]).astype(np.int64))
    return sets


def hide_word(setup: CollectionSetup, rows: Sequence[CollectedRow], word: str, done: Callable[[int], None] | None = None) -> HidingTest:
    """Hide ``word``, in small letters, wherever the texts of ``rows`` have it, and as many other words; return what the model answers.

    Texts that do not have as many other words, or of which the model needs what would be hidden, are left out. ``done`` is called with the
    number of rows that are done. Raises Cancelled if the setup says so.
    """
    replies: list[_Asked] = []
    for number, row in enumerate(rows):
        check_cancelled(setup)
        named = [i for i, each in enumerate(row.words) if each.text.casefold() == word]
        others = [i for i, each in enumerate(row.words) if each.text.casefold() != word]
        if len(others) >= len(named):
            rng = np.random.default_rng([setup.seed, row.index])
            hidden = [named, *(rng.permutation(others)[: len(named)].tolist() for _ in range(CHOICES))]
            if (logits := _without_words(setup, row, hidden)) is not None:
                replies.append((row, logits))
        if done is not None:
            done(number + 1)
    return _tested(setup, replies)


def _without_words(setup: CollectionSetup, row: CollectedRow, hidden: Sequence[Sequence[int]]) -> Tensor | None:
    """Return the logits (K, C) of a text without each of the K sets of its words; None if too little is left of it for the model."""
    prepared = setup.model.prepare(setup.read(row.index).model_input)
    record = prepared.inputs[0]
    assert isinstance(record, TextInput)
    content = [token for token in record.tokens if not token.special]
    keep = torch.ones(len(hidden), len(content), dtype=torch.bool)
    for stays, words in zip(keep, hidden, strict=True):
        spans = [(row.words[i].part, row.words[i].start, row.words[i].end) for i in words]
        for place, token in enumerate(content):
            if any(token.part == part and token.start < end and start < token.end for part, start, end in spans):
                stays[place] = False
    removal = input_removal(setup.model, prepared.tensors, special=[token.special for token in record.tokens], how=setup.how)
    return None if int(keep.sum(1).min()) < removal.least else removal.logits(keep)


def _tested(setup: CollectionSetup, replies: Sequence[_Asked]) -> HidingTest:
    fall, away, difference = Sums(), Sums(), Sums()
    changed = changed_elsewhere = 0
    for row, logits in replies:
        assert row.probability is not None
        left = setup.model.calibration.probabilities(logits, setup.model.output)[:, row.answer_index]
        falls = [row.probability - float(value) for value in left]
        mean = sum(falls[1:]) / CHOICES
        fall.add(falls[0])
        away.add(mean)
        difference.add(falls[0] - mean)
        answers = logits.argmax(1)
        changed += int(answers[0]) != row.answer_index
        changed_elsewhere += int(answers[1]) != row.answer_index
    return HidingTest(
        rows=len(replies),
        fall=fall.mean(),
        elsewhere=away.mean(),
        difference=difference.mean(),
        changed=share(changed, len(replies)),
        changed_elsewhere=share(changed_elsewhere, len(replies)),
    )


def check_cancelled(setup: CollectionSetup) -> None:
    """Raise Cancelled if the setup says so."""
    if setup.cancelled is not None and setup.cancelled():
        raise Cancelled
