"""Faithfulness of interactions: insertion and deletion of the sets that they rank, and how well they predict other coalitions.

Both are from Baniecki et al. (FIxLIP, NeurIPS 2025, arXiv 2508.05430). ``g(S)`` is the sum of the terms of the members and pairs of S.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from explainers.analysis.interactions.coalitions import Fit
from explainers.metrics.rank_correlation import rank_correlations

#: The value (K,) of coalitions bool (K, n).
Value = Callable[[Tensor], Tensor]


def extreme_sets(fit: Fit) -> tuple[Tensor, Tensor]:
    """Find greedily, for each size n to 0, the sets of players for which ``fit`` predicts the smallest and the largest value; return both,
    each bool (n + 1, n).
    """
    players = len(fit.first)
    sets = torch.cat([_grow(fit, largest=True), _grow(fit, largest=False)])  # (2 n, n, n): start, size less 1, member
    values = torch.stack([fit.values(grown) for grown in sets])
    extremes = []
    for best in (values.argmin(0), values.argmax(0)):
        chosen = sets[best, torch.arange(players)]
        extremes.append(torch.cat([chosen.flip(0), torch.zeros(1, players, dtype=torch.bool)]))
    return extremes[0], extremes[1]


def _grow(fit: Fit, *, largest: bool) -> Tensor:
    """Grow a set of players greedily from each player, by the value that ``fit`` predicts, the ``largest`` or the smallest; return bool (n,
    n, n): for each first player the sets of 1 to n members.
    """
    players = len(fit.first)
    members = torch.eye(players, dtype=torch.bool)
    gains = fit.first + fit.second  # of each player together with the first one
    steps = [members]
    worst = -torch.inf if largest else torch.inf
    for _ in range(players - 1):
        open_gains = gains.masked_fill(members, worst)
        added = open_gains.argmax(1) if largest else open_gains.argmin(1)
        members = members.scatter(1, added[:, None], True)
        gains = gains + fit.second[added]
        steps.append(members)
    return torch.stack(steps, 1)


def insertion_and_deletion(fit: Fit, value: Value) -> tuple[float, Tensor, Tensor]:
    """Remove players in the order of a fit; return the fit's score and two curves (n + 1,) of values, from all players to none: with the
    most important removed first, and with the least important removed first.

    The score is the mean over the steps of (value with the least important set removed - value with the most important set removed),
    divided by v(all) - v(none). It is NaN if v(all) equals v(none).
    """
    most, least = (value(sets).double() for sets in extreme_sets(fit))
    span = most[0] - most[-1]
    return float(((least - most) / span).mean()) if float(span) else float("nan"), most, least


def r_squared(values: Tensor, predicted: Tensor) -> float:
    """Return R squared of predictions g (K,), ``predicted``, for ``values`` v (K,): 1 - sum (v - g)^2 / sum (v - mean v)^2. It is below 0
    if the mean of the values predicts better.
    """
    values, predicted = values.double(), predicted.double()
    return float(1 - (values - predicted).square().sum() / (values - values.mean()).square().sum())


def rank_agreement(values: Tensor, predicted: Tensor) -> float:
    """Return Spearman's rank correlation of ``values`` (K,) with their predictions (K,), ``predicted``."""
    return float(rank_correlations(torch.stack([values, predicted]).double().numpy())[0, 1])
