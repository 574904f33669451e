"""Faithfulness by parts of a picture that the data set itself can leave out: does a map name the parts whose absence counts?

The checks of FunnyBirds (Hesse et al., 2023), with its thresholds. A part counts as important for a map where the sum of the map over its
pixels is above a share of the map's whole sum; of 80 shares that one is taken for all four checks at which they are best together. Every
function takes B maps of one input; P parts decide its class, and G things of the ground do not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from explainers.metrics.rank_correlation import rank_correlations
from explainers.metrics.registry import metric, need
from explainers.papers import FUNNYBIRDS

THRESHOLDS = torch.linspace(0.01, 0.5, 80, dtype=torch.float64)  # shares of the map's sum
RELEVANT_SHARE = 0.05  # a thing counts if the class's logit falls by this share without it
_CHECKS = ("csdc", "preservation_check", "deletion_check", "distractibility")
_PARTS = (*(f"{check}_{step}" for check in _CHECKS for step in range(len(THRESHOLDS))), *(f"{check}_inputs" for check in _CHECKS))
#: Name of a need of these metrics -> its shape, and what it is.
PART_NEEDS = {
    "part_scores": "(B, P + 1): the sum of the map over the pixels of each part, widened by two pixels, and last over all pixels",
    "ground_scores": "(B, G): the sum of the map over the pixels of each thing of the ground, widened by two pixels",
    "answer_part_scores": "(B, P + 1): the same as part_scores by the maps of the predicted class",
    "rival_scores": "(B, 2, 2): the sums over the parts that speak for each of two other classes, by the maps of the first and the second",
    "part_falls": "(B, P): how far the logit of the explained class falls without each part alone",
    "ground_falls": "(B, G): how far that logit falls without each thing of the ground",
    "keeps_answer": "bool (B, 2, ..., 2): whether the predicted class stays without each set of parts; an axis for each part, 1: gone",
    "sufficient": "bool (B, S, P): the parts in each of the smallest sets that tell the class from all others",
}


def _declare(name: str, about: str) -> None:
    def compute(measured: Any) -> Tensor | None:
        value: Tensor | None = None if measured.removed_parts is None else measured.removed_parts.of(name)
        return value

    need(name, about)(compute)


for _name, _about in PART_NEEDS.items():
    _declare(_name, _about)


def _is_irrelevant(falls: Tensor, logit: Tensor) -> Tensor:
    """Return which parts are irrelevant, bool (B, K): those without which the ``logit`` (B,) falls by less than a twentieth of itself, or
    rises. ``falls`` (B, K) are its falls.
    """
    return (falls.abs() < RELEVANT_SHARE * logit.abs()[:, None]) | (falls < 0)


def _logit(logits: Tensor, target: Tensor) -> Tensor:
    """Return the logit (B,) of the explained class, or the log-sum-exp of those of a group: ``target`` bool (B, C)."""
    return logits.masked_fill(~target, -torch.inf).logsumexp(1)


def _checks(
    part_scores: Tensor,
    ground_scores: Tensor,
    answer_part_scores: Tensor,
    part_falls: Tensor,
    ground_falls: Tensor,
    keeps_answer: Tensor,
    sufficient: Tensor,
    logits: Tensor,
    target: Tensor,
) -> Tensor:
    """Return the columns of the four checks (B, 4 * 80 + 4): the value of each at each threshold, and whether the input counts in each."""
    edges = THRESHOLDS[:, None] * part_scores[:, None, -1:]  # (B, T, 1)
    parts, ground = part_scores[:, None, :-1] > edges, ground_scores[:, None] > edges
    for_answer = answer_part_scores[:, None, :-1] > THRESHOLDS[:, None] * answer_part_scores[:, None, -1:]

    shares = (parts[:, :, None] & sufficient[:, None]).sum(-1).double() / sufficient.sum(-1)[:, None]  # (B, T, S)
    csdc = shares.amax(-1) if shares.shape[-1] else torch.zeros(parts.shape[:2], dtype=torch.float64)
    is_right = target.gather(1, logits.argmax(1, keepdim=True)).expand_as(csdc)

    bits = 2 ** torch.arange(parts.shape[-1] - 1, -1, -1)  # the last part changes fastest in a flattened table
    stays = keeps_answer.flatten(1)
    preservation = stays.gather(1, (~for_answer * bits).sum(-1))
    deletion = ~stays.gather(1, (for_answer * bits).sum(-1))

    irrelevant = _is_irrelevant(torch.cat([part_falls, ground_falls], 1), _logit(logits, target))[:, None]
    number = irrelevant.sum(-1)
    named = (torch.cat([parts, ground], 2) & irrelevant).sum(-1).double()
    distractibility = torch.where(number > 0, 1 - named / number.clamp(min=1), 0.0)

    values = torch.stack([torch.where(is_right, csdc, 0.0), preservation, deletion, distractibility], 1).double()
    counts = torch.stack([is_right[:, 0], *2 * [torch.ones_like(is_right[:, 0])], number[:, 0] > 0], 1)
    return torch.cat([values.flatten(1), counts.double()], 1)


def _at_best_threshold(check: str) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """Return a function from the sums of the columns, (..., 324), to the ``check`` at the threshold at which the mean of the first three
    checks and the fourth add up to most, (...).
    """

    def combine(sums: NDArray[Any]) -> NDArray[Any]:
        values, counts = sums[..., : -len(_CHECKS)], sums[..., -len(_CHECKS) :]
        with np.errstate(invalid="ignore", divide="ignore"):
            means = values.reshape(*values.shape[:-1], len(_CHECKS), len(THRESHOLDS)) / counts[..., None]
        together = np.nan_to_num(means)
        best = (together[..., :3, :].mean(-2) + together[..., 3, :]).argmax(-1)
        chosen: NDArray[Any] = np.take_along_axis(means[..., _CHECKS.index(check), :], best[..., None], -1)[..., 0]
        return chosen

    return combine


_TITLES = {
    "csdc": (
        "Controlled synthetic data check",
        "Largest share of a set of parts that is enough to tell the class from all others that the map calls important, over the smallest "
        "such sets, where the model is right.",
    ),
    "preservation_check": ("Preservation check", "How often the answer stays if only the parts are left that its map calls important."),
    "deletion_check": ("Deletion check", "How often the answer changes if the parts are taken away that its map calls important."),
    "distractibility": (
        "Distractibility",
        "Share of the irrelevant parts and things of the ground, those without which the class's logit falls by less than a twentieth, "
        "that the map does not call important.",
    ),
}
_SHARED = (
    " A part is important if the map's sum over its pixels is above a share of its whole sum; of 80 shares from 1 to 50 % that one counts "
    "at which the mean of csdc, preservation_check and deletion_check is largest together with distractibility."
)
for _name, (_title, _words) in _TITLES.items():
    metric(
        _name,
        title=_title,
        family="faithfulness",
        takes=[*(name for name in PART_NEEDS if name != "rival_scores"), "logits", "target"],
        direction="higher",
        source=FUNNYBIRDS,
        description=_words + _SHARED,
        stem="funnybirds",
        parts=_PARTS,
        combine=_at_best_threshold(_name),
        kinds=("image",),
    )(_checks)


@metric(
    "background_independence",
    title="Background independence",
    family="faithfulness",
    takes=["ground_falls", "logits", "target"],
    direction=None,
    source=FUNNYBIRDS,
    parts=("relevant", "things"),
    combine=lambda sums: 1 - sums[..., 0] / sums[..., 1],
    kinds=("image",),
)
def background_independence(ground_falls: Tensor, logits: Tensor, target: Tensor) -> Tensor:
    """Share of the things of the ground without which the class's logit does not fall by a twentieth or more, of all pictures together: it
    says something of the model, and is the same for every map.

    ``ground_falls`` (B, G): the falls of the logit; ``logits`` (B, C) and ``target`` bool (B, C) say what it was. Returns (B, 2): how many
    are relevant, and how many there are.
    """
    relevant = ~_is_irrelevant(ground_falls, _logit(logits, target)) & (ground_falls > 0)
    return torch.stack([relevant.sum(1), torch.full((len(relevant),), relevant.shape[1])], 1).double()


@metric(
    "single_deletion",
    title="Single deletion",
    family="faithfulness",
    takes=["part_scores", "part_falls"],
    direction="higher",
    source=FUNNYBIRDS,
    kinds=("image",),
)
def single_deletion(part_scores: Tensor, part_falls: Tensor) -> Tensor:
    """Spearman's rank correlation of the scores of the parts with the falls of the class's logit without each of them alone, brought from
    -1 to 1 to 0 to 1; no value where all parts have one score, or one fall.

    ``part_scores`` (B, P + 1): the sums over the parts, the last over the whole picture; ``part_falls`` (B, P). Returns (B,).
    """
    pairs = torch.stack([part_scores[:, :-1].double(), part_falls.double()], 1).numpy()
    return torch.tensor([0.5 + 0.5 * rank_correlations(pair)[0, 1] for pair in pairs], dtype=torch.float64)


@metric(
    "target_sensitivity",
    title="Target sensitivity",
    family="faithfulness",
    takes=["rival_scores"],
    direction="higher",
    source=FUNNYBIRDS,
    kinds=("image",),
)
def target_sensitivity(rival_scores: Tensor) -> Tensor:
    """How often the parts that speak for another class score more in its map than in that of a second one, for which they do not speak, and
    the other way round; only pictures count in which the model goes by these parts.

    ``rival_scores`` (B, 2, 2): the scores of the parts of each of the two classes by the maps of each. Returns (B,).
    """
    first = rival_scores[:, 0, 0] > rival_scores[:, 0, 1]
    second = rival_scores[:, 1, 1] > rival_scores[:, 1, 0]
    return (first.double() + second.double()) / 2
