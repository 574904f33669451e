"""Scores of what a classifier's head reads, for the lines of its calibration: directions in the space of these features.

They lie beside the weights, in ``calibration.safetensors``: of each score a tensor by its name, (D + 1,), the weights of the D features and
a constant. Where the head has no class for what is asked, such a direction may say what the logits cannot.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from explainers.errors import ExplainerError

#: its name, beside the weights
FILE = "calibration.safetensors"


def feature_score(name: str, directions: Mapping[str, Tensor], features: Tensor) -> float:
    """Features (D,) times the weights of the direction, plus its constant. Raises ExplainerError where there is none or it does not fit."""
    if name not in directions:
        raise ExplainerError(f"{name} is a score of models with a direction of that name in {FILE} beside their weights")
    direction = directions[name].to(features)
    if direction.shape != (len(features) + 1,):
        wanted = len(features) + 1
        raise ExplainerError(f"{FILE}: {name} has the shape {tuple(direction.shape)}; send {wanted} numbers, the last a constant")
    return float(features @ direction[:-1] + direction[-1])


def read_directions(path: Path) -> dict[str, Tensor]:
    """What a ``calibration.safetensors`` holds. Raises ExplainerError for another file."""
    try:
        return {name: tensor.float() for name, tensor in load_file(path).items()}
    except (SafetensorError, OSError) as problem:
        raise ExplainerError(f"{path} is not a safetensors file: {problem}") from None
