"""ROAD: accuracy while pixels are imputed from their neighbours, which hides them without the shape of a hole."""

from __future__ import annotations

from torch import Tensor

from explainers.metrics.faithfulness import TENTHS, share_on_top
from explainers.metrics.registry import RemovalCurve, metric
from explainers.papers import ROAD

IMPUTED = RemovalCurve(fractions=TENTHS, pixels=True, imputed=True)


@metric(
    "road",
    title="ROAD, most important first",
    family="faithfulness",
    takes={"imputed": IMPUTED, "answer": "answer"},
    direction="lower",
    source=ROAD,
    kinds=("image",),
)
def road(imputed: Tensor, answer: Tensor) -> Tensor:
    """Remove and debias, most important first: how often the class stays on top while 10 to 90 % of the pixels, the most relevant first,
    are imputed from their neighbours with noise (0.01). Lower is better.

    ``imputed`` (B, steps, C): the answers; ``answer`` bool (B, C): the classes that keep the answer. Returns (B,), from 0 to 1.

    Rong et al., section 4: noisy linear imputation, the accuracy of the MoRF curve, here averaged over the steps.
    """
    return share_on_top(imputed, answer)


@metric(
    "road_least",
    title="ROAD, least important first",
    family="faithfulness",
    takes={"imputed": RemovalCurve(fractions=TENTHS, pixels=True, imputed=True, order="least"), "answer": "answer"},
    direction="higher",
    source=ROAD,
    kinds=("image",),
)
def road_least(imputed: Tensor, answer: Tensor) -> Tensor:
    """Remove and debias, least important first: how often the class stays on top while 10 to 90 % of the pixels, the least relevant first,
    are imputed from their neighbours with noise (0.01). Higher is better.

    ``imputed`` (B, steps, C): the answers; ``answer`` bool (B, C): the classes that keep the answer. Returns (B,), from 0 to 1.

    Rong et al., section 4: noisy linear imputation, the accuracy of the LeRF curve, here averaged over the steps.
    """
    return share_on_top(imputed, answer)
