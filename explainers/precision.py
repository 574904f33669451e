"""Rules that carry relevance amplify rounding: they run in float64, and a map says how far it would have been off without."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from explainers.asking import Asked
from explainers.errors import ExplainerError
from explainers.recording import Recording
from explainers.result import Attribution
from explainers.rules import Rule

#: A relevance map that rounding changes by more than this share of its largest score says so.
ILL_CONDITIONED = 0.01


def source(asked: Asked, rule: Rule | None, what: str) -> Recording:
    """The recording that ``what`` is read from under ``rule``: one in float64 where the rule carries relevance.

    Where the terms of a sum or a product cancel, deep Taylor and LRP divide by the little that is left, and so amplify the rounding of the
    forward pass, for LRP over a hundred thousand times at the median: no evaluation on float32 activations can be right. Sums of two
    paths are most to blame; linear layers, which sum terms of one sign, are not, and split their relevance in float32.
    ``python -m tests.conditioning`` measures it. Raises ExplainerError on a device that knows no float64.
    """
    if rule is None or not rule.is_relevance:
        return asked.recording
    if asked.recording.logits.device.type == "mps":
        raise ExplainerError(f"{what} carries relevance, which needs float64, and mps has none: move the model to the CPU.")
    return asked.double


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
