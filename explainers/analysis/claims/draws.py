"""Falls of an answer when parts of its input are replaced: of a set that a map names, and of sets drawn at random, draw by draw."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from explainers.analysis.claims.rivals import Rival
from explainers.models.removal.fillings import Filling, InputFillings, generator_of
from explainers.models.removal.token_removal import BeforePass

Falls = NDArray[np.float64]
#: Separates the numbers of the draws of two seeds.
_DRAWS_OF_A_SEED = 1_000_003


@dataclass
class Draws:
    """One input whose parts are replaced, with the answers that were given so far: all maps of it are compared with the same random sets.

    Draw number i is a random order of the parts, whose first k are the random set of k parts, and the random numbers of each filling, which
    stand in the place of the named and of the random set alike.

    inputs    the fillings of its tokens
    parts     the tokens of each of P parts, by their places among the N tokens that can be replaced
    answer    function from logits (K, C) to the explained answer (K,), from 0 to 1
    seed      of all random numbers
    rival     an order that knows nothing of the model; None for an input without one
    answers   number of answers so far
    """

    inputs: InputFillings
    parts: Sequence[tuple[int, ...]]
    answer: Callable[[Tensor], Tensor]
    seed: int = 0
    rival: Rival | None = None
    before_pass: BeforePass | None = None
    answers: int = 0
    _random: dict[int, Falls] = field(default_factory=dict, repr=False)
    _fixed: dict[tuple[frozenset[int], int], float] = field(default_factory=dict, repr=False)
    _chosen: dict[frozenset[int], Falls] = field(default_factory=dict, repr=False)
    _whole: float | None = field(default=None, repr=False)

    @property
    def fillings(self) -> tuple[Filling, ...]:
        """The fillings, in the order of the columns of falls."""
        return self.inputs.fillings

    @property
    def whole(self) -> float:
        """The answer to the input as it is."""
        if self._whole is None:
            nothing = torch.zeros(1, len(self.parts), dtype=torch.bool)
            self._whole = float(self._answers(self.fillings[0], nothing, [self._number(0)])[0])
        return self._whole

    def random_falls(self, size: int, draws: int) -> Falls:
        """Return the falls of the answer (draws, fillings) without the random sets of ``size`` parts of the first ``draws`` draws."""
        known = self._random.get(size, np.empty((0, len(self.fillings))))
        if len(known) < draws:
            numbers = [self._number(i) for i in range(len(known), draws)]
            sets = torch.zeros(len(numbers), len(self.parts), dtype=torch.bool)
            for row, number in zip(sets, numbers, strict=True):
                row[torch.randperm(len(self.parts), generator=generator_of(number))[:size]] = True
            new = np.stack([self._falls(filling, sets, numbers) for filling in self.fillings], 1)
            self._random[size] = known = np.concatenate([known, new])
        return known[:draws]

    def fixed_fall(self, chosen: Sequence[int], filling: int) -> float:
        """Return the fall of the answer without the ``chosen`` parts under the fixed filling of that number, the same in every draw."""
        key = frozenset(chosen), filling
        if key not in self._fixed:
            replaced = torch.zeros(1, len(self.parts), dtype=torch.bool)
            replaced[0, list(chosen)] = True
            self._fixed[key] = float(self._falls(self.fillings[filling], replaced, [self._number(0)])[0])
        return self._fixed[key]

    def set_falls(self, chosen: Sequence[int], draws: int) -> Falls:
        """Return the falls of the answer (draws, fillings) without the ``chosen`` parts, of the first ``draws`` draws; a fixed
        filling is asked once.
        """
        key = frozenset(chosen)
        known = self._chosen.get(key, np.empty((0, len(self.fillings))))
        if len(known) < draws:
            numbers = [self._number(i) for i in range(len(known), draws)]
            replaced = torch.zeros(len(numbers), len(self.parts), dtype=torch.bool)
            replaced[:, list(chosen)] = True
            columns = [
                self._falls(filling, replaced, numbers) if filling.is_drawn else np.full(len(numbers), self.fixed_fall(chosen, i))
                for i, filling in enumerate(self.fillings)
            ]
            self._chosen[key] = known = np.concatenate([known, np.stack(columns, 1)])
        return known[:draws]

    def _falls(self, filling: Filling, replaced: Tensor, numbers: Sequence[int]) -> Falls:
        return self.whole - self._answers(filling, replaced, numbers)

    def _answers(self, filling: Filling, replaced: Tensor, numbers: Sequence[int]) -> Falls:
        if self.before_pass is not None:
            self.before_pass(self.answers, self.answers + len(replaced))
        tokens = torch.zeros(len(replaced), self.inputs.tokens, dtype=torch.bool)
        for part, places in enumerate(self.parts):
            tokens[:, list(places)] = replaced[:, part : part + 1]
        self.answers += len(replaced)
        return np.asarray(self.answer(filling.logits(tokens, numbers)).double().numpy())

    def _number(self, draw: int) -> int:
        return self.seed * _DRAWS_OF_A_SEED + draw
