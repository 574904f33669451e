"""The cases of tests/golden: a small model, an input, and what published code gave for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import explainers

# isort: split
import timm
import transformers

GOLDEN = Path(__file__).resolve().parent.parent.parent / "golden"


class Case:
    """One folder: its model, its inputs, its published arrays.

    ``entry`` and ``change`` are for arrays whose map starts elsewhere than at x^1: which module it enters, and a change of the module.
    """

    def __init__(
        self, name: str, dtype: torch.dtype = torch.float64, *, entry: str | None = None, change: Callable[[nn.Module], None] | None = None
    ) -> None:
        folder = GOLDEN / name
        self.about = json.loads((folder / "model.json").read_text())
        self.module = _build(self.about).double().eval()
        with np.load(folder / "weights.npz") as weights:
            state = {key: torch.tensor(weights[key]).double() for key in weights}
        missing, unexpected = self.module.load_state_dict(state, strict=False)
        assert not unexpected
        assert all(key.endswith("position_ids") for key in missing), missing
        if change is not None:
            change(self.module)
        with np.load(folder / "inputs.npz") as inputs:
            self.inputs = {key: _as_input(inputs[key], dtype) for key in inputs}
        with np.load(folder / "outputs.npz") as outputs:
            self.published = {key: torch.tensor(outputs[key]).double() for key in outputs}
        self.target = self.about["target"]
        self.model = explainers.wrap(self.module.to(dtype), entry=entry)

    def theirs(self, array: str, summed: tuple[int, ...] = ()) -> Tensor:
        """A published array, summed over its width or colours, flat; of a padded text the real tokens alone."""
        found = self.published[array]
        found = found.sum(summed) if summed else found
        mask = self.inputs.get("attention_mask")
        if mask is not None and found.shape == mask.shape:
            found = found[mask.bool()]
        return found.flatten()

    def difference(self, ours: Tensor, array: str, summed: tuple[int, ...] = ()) -> float:
        """The largest difference, in units of the largest published value."""
        theirs = self.theirs(array, summed)
        return float((ours.detach().double().flatten() - theirs).abs().max() / theirs.abs().max())

    def one_hot(self, logits: Tensor) -> Tensor:
        """The signal that starts at the target."""
        seed = torch.zeros_like(logits)
        seed[:, self.target] = 1
        return seed


def arrays_of(name: str) -> set[str]:
    """The names of the arrays of a case."""
    with np.load(GOLDEN / name / "outputs.npz") as outputs:
        return set(outputs)


def _build(about: dict[str, Any]) -> nn.Module:
    if about["library"] == "timm":
        family = timm.models.eva if about.get("class") == "Eva" else timm.models.vision_transformer
        made: nn.Module = getattr(family, about.get("class", "VisionTransformer"))(**about["kwargs"])
        return made
    config = about["class"].replace("ForSequenceClassification", "").replace("Model", "") + "Config"
    module: nn.Module = getattr(transformers, about["class"])(getattr(transformers, config)(**about["config"]))
    return module


def _as_input(array: Any, dtype: torch.dtype) -> Tensor:
    tensor = torch.tensor(array)
    return tensor.to(dtype) if tensor.is_floating_point() else tensor
