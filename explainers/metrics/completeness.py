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
    """Share of the explained number that a method's rule loses or adds on the way back: at each block's input, the distance between the
    explained number and the relevance of all tokens plus the bias terms; mean over blocks. Of a data set: the sum of these distances,
    divided by the sum of the absolute explained numbers.

    ``block_sums`` (B, 3, L): for each input and block the explained number, the summed relevance of the tokens, and the bias terms. Returns
    (B, 2): the distance, and the absolute explained number.
    """
    explained, tokens, biases = block_sums.double().unbind(1)
    return torch.stack([(tokens + biases - explained).abs().mean(1), explained[:, 0].abs()], 1)
