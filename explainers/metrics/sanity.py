"""Sanity checks: whether a map depends on what it should depend on: classes, weights, small changes, other methods."""

from __future__ import annotations

import torch
from torch import Tensor

from explainers.metrics.rank_correlation import rank_correlations
from explainers.metrics.registry import metric
from explainers.papers import ATTCAT, INFIDELITY, SANITY


def _correlation(first: Tensor, second: Tensor) -> Tensor:
    """Return Spearman's rank correlation (B,) of each row of ``first`` (B, N) with the same row of ``second``; NaN if a row is constant."""
    pairs = torch.stack([first, second], 1).double().numpy()
    return torch.tensor([rank_correlations(pair)[0, 1] for pair in pairs], dtype=torch.float64)


def _order_agreement(scores: Tensor, randomised: Tensor) -> Tensor:
    """Return the size of the rank correlation (B,) of each map, ``scores`` (B, N), with its map under random weights, ``randomised`` (B,
    N), 0 to 1; 0 where a map becomes constant.
    """
    return _correlation(scores, randomised).abs().nan_to_num(0.0)


@metric(
    "class_correlation",
    title="Correlation between classes",
    family="sanity",
    takes=["scores", "other"],
    direction="lower",
    source=None,
    lowest=-1.0,
    unit="number",
)
def class_correlation(scores: Tensor, other: Tensor) -> Tensor:
    """Spearman's rank correlation of the map with the map for the runner-up class; 1: the same map whatever is asked.

    ``scores`` and ``other`` (B, N): the maps for the explained class and for the runner-up. Returns (B,).
    """
    return _correlation(scores, other)


@metric(
    "class_tau",
    title="Kendall's tau between classes",
    family="sanity",
    takes=["scores", "other"],
    direction="lower",
    source=ATTCAT,
    lowest=-1.0,
    unit="number",
)
def class_tau(scores: Tensor, other: Tensor) -> Tensor:
    """Kendall's rank correlation of the map with that of the runner-up class; 1: the same map whatever is asked.

    ``scores`` and ``other`` (B, N): those for the explained class and for the runner-up. Returns (B,).
    """
    from scipy.stats import kendalltau

    rows = zip(scores.double().numpy(), other.double().numpy(), strict=True)
    return torch.tensor([kendalltau(a, b).statistic for a, b in rows], dtype=torch.float64)


@metric(
    "randomisation",
    title="Randomised weights",
    family="sanity",
    takes=["scores", "randomised"],
    direction="lower",
    source=SANITY,
    unit="number",
)
def randomisation(scores: Tensor, randomised: Tensor) -> Tensor:
    """Magnitude of Spearman's rank correlation with the maps after the weights were randomised, layer after layer from the output down;
    its mean over the layers.

    ``scores`` (B, N); ``randomised`` (B, L, N): those with the weights of more and more layers randomised. Returns (B,).

    A layer is randomised by putting the entries of each of its weights into a random order, where the paper draws new ones. A map that
    becomes constant counts as unlike.
    """
    layers = [_order_agreement(scores, randomised[:, layer]) for layer in range(randomised.shape[1])]
    return torch.stack(layers).mean(0)


@metric(
    "randomisation_end",
    title="Randomised weights, all layers",
    family="sanity",
    takes=["scores", "all_random"],
    direction="lower",
    source=SANITY,
    unit="number",
)
def randomisation_end(scores: Tensor, all_random: Tensor) -> Tensor:
    """Magnitude of Spearman's rank correlation with the map after the weights of all layers were randomised: where `randomisation` ends, at
    two maps an input, so that slow methods can be asked too.

    ``scores`` and ``all_random`` (B, N): the maps of the model with its own weights, and with random weights. Returns (B,).
    """
    return _order_agreement(scores, all_random)


@metric(
    "sensitivity",
    title="Largest sensitivity",
    family="sanity",
    takes=["scores", "disturbed"],
    direction="lower",
    source=INFIDELITY,
    highest=None,
    unit="number",
    kinds=("image",),
)
def sensitivity(scores: Tensor, disturbed: Tensor) -> Tensor:
    """The largest relative change of the map, in the Euclidean norm, under small random changes of the input.

    ``scores`` (B, N); ``disturbed`` (B, K, N): those of K changed inputs. Returns (B,).
    """
    size = scores.double().norm(dim=1)
    change = (disturbed.double() - scores.double()[:, None]).norm(dim=2).amax(1)
    return torch.where(size > 0, change / size, torch.nan)


@metric("agreement", title="Agreement with other methods", family="sanity", takes=["scores"], direction=None, lowest=-1.0, unit="number")
def mean_agreement(scores: Tensor) -> Tensor:
    """Spearman's rank correlation with the maps of the other methods of the run, on average; neither high nor low is better.

    ``scores`` (B, N): a row for each method, on the same input. Returns (B,).
    """
    if len(scores) < 2:
        return torch.full((len(scores),), torch.nan, dtype=torch.float64)
    correlations = torch.from_numpy(rank_correlations(scores.double().numpy()))
    correlations.fill_diagonal_(torch.nan)
    return correlations.nanmean(1)
