"""Faithfulness read from sets of tokens: do the scores of a set add up to what its absence does?

Every function takes B maps at once. Sets are drawn at random, the same for all maps of an input, or are cut from the order of a map; which
tokens they hold, and what becomes of the answer without them, is decided by the run.
"""

from __future__ import annotations

import torch
from torch import Tensor

from explainers.metrics.graded import from_zero_to_one
from explainers.metrics.registry import metric
from explainers.papers import FAITHFULNESS_CORRELATION, INFIDELITY, NAOPC, SACO, SENSITIVITY_N

_ROUNDING = 1e-12  # a deviation below this share of the values is that of a constant


def _sums(scores: Tensor, sets: Tensor) -> Tensor:
    """Return the sum (B, K) of the ``scores`` (B, N) over each of K ``sets``, bool (B, K, N)."""
    return torch.where(sets, scores.double()[:, None], 0.0).sum(2)


def _pearson(first: Tensor, second: Tensor) -> Tensor:
    """Return Pearson's correlation (B,) of the rows of two tensors (B, K); NaN if a row is constant."""
    rows = []
    for values in (first.double(), second.double()):
        centred = values - values.mean(1, keepdim=True)
        norm = centred.norm(dim=1, keepdim=True)
        is_constant = norm <= _ROUNDING * values.norm(dim=1, keepdim=True)
        rows.append(torch.where(is_constant, torch.nan, centred / norm))
    return (rows[0] * rows[1]).sum(1).clamp(-1, 1)


@metric(
    "faithfulness_correlation",
    title="Faithfulness correlation",
    family="faithfulness",
    takes={"scores": "scores", "sets": "random_sets", "falls": "falls_of_random_sets"},
    direction="higher",
    source=FAITHFULNESS_CORRELATION,
    lowest=-1.0,
    unit="number",
)
def faithfulness_correlation(scores: Tensor, sets: Tensor, falls: Tensor) -> Tensor:
    """Pearson's correlation, over random sets of a fifth of the tokens, of the sum of a set's scores with the fall of the explained number
    without the set. Higher is better; the scale of a map does not count.

    ``scores`` (B, N); ``sets`` bool (B, K, N): K sets of equal size; ``falls`` (B, K). Returns (B,), from -1 to 1; NaN if all sums or all
    falls are equal.

    Bhatt, Weller and Moura, Definition 2: corr over S of (sum over i in S of a_i, f(x) - f(x without S)).
    """
    return _pearson(_sums(scores, sets), falls)


@metric(
    "sensitivity_n",
    title="Sensitivity-n",
    family="faithfulness",
    takes={"scores": "scores", "sets": "sized_sets", "falls": "falls_of_sized_sets"},
    direction="higher",
    source=SENSITIVITY_N,
    lowest=-1.0,
    unit="number",
)
def sensitivity_n(scores: Tensor, sets: Tensor, falls: Tensor) -> Tensor:
    """Pearson's correlation, over random sets of n tokens, of the sum of a set's scores with the fall of the explained number without the
    set; its mean over sizes n from one token to 80 % of all, evenly spaced on a log scale. Higher is better.

    ``scores`` (B, N); ``sets`` bool (B, K, N): sets of several sizes; ``falls`` (B, K). Returns (B,), from -1 to 1. Sizes at which all sums
    or all falls are equal are left out; NaN if none is left.

    Ancona et al., section 4 (Definition 2): the paper plots the correlation over n; the mean is ours. Quantus' metric of this name
    correlates over inputs in place of sets, and gives other numbers.
    """
    sums, sizes = _sums(scores, sets), sets.sum(2)
    values = []
    for row in range(len(scores)):
        of_sizes = [sizes[row] == size for size in sizes[row].unique()]
        correlations = [_pearson(sums[row, chosen][None], falls[row, chosen][None])[0] for chosen in of_sizes if int(chosen.sum()) > 1]
        values.append(torch.stack(correlations).nanmean() if correlations else torch.tensor(torch.nan, dtype=torch.float64))
    return torch.stack(values)


@metric(
    "infidelity",
    title="Infidelity",
    family="faithfulness",
    takes={"scores": "scores", "sets": "sized_sets", "falls": "falls_of_sized_sets"},
    direction="lower",
    source=INFIDELITY,
    highest=None,
    unit="number",
)
def infidelity(scores: Tensor, sets: Tensor, falls: Tensor) -> Tensor:
    """Mean square of what the sum of a random set's scores misses of the fall of the explained number without the set, over sets of one
    token to 80 % of all. Lower is better; 0 if every set's scores add up to what its absence does. The scale of a map counts, so that only
    methods whose scores are shares of the explained number compare.

    ``scores`` (B, N); ``sets`` bool (B, K, N); ``falls`` (B, K). Returns (B,), 0 or more, in the square of the explained number's unit.

    Yeh et al., Definition 2.1: the mean over perturbations I of (I . phi - (f(x) - f(x - I)))^2, as Captum has it. Here a perturbation
    removes tokens, and the score of a token takes the place of I . phi there. Quantus adds one perturbation to another instead.
    """
    return (_sums(scores, sets) - falls.double()).square().mean(1)


@metric(
    "infidelity_scaled",
    title="Infidelity, scaled",
    family="faithfulness",
    takes={"scores": "scores", "sets": "sized_sets", "falls": "falls_of_sized_sets"},
    direction="lower",
    source=INFIDELITY.with_note("each map is scaled as fits best, as Captum's normalize has it"),
    highest=None,
    unit="number",
)
def infidelity_scaled(scores: Tensor, sets: Tensor, falls: Tensor) -> Tensor:
    """Infidelity of the map times the number that makes it least, so that maps of any scale compare. Lower is better. The number may be
    negative: a map and its negative have the same value.

    ``scores`` (B, N); ``sets`` bool (B, K, N); ``falls`` (B, K). Returns (B,), 0 or more, in the square of the explained number's unit.

    Yeh et al., section 2, and Captum's ``normalize=True``: the mean of (b s - d)^2 over the sums s and the falls d of the sets, with
    b = mean(s d) / mean(s^2).
    """
    sums, wanted = _sums(scores, sets), falls.double()
    size = sums.square().mean(1, keepdim=True)
    scale = torch.where(size > 0, (sums * wanted).mean(1, keepdim=True) / size, 0.0)
    return (scale * sums - wanted).square().mean(1)


@metric(
    "saco",
    title="SaCo",
    family="faithfulness",
    takes={"scores": "scores", "groups": "groups", "falls": "falls_of_groups"},
    direction="higher",
    source=SACO.with_note("groups of tokens in place of pixels"),
    lowest=-1.0,
    unit="number",
)
def saco(scores: Tensor, groups: Tensor, falls: Tensor) -> Tensor:
    """Salience-guided faithfulness coefficient: tokens are cut into ten groups by falling score, and every two groups are compared. The
    difference of their scores counts for the map if the group of larger scores matters at least as much to the class's probability when it
    alone is removed, else against it. Higher is better; 1 if all pairs are in order, near 0 for a random map.

    ``scores`` (B, N); ``groups`` bool (B, G, N): which tokens each group holds, the largest scores first; ``falls`` (B, G): of the class's
    probability without each group. Returns (B,), from -1 to 1; NaN if all groups have the same sum.

    Wu et al., Algorithm 1: with s the sum of a group's scores (scaled from 0 to 1) and p its fall, the sum over i < j of
    +(s_i - s_j) if p_i >= p_j else -(s_i - s_j), over the sum of |s_i - s_j|.
    """
    sums = _sums(from_zero_to_one(scores), groups)
    first, second = torch.triu_indices(groups.shape[1], groups.shape[1], 1)
    weights = sums[:, first] - sums[:, second]
    signed = torch.where(falls[:, first] >= falls[:, second], weights, -weights).sum(1)
    total = weights.abs().sum(1)
    return torch.where(total > 0, signed / total, torch.nan)


@metric(
    "naopc",
    title="Normalised AOPC",
    family="faithfulness",
    takes={"falls": "falls_one_by_one", "limits": "aopc_limits"},
    direction="higher",
    source=NAOPC,
    kinds=("text", "molecule"),
)
def normalised_aopc(falls: Tensor, limits: Tensor) -> Tensor:
    """Area over the perturbation curve, most important first and token by token, between the smallest and the largest that any order of the
    tokens reaches with this model and input: 0 for the worst order, 1 for the best. Higher is better. It is the AOPC that compares between
    models, since a model's own limits are taken out. Limits are exact up to 8 tokens, else found by a beam search of width 5; inputs of
    more than 64 tokens have no value.

    ``falls`` (B, N): of the class's probability without the first 1 to N tokens; ``limits`` (B, 2): the smallest and the largest mean fall
    of an order. A map that goes beyond a limit that the search found moves it. Returns (B,), from 0 to 1; NaN if all orders are alike.

    Edin et al., equations 1 to 3: (AOPC - lower) / (upper - lower), AOPC = the mean over k = 1 ... N of f(x) - f(x without the first k).
    """
    area = falls.double().mean(1)
    low, high = torch.minimum(limits[:, 0].double(), area), torch.maximum(limits[:, 1].double(), area)
    return torch.where(high > low, (area - low) / (high - low), torch.nan)
