"""Concentration: whether a map names few tokens. It says nothing of whether these are the right ones."""

from __future__ import annotations

import torch
from torch import Tensor

from explainers.metrics.registry import metric
from explainers.papers import FAITHFULNESS_CORRELATION, SPARSENESS


@metric(
    "sparseness",
    title="Sparseness",
    family="concentration",
    takes=["scores"],
    direction="higher",
    source=SPARSENESS,
    unit="number",
)
def sparseness(scores: Tensor) -> Tensor:
    """Gini index of the magnitudes of the scores: 0 if all tokens have the same, near 1 if one token has all. Higher is sparser.

    ``scores`` (B, N). With the magnitudes a_1 <= ... <= a_N: the sum of (2 i - N - 1) a_i over N times the sum of a_i, from 0 to 1 - 1/N.
    Returns (B,); NaN for a map of zeros.

    Chalasani et al., section 4 (the Gini index of Hurley and Rickard, 2009). Quantus adds 1e-7 to every magnitude.
    """
    sizes = scores.double().abs().sort(1).values
    count = sizes.shape[1]
    ranks = 2 * torch.arange(1, count + 1, dtype=torch.float64) - count - 1
    return (ranks * sizes).sum(1) / (count * sizes.sum(1))


@metric(
    "complexity",
    title="Complexity",
    family="concentration",
    takes=["scores"],
    direction="lower",
    source=FAITHFULNESS_CORRELATION,
    highest=None,
    unit="number",
)
def complexity(scores: Tensor) -> Tensor:
    """Entropy of the shares of the tokens in the magnitude of a map, in nats: 0 if one token has all, the logarithm of the number of tokens
    if all have the same. Lower is simpler; values of inputs with different numbers of tokens do not compare.

    ``scores`` (B, N). With p_i = |a_i| / sum |a_j|: minus the sum of p_i ln p_i, from 0 to ln N. Returns (B,); NaN for a map of zeros.

    Bhatt, Weller and Moura, Definition 3. Quantus adds 1e-12 inside the logarithm.
    """
    sizes = scores.double().abs()
    shares = sizes / sizes.sum(1, keepdim=True)
    return -torch.xlogy(shares, shares).sum(1)
