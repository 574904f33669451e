"""Removal curves: the answer of the model while tokens are removed in the order of their scores.

Most important first (MIF): the sooner the answer falls, the better. Least important first (LIF): the longer it stays, the better.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from explainers.errors import ExplainerError
from explainers.models.removal.token_removal import BeforePass, TokenRemoval

Order = Literal["most", "least"]


def removal_order(scores: Tensor, order: Order) -> Tensor:
    """Return the order in which tokens are removed, indices (..., N), from scores (..., N), signed ones as they are; of equal ones the
    earlier goes first.
    """
    return scores.argsort(dim=-1, descending=order == "most", stable=True)


def random_orders(tokens: int, seeds: Sequence[int]) -> Tensor:
    """Draw a random order of ``tokens`` N tokens for each of ``seeds``; return (seeds, N), the same on every machine."""
    return torch.stack([torch.randperm(tokens, generator=torch.Generator().manual_seed(seed)) for seed in seeds])


def removal_counts(fractions: Sequence[float], tokens: int, least: int = 0) -> list[int]:
    """Return how many of the ``tokens`` are removed at each fraction: rounded, a half up, and so that at least ``least`` stay.

    Raises ExplainerError for a fraction outside 0 to 1.
    """
    if not all(0 <= fraction <= 1 for fraction in fractions):
        raise ExplainerError("a fraction of the tokens lies between 0 and 1")
    return [min(math.floor(fraction * tokens + 0.5), tokens - least) for fraction in fractions]


def keep_masks(orders: Tensor, counts: Sequence[int]) -> Tensor:
    """Return which tokens are left, bool (M, steps, N), when the first ``counts`` of each order (M, N) are removed."""
    ranks = torch.empty_like(orders).scatter_(1, orders, torch.arange(orders.shape[1]).expand_as(orders))
    return ranks[:, None] >= torch.tensor(counts)[None, :, None]


def curves(removal: TokenRemoval, orders: Tensor, counts: Sequence[int], before_pass: BeforePass | None = None) -> Tensor:
    """Return the logits (M, steps, C) along each of ``orders`` (M, N) when the first ``counts`` (steps,) of its tokens are removed by
    ``removal``. Steps of equal count share their forward passes.
    """
    keep, observers = keep_masks(orders, counts), () if before_pass is None else (before_pass,)
    logits: Tensor = removal.logits(keep.flatten(0, 1), *observers).unflatten(0, keep.shape[:2])
    return logits


def area(removed_shares: Sequence[float], values: Tensor) -> float:
    """Return the mean height of a curve, ``values`` (steps,), over ``removed_shares`` (steps,) of the tokens: its area by trapezoids, over
    the width of that range.

    Chefer et al., CVPR 2021, sum the trapezoids of a perturbation curve alike (over 0 to 0.9, times 100). The difference of the areas of
    LIF and MIF is the symmetric relevance gain of Blücher et al., TMLR 2024. Raises ExplainerError for a range of no width.
    """
    x = torch.tensor(removed_shares, dtype=torch.float64)
    if len(x) < 2 or x[-1] <= x[0]:
        raise ExplainerError("a curve needs two different numbers of tokens, the smaller one first")
    return float(torch.trapezoid(values.double(), x) / (x[-1] - x[0]))
