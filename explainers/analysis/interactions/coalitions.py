"""Interactions of two players by regression over coalitions: which coalitions are asked, with what weight, and the fit.

Baniecki, Muschalik, Fumagalli, Hammer, Hüllermeier and Biecek, Explaining Similarity in Vision-Language Encoders with Weighted Banzhaf
Interactions (FIxLIP, NeurIPS 2025, arXiv 2508.05430). With v(S) the value when the players of S are shown,

    min over e of  sum_S w(S) ( v(S) - e_0 - sum_i e_i - sum_(i<j) e_ij )^2,      sums over members of S.

Weighted Banzhaf has w(S) = p^|S| (1 - p)^(n - |S|); the Shapley variant 1 / binom(n - 2, |S| - 1), and 10^7 for the empty and the full set.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Variant = Literal["banzhaf", "shapley"]
HELD = 1e7  # weight of the empty and the full set in the Shapley variant, which are to be met
_MOST_DRAWS = 50  # times what is wanted, before a draw of distinct coalitions ends with fewer


@dataclass(frozen=True)
class Fit:
    """The terms of a regression: ``constant`` e_0, ``first`` e_i (n,), ``second`` e_ij (n, n), symmetric with a diagonal of 0."""

    constant: float
    first: Tensor
    second: Tensor

    def values(self, coalitions: Tensor) -> Tensor:
        """Return the value (K,) that the terms predict for each coalition, bool (K, n): e_0 + sum_i e_i + sum_(i<j) e_ij over its
        members.
        """
        z = coalitions.to(self.first)
        return self.constant + z @ self.first + ((z @ self.second) * z).sum(1) / 2

    def totals(self, p: float) -> Tensor:
        """Return the total effect of each player, (n,): e_i + ``p`` sum_j e_ij, with p the probability that a player is in."""
        return self.first + p * self.second.sum(1)


def size_masses(players: int, variant: Variant, p: float) -> Tensor:
    """Return the total weight (n + 1,) of all coalitions of each size 0 to n, for n ``players``; the weights sum to 1. The ``variant``
    banzhaf takes each player in with probability ``p``; in the Shapley variant sizes 0 and n have weight 0.
    """
    sizes = range(players + 1)
    if variant == "banzhaf":
        masses = [math.comb(players, k) * p**k * (1 - p) ** (players - k) for k in sizes]
    else:
        masses = [0.0 if k in (0, players) else math.comb(players, k) / math.comb(players - 2, k - 1) for k in sizes]
    shares = torch.tensor(masses, dtype=torch.float64)
    return shares / shares.sum()


def all_coalitions(players: int) -> Tensor:
    """Return every coalition of n players, bool (2^n, n): row numbers written in binary, player 0 the highest digit."""
    numbers = torch.arange(2**players)[:, None]
    return (numbers >> torch.arange(players - 1, -1, -1)) % 2 == 1


def exact_weights(coalitions: Tensor, variant: Variant, p: float) -> Tensor:
    """Return the weight w(S) (K,) of each coalition, bool (K, n), in the fit of this ``variant`` with probability ``p``. In the Shapley
    variant the empty and the full coalition have the large weight ``HELD``.
    """
    players, sizes = coalitions.shape[1], coalitions.sum(1)
    counts = torch.tensor([math.comb(players, k) for k in range(players + 1)], dtype=torch.float64)
    weights = (size_masses(players, variant, p) / counts)[sizes]
    return weights if variant == "banzhaf" else torch.where((sizes == 0) | (sizes == players), HELD, weights)


def draw_coalitions(players: int, count: int, variant: Variant, p: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw at most ``count`` distinct coalitions of n ``players`` by ``generator`` and return them, bool (K, n), with their weights (K,).
    ``variant`` and ``p`` say how coalitions weigh by size, see :func:`size_masses`.

    A size is drawn by its weight, then a coalition of that size uniformly. If the draw would on average give all coalitions of a size,
    these are listed instead of drawn. The drawn coalitions share the weight of the other sizes by how often each was drawn. If no size is
    listed, that is the share of the draws, as in the published code, which uses that share even when some sizes are listed.
    """
    if 2**players <= count:
        whole = all_coalitions(players)
        return whole, exact_weights(whole, variant, p)
    masses = size_masses(players, variant, p)
    ends = [0, players] if variant == "shapley" else []
    left, is_open = count - len(ends), torch.ones(players + 1, dtype=torch.bool)
    is_open[ends] = False
    for k in sorted(range(players + 1), key=lambda size: math.comb(players, size)):
        expected = left * float(masses[k] / masses[is_open].sum()) if bool(is_open[k]) else 0.0
        if expected >= math.comb(players, k):
            is_open[k] = False
            left -= math.comb(players, k)
    closed = [k for k in range(players + 1) if not is_open[k]]
    rows = [sum(1 << i for i in chosen) for k in closed for chosen in combinations(range(players), k)]
    enumerated = torch.tensor([[(row >> i) % 2 == 1 for i in range(players)] for row in rows], dtype=torch.bool).view(-1, players)
    drawn, times = _draw_distinct(masses * is_open, left, generator)
    shares = times / times.sum() * masses[is_open].sum()
    return torch.cat([enumerated, drawn]), torch.cat([exact_weights(enumerated, variant, p), shares])


def _draw_distinct(masses: Tensor, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw ``count`` distinct coalitions of n players by ``generator``. Return them, bool (K, n), and how often each was drawn (K,). Their
    sizes are distributed by ``masses`` (n + 1,).
    """
    players = len(masses) - 1
    times: dict[bytes, int] = {}
    for _ in range(_MOST_DRAWS):
        if len(times) >= count:
            break
        sizes = torch.multinomial(masses, count, replacement=True, generator=generator)
        ranks = torch.rand(count, players, generator=generator).argsort(1).argsort(1)
        for row in (ranks < sizes[:, None]).numpy():
            key = row.tobytes()
            if key not in times and len(times) >= count:
                break
            times[key] = times.get(key, 0) + 1
    rows = np.frombuffer(b"".join(times), dtype=bool).reshape(-1, players).copy()
    return torch.from_numpy(rows), torch.tensor(list(times.values()), dtype=torch.float64)


def split_budget(first: int, second: int, budget: int) -> tuple[int, int]:
    """Return how many coalitions of the players of either side are asked, whose product is at most ``budget``; ``first`` and ``second`` are
    the numbers of players of the sides.

    The side with fewer players gets max(4, sqrt(budget) times the ratio of their numbers), never more than there are.
    """
    if first < second:
        return split_budget(second, first, budget)[::-1]
    few = min(2**second, math.ceil(max(4.0, math.sqrt(budget) * second / first)))
    return min(2**first, budget // few), few


def products(first: Tensor, second: Tensor) -> Tensor:
    """Join every coalition of the ``first`` side (K, n) with every one of the ``second`` side (L, m); return all pairs as coalitions of
    both, (K L, n + m).
    """
    return torch.cat([first.repeat_interleave(len(second), 0), second.repeat(len(first), 1)], 1)


def fit_interactions(coalitions: Tensor, weights: Tensor, values: Tensor, pairs: Sequence[tuple[int, int]]) -> Fit:
    """Fit main terms, and an interaction for each of ``pairs``, to the ``values`` (K,) of ``coalitions`` bool (K, n) by least squares with
    ``weights`` (K,). If the coalitions do not determine the fit, return the one of smallest norm.
    """
    from scipy.linalg import lstsq

    z: NDArray[np.float64] = coalitions.double().numpy()
    left, right = (np.array([pair[side] for pair in pairs], dtype=int) for side in (0, 1))
    roots = weights.double().sqrt().numpy()
    design = np.concatenate([np.ones((len(z), 1)), z, z[:, left] * z[:, right]], 1) * roots[:, None]
    terms = torch.from_numpy(lstsq(design, values.double().numpy() * roots, lapack_driver="gelsy", check_finite=False)[0])
    players = z.shape[1]
    second = torch.zeros(players, players, dtype=torch.float64)
    second[left, right] = terms[1 + players :]
    return Fit(float(terms[0]), terms[1 : 1 + players], second + second.T)
