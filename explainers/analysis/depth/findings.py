"""The four findings of a model's depth: what its parts are worth, how heads differ, who reads whom, and whether methods agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from explainers.analysis.depth.asker import Asker, Batch
from explainers.analysis.depth.block_calls import Part
from explainers.analysis.depth.estimate import Estimate
from explainers.analysis.depth.isolation import IsolatedTokens, allowed_keys
from explainers.analysis.depth.records import (
    AgreementFinding,
    DepthOfPart,
    HeadsFinding,
    HeadsOfBlock,
    PartsFinding,
    ReadingFinding,
    Verdict,
)
from explainers.analysis.depth.replacement import MeanOutputs
from explainers.analysis.depth.sentences import say_agreement, say_heads, say_parts, say_reading
from explainers.metrics.rank_correlation import rank_correlations

NEGLIGIBLE_SHARE = 0.01  # of the rise that all parts together make: a part whose interval lies within it may be idle
ROUNDING_NATS = 1e-4  # a rise up to this is rounding
MIN_KEYS = 3  # a query with fewer keys says nothing about how alike two heads are
Losses = NDArray[np.float64]


class PartLosses:
    """The losses of all inputs, with parts of the model replaced by their mean outputs, ``means``. ``intact`` are the losses of the whole
    model; each set of parts is measured once.

    ``plan`` is told how many passes will follow.
    """

    def __init__(self, means: MeanOutputs, intact: Losses, plan: Callable[[int], None] = lambda passes: None) -> None:
        self._means, self.intact, self._plan = means, intact, plan
        self._known: dict[frozenset[Part], Losses] = {frozenset(): intact}

    def without(self, parts: Collection[Part]) -> Losses:
        """Return the loss of each input when these parts are replaced by their mean output."""
        key = frozenset(parts)
        if key not in self._known:
            self._known[key] = self._means.losses(key)
        return self._known[key]

    def rise(self, parts: Collection[Part], also: Collection[Part] = ()) -> Estimate:
        """Estimate how much the loss rises, on average over the inputs, when ``parts`` of the model are replaced in addition to those in
        ``also``.
        """
        return Estimate.of(self.without({*parts, *also}) - self.without(also))

    def idle(self, rises: dict[Part, Estimate], together: Estimate) -> list[Part]:
        """Return the parts whose replacement never raises the loss: neither alone, nor with all other such parts, nor with the neighbour
        replaced.

        A large model survives the loss of almost any one part, since others stand in for it. So that the interval of a part holds 0 is not
        enough: it has to lie within a hundredth of what all parts together change, and no other removal may show the part at work.
        ``rises`` are the rises of the loss without each part, ``together`` that without all parts.
        """
        if together.low <= ROUNDING_NATS:
            return []
        most = NEGLIGIBLE_SHARE * together.value
        quiet = [part for part, rise in rises.items() if rise.low <= ROUNDING_NATS and -most < rise.low and rise.high < most]
        self._plan(2 * len(quiet) + 1)
        return [part for part in quiet if not any(self._is_at_work(part, group) for group in (quiet, _neighbour(part, rises)))]

    def _is_at_work(self, part: Part, group: Sequence[Part]) -> bool:
        others = [other for other in group if other is not part]
        return bool(others) and self.rise([part], others).low > ROUNDING_NATS


def _neighbour(part: Part, parts: Collection[Part]) -> list[Part]:
    """Return a list with the one of ``parts`` that is of the same kind as ``part`` and in the nearest other block, the one before if there
    is one; an empty list where there is none.
    """
    others = [other for other in parts if other.kind == part.kind and other.block != part.block]
    return [min(others, key=lambda other: (abs(other.block - part.block), other.block))] if others else []


def measure_parts(losses: PartLosses, parts: Sequence[Part], inputs: int) -> PartsFinding:
    """Measure how much the loss rises without each of ``parts``, without all attention, without all MLPs and without all parts; return the
    finding. ``losses`` holds the losses of a model with parts replaced, on a number of ``inputs``.
    """
    rises = {part: losses.rise([part]) for part in parts}
    kinds = {kind: [part for part in parts if part.kind == kind] for kind in ("attention", "mlp")}
    attention, mlps = (losses.rise(of_kind) if of_kind else None for of_kind in kinds.values())
    together = losses.rise(parts)
    idle = losses.idle(rises, together)
    measured = tuple(DepthOfPart(part.name, part.block, part.kind, rise, _verdict(rise, part in idle)) for part, rise in rises.items())
    return PartsFinding(say_parts(measured, attention, together, inputs), measured, attention, mlps, together)


def _verdict(rise: Estimate, is_idle: bool) -> Verdict:
    if is_idle:
        return "idle"
    if rise.low > ROUNDING_NATS:
        return "needed"
    return "better_without" if rise.high < -ROUNDING_NATS else "undecided"


def head_similarities(attention: Tensor) -> float:
    """Return how alike the heads with attention weights (H, S, S) are: the correlation of two heads' rows, averaged over rows and pairs of
    heads.

    Keys that no head may read, such as later words in a causal model, are left out.
    """
    weights = attention.double()
    is_read = (weights > 0).any(0)  # (S, S)
    count = is_read.sum(-1)
    mean = (weights * is_read).sum(-1) / count.clamp(min=1)
    centred = (weights - mean[..., None]) * is_read
    sizes = centred.square().sum(-1).sqrt()
    products = torch.einsum("hqk,gqk->qhg", centred, centred)
    correlations = products / (sizes.T[:, :, None] * sizes.T[:, None, :])
    first, second = torch.triu_indices(len(weights), len(weights), 1)
    values = correlations[count >= MIN_KEYS][:, first, second]
    return float(values[values.isfinite()].mean())


def measure_heads(attentions: Sequence[Sequence[Tensor]]) -> HeadsFinding:
    """Measure how alike the heads of each block are, from the attention weights (H, S, S) of every block for each input; return the
    finding.
    """
    blocks = []
    for block, of_block in enumerate(zip(*attentions, strict=True)):
        heads = len(of_block[0])
        similarity = Estimate.of([head_similarities(each) for each in of_block]) if heads > 1 else None
        blocks.append(HeadsOfBlock(block, heads, None if similarity is None or similarity.count < 2 else similarity))
    return HeadsFinding(say_heads(blocks), tuple(blocks))


class NotMasked(Exception):
    """Raised if a pass computed the attention of some block in a way that could not be masked."""


def isolated_answers(asker: Asker, readers: Callable[[Batch], Tensor | None]) -> list[Tensor]:
    """Return the logits of each batch of ``asker`` when no patch or word may read another. ``readers`` returns the index (B,) of the token
    that the head reads. Raises NotMasked if an attention could not be masked.
    """
    modes = list[IsolatedTokens]()

    def isolating(batch: Batch) -> AbstractContextManager[Any]:
        assert batch.content is not None
        modes.append(IsolatedTokens(batch.model, allowed_keys(batch.content, readers(batch))))
        return modes[-1].over_blocks()

    logits = asker.logits(isolating)
    if any(mode.blocks != set(range(len(mode.model.blocks))) for mode in modes):
        raise NotMasked
    return logits


def measure_reading(stays: NDArray[np.bool_], answers: Sequence[Any], unit: str) -> ReadingFinding:
    """Measure in which share of inputs the answer ``stays`` the same when no patch or word reads another; ``answers`` are the intact
    answers, ``unit`` is what the inputs are called. Returns the finding.
    """
    stay = Estimate.of_share(int(stays.sum()), len(stays))
    chance = max(Counter(answers).values()) / len(answers)
    return ReadingFinding(say_reading(stay, chance, unit), stay, chance)


def median_agreement(maps: NDArray[np.float64]) -> float:
    """Return the median rank correlation over the pairs of several maps (methods, tokens); NaN if all maps are constant."""
    values = rank_correlations(maps)[np.triu_indices(len(maps), 1)]
    return float(np.median(values[np.isfinite(values)])) if np.isfinite(values).any() else float("nan")


def measure_agreement(methods: Sequence[str], medians: Sequence[float]) -> AgreementFinding:
    """Measure how alike the maps of these ``methods`` are, from ``medians``, the median rank correlation for each input; return the
    finding.
    """
    correlation = Estimate.of(medians)
    if correlation.count < 2:
        return AgreementFinding("Agreement was not measured: the maps have one score throughout.", tuple(methods))
    return AgreementFinding(say_agreement(correlation, len(methods)), tuple(methods), correlation)
