"""Rules that carry relevance amplify rounding: they run in float64, and a map says how far it would have been off without."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from explainers.errors import ExplainerError
from explainers.methods import Request
from explainers.models.base import Model
from explainers.recording import Recording
from explainers.result import Attribution

#: A relevance map that rounding changes by more than this share of its largest score says so.
ILL_CONDITIONED = 0.01


class Sources:
    """The recordings of one input: in the model's own precision, and in float64 for rules that carry relevance.

    Where the terms of a sum or a product cancel, deep Taylor and LRP divide by the little that is left, and so amplify the rounding of the
    forward pass, for LRP over a hundred thousand times at the median: no evaluation on float32 activations can be right. Sums of two
    paths are most to blame; linear layers, which sum terms of one sign, are not, and split their relevance in float32.
    ``python -m tests.conditioning`` measures it.
    """

    def __init__(self, model: Model, tensors: dict[str, Tensor], own: Recording, pixels: bool) -> None:
        self._arguments = (model, tensors, pixels)
        self._own = own
        self._double: Recording | None = own if own.logits.dtype == torch.float64 else None

    def of(self, request: Request) -> Recording:
        """The recording that a request is read from. Raises ExplainerError on a device that knows no float64."""
        if request.rule is None or not request.rule.is_relevance:
            return self._own
        if self._own.logits.device.type == "mps":
            raise ExplainerError(f"{request.spec} carries relevance, which needs float64, and mps has none: move the model to the CPU.")
        if self._double is None:
            model, tensors, pixels = self._arguments
            self._double = Recording(model, tensors, pixels=pixels, double=True)
        return self._double

    def forget_signals(self) -> None:
        """Let go of all signals kept."""
        self._own.forget_signals()
        if self._double is not None:
            self._double.forget_signals()


def conditioned(maps: list[Attribution], rough: Tensor, own: Recording) -> list[Attribution]:
    """Say in each map that was made in float64 how far the same rule in the model's own precision, ``rough`` (B, S), is from it."""
    precision = str(own.logits.dtype).removeprefix("torch.")
    return [
        _warned(one, scores[mask], precision) for one, scores, mask in zip(maps, rough.detach().double().cpu(), own.mask.cpu(), strict=True)
    ]


def _warned(one: Attribution, rough: Tensor, precision: str) -> Attribution:
    change = float((rough - one.scores).abs().max() / one.scores.abs().max().clamp(min=torch.finfo(torch.float32).tiny))
    if change <= ILL_CONDITIONED:
        return one
    by = f"changes its scores by up to {change:.0%} of the largest" if math.isfinite(change) else "loses it altogether"
    note = (
        f"Close to a division by zero: rounding to {precision} alone {by}. This map was computed in float64; "
        "small changes of the input may change it as much."
    )
    return replace(one, notes=(*one.notes, note))
