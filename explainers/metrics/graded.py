"""Faithfulness that depends on the sizes of scores, and not only on their order.

Every function takes B maps at once. Sizes of scores are read from their positive part where a metric needs shares.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from explainers.metrics.faithfulness import ALL_TENTHS, class_answers, mean_height
from explainers.metrics.rank_correlation import rank_correlations
from explainers.metrics.registry import RemovalCurve, metric
from explainers.papers import AVERAGE_DROP, LEAVE_ONE_OUT, MDA, SOFT

DELETED = RemovalCurve(fractions=ALL_TENTHS)
INSERTED = RemovalCurve(fractions=ALL_TENTHS, keeps_first=True)
SMALL = 1e-7  # added to what the fall is a share of, as torch-cam does


def from_zero_to_one(scores: Tensor) -> Tensor:
    """Scale the ``scores`` of each map (..., N) so that the smallest is 0 and the largest 1, and return them in float64; a map of equal
    scores becomes 0.
    """
    low, high = scores.double().amin(-1, keepdim=True), scores.double().amax(-1, keepdim=True)
    return torch.where(high > low, (scores - low) / (high - low).clamp(min=torch.finfo(torch.float64).tiny), 0.0)


def _spearman(rows: Tensor, others: Tensor) -> Tensor:
    """Return Spearman's correlation (B,) of each row of (B, N) with the same row of the other; NaN if one of them is constant."""
    pairs = np.stack([rows.double().numpy(), others.double().numpy()], 1)
    return torch.tensor([rank_correlations(pair)[0, 1] for pair in pairs], dtype=torch.float64)


@metric(
    "leave_one_out",
    title="Agreement with leave-one-out",
    family="faithfulness",
    takes=["scores", "leave_one_out"],
    direction="higher",
    source=LEAVE_ONE_OUT.with_note("the rank correlation is ours, as what the paper correlates could not be read"),
    lowest=-1.0,
    unit="number",
)
def leave_one_out_agreement(scores: Tensor, leave_one_out: Tensor) -> Tensor:
    """Spearman's correlation of the scores with how much the explained number falls without each patch or word piece alone.

    ``scores`` and ``leave_one_out`` (B, N): the scores, and the falls of the explained number. Returns (B,).
    """
    return _spearman(scores, leave_one_out)


@metric(
    "average_drop",
    title="Average drop",
    family="faithfulness",
    takes=["whole", "shown", "target"],
    direction="lower",
    source=AVERAGE_DROP,
    kinds=("image",),
)
def average_drop(whole: Tensor, shown: Tensor, target: Tensor) -> Tensor:
    """The share of the class's probability that is lost when the picture is multiplied by the map, scaled from 0 to 1 and enlarged
    bilinearly; none if it rises.

    ``whole`` and ``shown`` (B, C): answers for the whole picture, and for its product with the map; ``target`` bool (B, C). Returns (B,).
    """
    before, after = class_answers(whole, target), class_answers(shown, target)
    return (before - after).clamp(min=0) / (before + SMALL)


@metric(
    "confidence_increase",
    title="Increase in confidence",
    family="faithfulness",
    takes=["whole", "shown", "target"],
    direction="higher",
    source=AVERAGE_DROP,
    kinds=("image",),
)
def confidence_increase(whole: Tensor, shown: Tensor, target: Tensor) -> Tensor:
    """The share of inputs whose class is more probable for the picture multiplied by the map, scaled from 0 to 1 and enlarged
    bilinearly.

    ``whole`` and ``shown`` (B, C): answers for the whole picture, and for its product with the map; ``target`` bool (B, C). Returns (B,), 0
    or 1.
    """
    return (class_answers(whole, target) < class_answers(shown, target)).double()


def used_shares(scores: Tensor, steps: int) -> Tensor:
    """Return the share (B, steps) of the positive scores (B, N) that the first tokens hold, most important first, at even steps from no
    token to all. If no score is positive, it is the share of the tokens.
    """
    count = scores.shape[-1]
    ordered = scores.double().clamp(min=0).sort(-1, descending=True).values
    total = ordered.sum(-1, keepdim=True)
    ordered = torch.where(total > 0, ordered / total.clamp(min=torch.finfo(torch.float64).tiny), 1 / count)
    held = torch.cat([torch.zeros_like(ordered[:, :1]), ordered.cumsum(-1)], 1)
    return held[:, [count * step // (steps - 1) for step in range(steps)]]


def responses(values: Tensor, *, rises: bool) -> Tensor:
    """Scale ``values`` (B, steps), answers along insertion (``rises``) or deletion, so that they run from 0 to 1 between their ends, make
    them monotone, and return them.
    """
    values = values.double() if rises else values.double().flip(1)
    low, high = values[:, :1], values[:, -1:]
    shares = ((values - low) / (high - low).abs().clamp(min=torch.finfo(torch.float64).tiny)).clamp(0, 1)
    return shares.cummax(1).values if rises else shares.flip(1).cummin(1).values


def alignment_scores(response: Tensor, density: Tensor, *, rises: bool) -> Tensor:
    """Return the curve of MAS (B, steps): the response minus (insertion, ``rises``) or plus (deletion) its distance to the density, clipped
    to 0 to 1 and scaled to that range.
    """
    penalty = (response - density).abs()
    curve = (response - penalty if rises else response + penalty).clamp(0, 1)
    low, high = curve.amin(1, keepdim=True), curve.amax(1, keepdim=True)
    return (curve - low) / (high - low).clamp(min=torch.finfo(torch.float64).tiny)


@metric(
    "mas_insertion",
    title="MAS insertion",
    family="faithfulness",
    takes={"inserted": INSERTED, "scores": "scores", "target": "target"},
    direction="higher",
    source=MDA,
)
def mas_insertion(inserted: Tensor, scores: Tensor, target: Tensor) -> Tensor:
    """Magnitude aligned score: the area under the class's probability while the most important tokens are put back, minus its distance from
    the share of the scores that is used. A map does well if its scores are as large as the effect of their tokens.

    ``inserted`` (B, steps, C): the answers; ``scores`` (B, N); ``target`` bool (B, C). Returns (B,).
    """
    response = responses(class_answers(inserted, target), rises=True)
    return mean_height(alignment_scores(response, used_shares(scores, response.shape[1]), rises=True))


@metric(
    "mas_deletion",
    title="MAS deletion",
    family="faithfulness",
    takes={"deleted": DELETED, "scores": "scores", "target": "target"},
    direction="lower",
    source=MDA,
)
def mas_deletion(deleted: Tensor, scores: Tensor, target: Tensor) -> Tensor:
    """Magnitude aligned score: the area under the class's probability while the most important tokens are removed, plus its distance from
    the share of the scores that is not used yet.

    ``deleted`` (B, steps, C): the answers; ``scores`` (B, N); ``target`` bool (B, C). Returns (B,).
    """
    response = responses(class_answers(deleted, target), rises=False)
    return mean_height(alignment_scores(response, 1 - used_shares(scores, response.shape[1]), rises=False))


@metric(
    "monotonicity_insertion",
    title="Monotonicity of insertion",
    family="faithfulness",
    takes={"inserted": INSERTED, "target": "target"},
    direction="higher",
    source=MDA,
    lowest=-1.0,
    unit="number",
)
def monotonicity_insertion(inserted: Tensor, target: Tensor) -> Tensor:
    """Spearman's correlation of the class's probability with the number of tokens that are put back, the most important first.

    ``inserted`` (B, steps, C): the answers; ``target`` bool (B, C). Returns (B,).
    """
    values = class_answers(inserted, target)
    return _spearman(values, torch.arange(values.shape[1]).expand_as(values))


@metric(
    "monotonicity_deletion",
    title="Monotonicity of deletion",
    family="faithfulness",
    takes={"deleted": DELETED, "target": "target"},
    direction="higher",
    source=MDA,
    lowest=-1.0,
    unit="number",
)
def monotonicity_deletion(deleted: Tensor, target: Tensor) -> Tensor:
    """Spearman's correlation of the class's probability with the number of tokens that are left, the most important removed first.

    ``deleted`` (B, steps, C): the answers; ``target`` bool (B, C). Returns (B,).
    """
    values = class_answers(deleted, target)
    return _spearman(values, -torch.arange(values.shape[1]).expand_as(values))


def _soft(soft: Tensor, whole: Tensor, target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return three tensors (B,): how far the probability of the class ``target`` falls from the answer to the whole input, ``whole`` (B,
    C), when elements are kept by the map, when they are removed by the map, and when all are set to zero. ``soft`` (B, 3) holds the three
    probabilities.
    """
    before = class_answers(whole, target)[:, None]
    kept, removed, nothing = (before - soft.double()).clamp(min=0).unbind(1)
    return kept, removed, nothing


def _over_nothing(values: Tensor, lost_by_nothing: Tensor) -> Tensor:
    """Divide losses, ``values`` (B,), by ``lost_by_nothing`` (B,), what is lost with no elements left, and clip to 0 to 1; NaN if nothing
    is lost then.
    """
    return torch.where(lost_by_nothing > 0, values / lost_by_nothing, torch.nan).clamp(0, 1)


@metric(
    "soft_ns",
    title="Soft-NS",
    family="faithfulness",
    takes=["soft", "whole", "target"],
    direction="higher",
    source=SOFT,
)
def soft_sufficiency(soft: Tensor, whole: Tensor, target: Tensor) -> Tensor:
    """Soft normalised sufficiency: of what is lost when all embedded tokens are zero, the share that is saved when each of their elements
    is kept with a probability of the token's score, scaled from 0 to 1. A map of ones saves all.

    ``soft`` (B, 3): probabilities with elements kept by the map, removed by it, and all zero; ``whole`` (B, C): answers for the whole
    input; ``target`` bool (B, C). Returns (B,).
    """
    kept, _, nothing = _soft(soft, whole, target)
    return _over_nothing(nothing - kept, nothing)


@metric(
    "soft_nc",
    title="Soft-NC",
    family="faithfulness",
    takes=["soft", "whole", "target"],
    direction="higher",
    source=SOFT,
)
def soft_comprehensiveness(soft: Tensor, whole: Tensor, target: Tensor) -> Tensor:
    """Soft normalised comprehensiveness: of what is lost when all embedded tokens are zero, the share that is lost when each of their
    elements is removed with a probability of the token's score, scaled from 0 to 1. A map of ones loses all.

    ``soft`` (B, 3): probabilities with elements kept by the map, removed by it, and all zero; ``whole`` (B, C): answers for the whole
    input; ``target`` bool (B, C). Returns (B,).
    """
    _, removed, nothing = _soft(soft, whole, target)
    return _over_nothing(removed, nothing)
