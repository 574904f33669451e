"""What a model answers without sets of the tokens of one input: for metrics that compare the scores of a set with what its absence does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from explainers.evaluation.graded_answers import GradedAnswers

#: Needs of metrics for which the model is asked without sets of tokens.
ASKED_ABOUT_SETS = frozenset({"falls_of_random_sets", "falls_of_sized_sets", "falls_of_groups", "falls_one_by_one", "aopc_limits"})
RANDOM_SETS = 100  # sets of a fifth of the tokens: as many as Quantus draws
RANDOM_SET_SHARE = 0.2
SET_SIZES = 8  # sizes from one token to LARGEST_SET_SHARE of all, evenly spaced on a log scale
SETS_OF_EACH_SIZE = 25
LARGEST_SET_SHARE = 0.8
GROUPS = 10  # of tokens, by falling score: the paper's number for SaCo
BEAM_WIDTH = 5  # sets of tokens that the search for the limits of AOPC goes on with
MAX_TOKENS_FOR_EXACT_LIMITS = 8  # a beam of all sets of one size, 70 at most, finds the exact limits
MAX_TOKENS_FOR_LIMITS = 64  # the search asks the model about BEAM_WIDTH times the square of the number of tokens


def draw_sets(tokens: int, sizes: list[int], seed: int) -> Tensor:
    """Draw a random set of each of these ``sizes`` out of N = ``tokens`` tokens, by ``seed``: bool (sizes, N)."""
    draws = torch.rand(len(sizes), tokens, generator=torch.Generator().manual_seed(seed))
    return draws.argsort(1).argsort(1) < torch.tensor(sizes)[:, None]


def set_sizes(tokens: int) -> list[int]:
    """Return the sizes of the sets by which sensitivity-n is measured for an input of this many ``tokens``, each once."""
    largest = max(1, int(LARGEST_SET_SHARE * tokens))
    return sorted({round(largest ** (step / (SET_SIZES - 1))) for step in range(SET_SIZES)})


def rank_groups(scores: Tensor) -> Tensor:
    """Cut the N tokens of each map of ``scores`` (M, N) into groups by falling score, 10 or as many as there are tokens; return which
    tokens each group holds, bool (M, groups, N). Of equal scores the earlier token comes first.

    Group k holds the ranks from floor(N k / groups) up to floor(N (k + 1) / groups).
    """
    tokens = scores.shape[1]
    groups = min(GROUPS, tokens)
    ranks = scores.argsort(dim=1, descending=True, stable=True).argsort(1)
    ends = torch.tensor([tokens * k // groups for k in range(groups + 1)])
    return (ranks[:, None] >= ends[:-1, None]) & (ranks[:, None] < ends[1:, None])


def aopc_limits(falls: Callable[[Tensor], Tensor], tokens: int, width: int | None = None) -> tuple[float, float]:
    """Return the smallest and the largest mean fall of an answer, over orders in which N = ``tokens`` tokens are removed one by one.

    falls  function from sets of removed tokens, bool (K, N), to the fall of the answer without each, (K,)
    width  how many sets the search goes on with after each step, those with the best sums so far; None: 5, or for at most 8 tokens all

    Of several orders of the same tokens only the best one goes on, which costs nothing: what follows depends on the set alone.
    """
    if width is None:
        width = BEAM_WIDTH if tokens > MAX_TOKENS_FOR_EXACT_LIMITS else 2**tokens
    ends = []
    for sign in (-1.0, 1.0):
        beam, sums = torch.zeros(1, tokens, dtype=torch.bool), torch.zeros(1, dtype=torch.float64)
        for _ in range(tokens):
            parents, added = torch.nonzero(~beam, as_tuple=True)
            longer = beam[parents]
            longer[torch.arange(len(added)), added] = True
            beam, number = longer.unique(dim=0, return_inverse=True)
            best = torch.full((len(beam),), -torch.inf, dtype=torch.float64).scatter_reduce_(0, number, sums[parents], "amax")
            sums = best + sign * falls(beam).double()
            chosen = sums.argsort(descending=True, stable=True)[:width]
            beam, sums = beam[chosen], sums[chosen]
        ends.append(sign * float(sums[0]) / tokens)
    return ends[0], ends[1]


@dataclass(frozen=True)
class TokenSetAnswers:
    """The model's answers about one input without sets of its N tokens, and which sets these are.

    ``graded`` knows the model, the input, the scores (M, N) of M methods, the explained number and the seed of random draws.
    """

    graded: GradedAnswers

    @property
    def scores(self) -> Tensor:
        """The scores (M, N) of the methods."""
        return self.graded.scores

    @cached_property
    def random_sets(self) -> Tensor:
        """The sets of a fifth of the tokens, bool (K, N), the same for all methods."""
        tokens = self.scores.shape[1]
        return draw_sets(tokens, RANDOM_SETS * [max(1, round(RANDOM_SET_SHARE * tokens))], self.graded.seed)

    @cached_property
    def sized_sets(self) -> Tensor:
        """The sets of several sizes, bool (K, N), the same for all methods."""
        tokens = self.scores.shape[1]
        return draw_sets(tokens, [size for size in set_sizes(tokens) for _ in range(SETS_OF_EACH_SIZE)], self.graded.seed)

    @cached_property
    def groups(self) -> Tensor:
        """The groups of tokens by falling score, bool (M, G, N)."""
        return rank_groups(self.scores)

    def of(self, need: str) -> Tensor | None:
        """Compute the value of ``need``, one of :data:`ASKED_ABOUT_SETS`: falls of the explained number without the random sets, (M, K);
        falls of the class's probability without each group, (M, G), or without the first tokens of each order, (M, N); or the limits of
        AOPC, (M, 2). None if the input has a single token, or too many tokens for the limits.
        """
        methods, tokens = self.scores.shape
        if tokens < 2 or (need == "aopc_limits" and tokens > MAX_TOKENS_FOR_LIMITS):
            return None
        if need == "falls_of_random_sets":
            return self._falls_of_number(self.random_sets).expand(methods, -1)
        if need == "falls_of_sized_sets":
            return self._falls_of_number(self.sized_sets).expand(methods, -1)
        if need == "falls_of_groups":
            return self._falls_of_probability(self.groups.flatten(0, 1)).view(methods, -1)
        if need == "falls_one_by_one":
            ranks = self.scores.argsort(dim=1, descending=True, stable=True).argsort(1)
            first = ranks[:, None] < torch.arange(1, tokens + 1)[:, None]
            return self._falls_of_probability(first.flatten(0, 1)).view(methods, -1)
        return torch.tensor(aopc_limits(self._falls_of_probability, tokens), dtype=torch.float64).expand(methods, -1)

    def _falls_of_number(self, sets: Tensor) -> Tensor:
        values = self.graded.explained_number(self.graded.curve_logits.without(sets))
        return values[0] - values[1:]

    def _falls_of_probability(self, sets: Tensor) -> Tensor:
        values = self.graded.class_probability(self.graded.curve_logits.without(sets))
        return values[0] - values[1:]
