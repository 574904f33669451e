"""Falls of an answer when parts of its input are replaced: of a set that a map names, and of sets drawn at random, draw by draw."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from explainers.analysis.claims.rivals import Rival
from explainers.models.removal.fillings import Filling, FillingRequest, InputFillings, generator_of
from explainers.models.removal.token_removal import BeforePass

Falls = NDArray[np.float64]
_Question = tuple[int, Tensor, Sequence[int]]
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
    _random: dict[tuple[int, int], Falls] = field(default_factory=dict, repr=False)  # by size and filling
    _fixed: dict[tuple[frozenset[int], int], float] = field(default_factory=dict, repr=False)
    _chosen: dict[tuple[frozenset[int], int], Falls] = field(default_factory=dict, repr=False)  # by set and filling, those drawn
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
            (answers,) = self._answers([(0, nothing, [self._number(0)])])
            self._whole = float(answers[0])
        return self._whole

    def fixed_falls(self, chosen: Sequence[int]) -> dict[int, float]:
        """Return the falls of the answer without the ``chosen`` parts under each filling that is not drawn, by its index; they are asked in
        one pass.
        """
        key = frozenset(chosen)
        fixed = [i for i, filling in enumerate(self.fillings) if not filling.is_drawn]
        if missing := [i for i in fixed if (key, i) not in self._fixed]:
            falls = self._falls([(i, self._copies(chosen, 1), [self._number(0)]) for i in missing])
            self._fixed.update({(key, i): float(fall[0]) for i, fall in zip(missing, falls, strict=True)})
        return {i: self._fixed[key, i] for i in fixed}

    def set_falls(self, chosen: Sequence[int], draws: int) -> Falls:
        """Return the falls of the answer (draws, fillings) without the ``chosen`` parts, of the first ``draws`` draws; a fixed filling is
        asked once.
        """
        self._draw(chosen, draws, range(len(self.fillings)), random_sets=False)
        return np.stack([self._named(chosen, draws, i) for i in range(len(self.fillings))], 1)

    def random_falls(self, size: int, draws: int) -> Falls:
        """Return the falls of the answer (draws, fillings) without the random sets of ``size`` parts, of the first ``draws`` draws."""
        self._draw(range(size), draws, range(len(self.fillings)), named_set=False)
        return np.stack([self._random[size, i][:draws] for i in range(len(self.fillings))], 1)

    def paired_falls(self, chosen: Sequence[int], draws: int, fillings: Sequence[int]) -> tuple[Falls, Falls]:
        """Return the falls of the answer (draws, fillings) without the ``chosen`` parts, and without the random sets of as many parts, in
        the first ``draws`` draws, under the ``fillings`` of these indices. Those not known yet go through the model together.
        """
        self._draw(chosen, draws, fillings)
        named = [self._named(chosen, draws, i) for i in fillings]
        return np.stack(named, 1), np.stack([self._random[len(chosen), i][:draws] for i in fillings], 1)

    def _named(self, chosen: Sequence[int], draws: int, filling: int) -> Falls:
        """Return the known falls (draws,) without the ``chosen`` parts under a filling."""
        if self.fillings[filling].is_drawn:
            return self._chosen[frozenset(chosen), filling][:draws]
        return np.full(draws, self.fixed_falls(chosen)[filling])

    def _draw(
        self, chosen: Sequence[int], draws: int, fillings: Sequence[int], *, named_set: bool = True, random_sets: bool = True
    ) -> None:
        """Ask for the falls of the first ``draws`` draws under ``fillings`` that are not known: without the ``chosen`` parts where a
        filling is drawn (``named_set``), and without as many random ones (``random_sets``).
        """
        key, size = frozenset(chosen), len(chosen)
        requests: list[_Question] = []
        places: list[tuple[dict[Any, Falls], Any]] = []
        for i in fillings:
            known, numbers = self._missing(self._chosen, (key, i), draws)
            if numbers and named_set and self.fillings[i].is_drawn:
                requests.append((i, self._copies(chosen, len(numbers)), numbers))
                places.append((known, (key, i)))
            known, numbers = self._missing(self._random, (size, i), draws)
            if numbers and random_sets:
                requests.append((i, self._random_sets(size, numbers), numbers))
                places.append((known, (size, i)))
        for (known, place), falls in zip(places, self._falls(requests) if requests else [], strict=True):
            known[place] = np.concatenate([known.get(place, np.empty(0)), falls])

    def _missing(self, known: dict[Any, Falls], place: Any, draws: int) -> tuple[dict[Any, Falls], list[int]]:
        """Return ``known``, falls by what was replaced, and the numbers of those of the first ``draws`` draws that are not in its
        ``place``.
        """
        return known, [self._number(draw) for draw in range(len(known.get(place, ())), draws)]

    def _copies(self, chosen: Sequence[int], times: int) -> Tensor:
        replaced = torch.zeros(times, len(self.parts), dtype=torch.bool)
        replaced[:, list(chosen)] = True
        return replaced

    def _random_sets(self, size: int, numbers: Sequence[int]) -> Tensor:
        sets = torch.zeros(len(numbers), len(self.parts), dtype=torch.bool)
        for row, number in zip(sets, numbers, strict=True):
            row[torch.randperm(len(self.parts), generator=generator_of(number))[:size]] = True
        return sets

    def _falls(self, requests: Sequence[_Question]) -> list[Falls]:
        whole = self.whole
        return [whole - answers for answers in self._answers(requests)]

    def _answers(self, requests: Sequence[_Question]) -> list[Falls]:
        """Return the answers to questions of (filling, replaced parts (K, P), numbers of the draws (K,)), each (K,)."""
        total = self.answers + sum(len(numbers) for _, _, numbers in requests)

        def before_pass(rows: int) -> None:
            if self.before_pass is not None:
                self.before_pass(self.answers, total)
            self.answers += rows

        questions = [FillingRequest(filling, self._tokens(replaced), numbers) for filling, replaced, numbers in requests]
        return [np.asarray(self.answer(logits).double().numpy()) for logits in self.inputs.logits(questions, before_pass)]

    def _tokens(self, replaced: Tensor) -> Tensor:
        """Return the tokens (K, N) of replaced parts (K, P), both bool."""
        return replaced.float() @ self._members > 0

    @cached_property
    def _members(self) -> Tensor:
        """Which tokens each part holds, (P, N): 1 where it does."""
        members = torch.zeros(len(self.parts), self.inputs.tokens)
        for part, places in enumerate(self.parts):
            members[part, list(places)] = 1
        return members

    def _number(self, draw: int) -> int:
        return self.seed * _DRAWS_OF_A_SEED + draw
