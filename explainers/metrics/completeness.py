"""Do the scores add up to what they explain?"""

from __future__ import annotations

from torch import Tensor

from explainers.metrics.registry import metric
from explainers.papers import FULLGRAD


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
