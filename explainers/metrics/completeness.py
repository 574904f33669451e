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
    """How far the sum of all scores, with the terms that belong to no token, misses the explained number."""
    return error.double()


def missed_share(sums: NDArray[Any]) -> NDArray[Any]:
    """What is missed over the size of what is explained, both summed over inputs."""
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
    """How far what arrives at the inputs of the blocks under a method's rule, bias terms behind them included, misses the explained number:
    the mean over blocks, summed over inputs, over the sizes of the explained numbers.
    """
    explained, tokens, biases = block_sums.double().unbind(1)
    return torch.stack([(tokens + biases - explained).abs().mean(1), explained[:, 0].abs()], 1)
