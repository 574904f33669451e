"""The test of a place or a word: what other rows are answered when it is copied into them from rows of a slice."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from explainers.collection.intervals import Sums, share
from explainers.collection.records import CollectedRow
from explainers.collection.rows import CollectionSetup
from explainers.collection.slices.clusters import Integers
from explainers.collection.slices.hiding import check_cancelled, elsewhere
from explainers.collection.slices.records import CopyTest
from explainers.datasets import Sample
from explainers.models.inputs.types import TextPair
from explainers.models.removal.token_removal import answer

TAKERS = 4  # rows that each row of the slice is copied into
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
    copies = _Copies()
    for number, donor in enumerate(donors):
        check_cancelled(setup)
        if done is not None:
            done(number)
        rng = np.random.default_rng([setup.seed, donor.index, 1])
        others = [index for index, its_answer in takers if its_answer != donor.answer]
        if not others:
            continue
        drawn = rng.permutation(others)[:TAKERS].tolist()
        grid = (donor.grid[0], donor.grid[1])
        places = [np.broadcast_to(patches, (len(drawn), len(patches))), np.stack(elsewhere(patches, grid, len(drawn), rng))]
        logits = _copied(setup, donor, drawn, places, grid)
        if logits is None:
            return None
        copies.add(setup, donor, logits)
    if done is not None:
        done(len(donors))
    return copies.test()


def copy_word(
    setup: CollectionSetup,
    donors: Sequence[CollectedRow],
    word: str,
    takers: Sequence[tuple[int, str]],
    done: Callable[[int], None] | None = None,
) -> CopyTest | None:
    """Put ``word``, in small letters, as the texts of ``donors`` write it, into texts with other answers, and in its place another word of
    the same donor; return how probable the donors' answers are then. None without a text of another answer.

    takers  index and answer of the rows to copy into: up to four with another answer for each donor, each of them once as long as there are
            enough, since all donors give the same word

    The word is put before a word of the taker that is drawn, in the same of two texts. The mean over its texts is the value of a donor.
    ``done`` is called with the number of donors that are done. Raises Cancelled if the setup says so.
    """
    copies = _Copies()
    rng = np.random.default_rng([setup.seed, 1])
    order = [takers[i] for i in rng.permutation(len(takers))]
    each = max(1, min(TAKERS, len(takers) // max(1, len(donors))))
    waiting = list(order)
    for number, donor in enumerate(donors):
        check_cancelled(setup)
        drawn = [index for index, its_answer in waiting if its_answer != donor.answer][:each]
        named = [given for given in donor.words if given.text.casefold() == word]
        others = [given for given in donor.words if given.text.casefold() != word and given.part == named[0].part] if named else []
        if drawn and others:
            waiting = [taker for taker in waiting if taker[0] not in drawn]
            places = rng.random(len(drawn)).tolist()
            given = [named[0].text, others[int(rng.integers(len(others)))].text]
            samples = [setup.read(index) for index in drawn]
            logits = [
                _answers(setup, [_with_word(sample, text, named[0].part, at) for sample, at in zip(samples, places, strict=True)])
                for text in given
            ]
            copies.add(setup, donor, logits)
        if done is not None:
            done(number + 1)
    return copies.test()


class _Copies:
    """What became of the answers of donors in the rows that they were copied into."""

    def __init__(self) -> None:
        self._there, self._away, self._difference = Sums(), Sums(), Sums()
        self._changed = [0, 0]

    def add(self, setup: CollectionSetup, donor: CollectedRow, logits: Sequence[Tensor]) -> None:
        """Count a donor, by the ``logits`` (T, C) of its T takers with what is copied, and with what is copied from elsewhere."""
        left = [setup.model.calibration.probabilities(each, setup.model.output)[:, donor.answer_index] for each in logits]
        there, away = (float(each.mean()) for each in left)
        self._there.add(there)
        self._away.add(away)
        self._difference.add(there - away)
        for kind, each in enumerate(logits):
            self._changed[kind] += int(each[0].argmax()) == donor.answer_index

    def test(self) -> CopyTest | None:
        """Return the test; None of no donor."""
        donors = self._difference.inputs
        if not donors:
            return None
        changed, changed_elsewhere = (share(count, donors) for count in self._changed)
        return CopyTest(
            donors=donors,
            copied=self._there.mean(),
            elsewhere=self._away.mean(),
            difference=self._difference.mean(),
            changed=changed,
            changed_elsewhere=changed_elsewhere,
            p=self._difference.p(),
        )


def _with_word(sample: Sample, word: str, part: int, at: float) -> str | TextPair:
    """Return the text of ``sample`` with a word more, before the word at the share ``at`` of its words (0 to 1); of two texts in the text
    ``part``.
    """
    texts = [sample.text or "", *([] if sample.text_pair is None else [sample.text_pair])]
    words = texts[part].split(" ")
    place = int(at * len(words))
    texts[part] = " ".join([*words[:place], word, *words[place:]])
    return TextPair(texts[0], texts[1]) if len(texts) == 2 else texts[0]


def _answers(setup: CollectionSetup, inputs: Sequence[str | TextPair]) -> Tensor:
    """Return the logits (T, C) of texts."""
    return answer(setup.model, setup.with_prompts(setup.model.prepare(list(inputs)).tensors)).float().cpu()


def _copied(
    setup: CollectionSetup, donor: CollectedRow, takers: Sequence[int], places: Sequence[Integers], grid: tuple[int, int]
) -> list[Tensor] | None:
    """Return for each of the ``places``, patches (T, K) of each taker, the logits (T, C) of the T takers' pictures with what the donor
    shows there; None if their pixels cannot be exchanged.
    """
    prepared = setup.model.prepare([setup.read(index).model_input for index in (donor.index, *takers)]).tensors
    pixels = prepared.get(_PIXELS)
    if pixels is None or pixels.ndim != 4 or len(pixels) != 1 + len(takers):
        return None
    rest = {name: value[1:] if setup.model.is_sample(name) else value for name, value in setup.with_prompts(prepared).items()}
    logits = []
    for patches in places:
        taken = torch.zeros(len(takers), grid[0] * grid[1]).scatter_(1, torch.from_numpy(np.ascontiguousarray(patches)), 1.0)
        mask = F.interpolate(taken.to(pixels).unflatten(1, grid)[:, None], size=pixels.shape[-2:], mode="nearest")
        mixed = torch.where(mask > 0, pixels[:1], pixels[1:])
        logits.append(answer(setup.model, {**rest, _PIXELS: mixed}).float().cpu())
    return logits
