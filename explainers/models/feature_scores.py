"""Scores of the tokens that a text classifier ends with, for the lines of its calibration: directions in the space of their means.

They are next to the weights, in ``calibration.safetensors``: of each score a tensor by its name, (D + 1,), the weights of the D features
and a constant. Where the head has no class for what is asked, such a direction may say what the logits cannot.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from explainers.errors import ExplainerError
from explainers.models.eval_mode import evaluating
from explainers.models.model import Model
from explainers.models.structure.blocks import first_tensor
from explainers.models.structure.hooks import in_this_thread, remove_hooks_after

#: its name, next to the weights
FEATURE_SCORES_FILE = "calibration.safetensors"


def token_means(model: Model, tensors: Mapping[str, Tensor]) -> Tensor:
    """Run a text classifier, ``model``, once on the texts in ``tensors`` (``input_ids`` and ``attention_mask``), and return the mean of
    each text's tokens after the last block, without padding: (B, D), on the CPU.
    """
    given: list[Tensor] = []

    def take(module: nn.Module, args: tuple[Any, ...], output: object) -> None:
        tokens = first_tensor(output)
        if tokens is not None:
            given.append(tokens)

    with remove_hooks_after([model.blocks[-1].register_forward_hook(in_this_thread(take))]), torch.no_grad(), evaluating(model.module):
        model.forward(tensors)
    mask = tensors["attention_mask"][..., None].to(given[-1])
    return ((given[-1] * mask).sum(1) / mask.sum(1)).float().cpu()


def feature_score(name: str, directions: Mapping[str, Tensor], features: Tensor) -> float:
    """Return the product of features (D,) with the weights of the direction called ``name``, plus its constant. Raises ExplainerError if
    there is no such direction, or if its length differs.
    """
    if name not in directions:
        raise ExplainerError(f"{name} is a score of models with a direction of that name in {FEATURE_SCORES_FILE} next to their weights")
    direction = directions[name].to(features)
    if direction.shape != (len(features) + 1,):
        wanted = len(features) + 1
        raise ExplainerError(
            f"{FEATURE_SCORES_FILE}: {name} has the shape {tuple(direction.shape)}; send {wanted} numbers, the last a constant"
        )
    return float(features @ direction[:-1] + direction[-1])


def read_directions(path: Path) -> dict[str, Tensor]:
    """Return the tensors in the file ``path``, a ``calibration.safetensors``, by name, as float32. Raises ExplainerError if the file is
    damaged or of another kind.
    """
    try:
        return {name: tensor.float() for name, tensor in load_file(path).items()}
    except (SafetensorError, OSError) as problem:
        raise ExplainerError(f"{path} is not a safetensors file: {problem}") from None
