"""Gradients averaged along the straight path from zero to the input: Integrated Gradients' integral, for one method or for any."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from explainers.autograd.recording import Recording
from explainers.autograd.rules import Rule
from explainers.autograd.signals import Signals

INNER_BATCH = 16  # inputs in one forward pass: bounds memory


class Rerun(Protocol):
    """Records the model again."""

    def __call__(self, repeats: int = 1, **how: Any) -> Recording:
        """Each sample ``repeats`` times in a row; ``how`` is what :class:`Recording` takes."""


class Seeded(Protocol):
    """What a backward pass starts from, for each sample of a batch."""

    def repeat(self, times: int) -> Seeded:
        """The same for a batch in which each sample stands ``times`` times in a row."""

    def output_gradient(self, logits: Tensor, rule: Rule) -> Tensor:
        """What the backward pass begins with at the logits (B, C)."""


def quadrature(name: str, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Points in 0..1 and weights."""
    if name == "gauss_legendre":
        points, weights = np.polynomial.legendre.leggauss(steps)
        return (points + 1) / 2, weights / 2
    if name == "riemann":
        return np.arange(1, steps + 1) / steps, np.full(steps, 1 / steps)
    points, weights = np.linspace(0, 1, steps), np.full(steps, 1 / steps)
    weights[[0, -1]] /= 2
    return points, weights


def mean_signals(rerun: Rerun, chosen: Seeded, rule: Rule, batch: int, steps: int) -> Signals:
    """Every signal of the rule averaged over inputs a x^1, a from 0 to 1: the gradients with which a method is integrated.

    ``rerun`` records the ``batch`` samples again. The integral of each component is approximated by Gauss-Legendre quadrature.
    """
    points, weights = quadrature("gauss_legendre", steps)
    inner = max(1, INNER_BATCH // batch)
    parts = []
    for first in range(0, steps, inner):
        alphas, shares = (torch.tensor(values[first : first + inner]) for values in (points, weights))
        recording = rerun(len(alphas), entry=_scaled(alphas.repeat(batch)))
        signals = recording.signals(rule, chosen.repeat(len(alphas)).output_gradient(recording.logits, rule))
        parts.append(_weighted(signals, shares, batch))
        del recording, signals  # before the next is made: two would need twice the memory
    return _total(parts)


def _scaled(alphas: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda x: x * alphas.to(x)[:, None, None]


def _weighted(signals: Signals, shares: Tensor, batch: int) -> Signals:
    """The weighted sum over the points of one batch, which stand beside each other for each sample."""

    def mean(signal: Tensor) -> Tensor:
        averaged: Tensor = torch.tensordot(shares.to(signal), signal.unflatten(0, (batch, len(shares))), ([0], [1]))
        return averaged

    def means(several: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
        return tuple(None if values is None else mean(values) for values in several)

    return Signals(
        block_inputs=tuple(mean(values) for values in signals.block_inputs),
        block_outputs=tuple(mean(values) for values in signals.block_outputs),
        attentions=means(signals.attentions),
        contexts=means(signals.contexts),
        class_attentions=tuple(mean(values) for values in signals.class_attentions),
        class_contexts=means(signals.class_contexts),
        pooling=None if signals.pooling is None else mean(signals.pooling),
        bias=None if signals.bias is None else mean(signals.bias),
        unplaced=None if signals.unplaced is None else mean(signals.unplaced),
        pixels=None,
        unruled=signals.unruled,
        seconds=signals.seconds,
    )


def _total(parts: list[Signals]) -> Signals:
    def several(name: str) -> tuple[Tensor | None, ...]:
        columns = zip(*(getattr(part, name) for part in parts), strict=True)
        return tuple(None if column[0] is None else torch.stack(column).sum(0) for column in columns)

    def whole(name: str) -> Tensor | None:
        values = [getattr(part, name) for part in parts]
        return None if values[0] is None else torch.stack(values).sum(0)

    return Signals(
        block_inputs=several("block_inputs"),  # type: ignore[arg-type]  # the stream has a signal in every block
        block_outputs=several("block_outputs"),  # type: ignore[arg-type]
        attentions=several("attentions"),
        contexts=several("contexts"),
        class_attentions=several("class_attentions"),  # type: ignore[arg-type]
        class_contexts=several("class_contexts"),
        pooling=whole("pooling"),
        bias=whole("bias"),
        unplaced=whole("unplaced"),
        pixels=None,
        unruled=frozenset().union(*(part.unruled for part in parts)),
        seconds=sum(part.seconds for part in parts),
    )
