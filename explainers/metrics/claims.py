"""Claims: whether what a map puts first earns a sentence with an exact error, and how little of the input that sentence needs.

See :mod:`explainers.analysis.claims.claim` for the claim itself and what its error means.
"""

from __future__ import annotations

import torch
from torch import Tensor

from explainers.metrics.registry import metric
from explainers.papers import RANK_BETTING

_SOURCE = RANK_BETTING.with_note("the test of a rank among random sets; the claim is ours")


@metric(
    "claim",
    title="Earns a claim",
    family="faithfulness",
    takes=["claimed_share"],
    direction="higher",
    source=_SOURCE,
)
def earns_claim(claimed_share: Tensor) -> Tensor:
    """How often a map earns a claim: without what it puts first, the answer's probability falls by 0.1 or more under each filling that is
    not drawn at random, and by more than without 95 % of random sets of as many parts. A map of random numbers earns one in at most 5 %.

    ``claimed_share`` (B,): the share of the parts of the input in the smallest set found that holds, 0 where none does. Returns (B,), 0
    or 1.
    """
    return (claimed_share > 0).double()


@metric(
    "claim_size",
    title="Size of its claim",
    family="faithfulness",
    takes=["claimed_share"],
    direction="lower",
    source=_SOURCE,
)
def claim_size(claimed_share: Tensor) -> Tensor:
    """Of the maps that earn a claim: the share of the patches, words or atoms in the smallest set found that holds. A map without a claim
    has no value, so methods are compared on the inputs on which each has one.

    ``claimed_share`` (B,): as of ``claim``. Returns (B,); NaN where there is no claim.
    """
    return torch.where(claimed_share > 0, claimed_share.double(), torch.nan)
