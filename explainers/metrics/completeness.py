"""Do the scores add up to what they explain?"""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from explainers.metrics.registry import metric
from explainers.papers import ALI, FULLGRAD


@metric(
    "completeness",
    title="Completeness error",
    family="completeness",
    takes=["error"],
    direction="lower",
    source=FULLGRAD,
    highest=None,
    unit="number",
)
def completeness(error: Tensor) -> Tensor:
    """Distance of the sum of all scores, with the terms that belong to no token, from the explained number.

    ``error`` (B,): these distances, as the methods report them. Returns (B,).
    """
    return error.double()


def missed_share(sums: NDArray[Any]) -> NDArray[Any]:
    """Return the missed amount as a share of the size of the explained number, (...); ``sums`` (..., 2) holds both, summed over inputs."""
    share: NDArray[Any] = sums[..., 0] / sums[..., 1]
    return share


@metric(
    "conservation",
    title="Conservation error",
    family="completeness",
    takes=["block_sums"],
    direction="lower",
    source=ALI,
    highest=None,
    unit="number",
    parts=("missed", "explained"),
    combine=missed_share,
)
def conservation(block_sums: Tensor) -> Tensor:
    """Distance of what arrives at the inputs of the blocks under a method's rule, bias terms after them included, from the explained
    number: the mean over blocks, summed over inputs, over the sizes of the explained numbers.

    ``block_sums`` (B, 3, L): at the input of each block the explained number, the tokens' sum and the bias terms. Returns (B, 2): what is
    missed, and the size of the explained number.
    """
    explained, tokens, biases = block_sums.double().unbind(1)
    return torch.stack([(tokens + biases - explained).abs().mean(1), explained[:, 0].abs()], 1)
