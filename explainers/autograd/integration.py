"""Gradients averaged along the straight path from zero to the input: Integrated Gradients' integral, for one method or for any."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from explainers.autograd.recomputation import NotKept
from explainers.autograd.recording import Recording
from explainers.autograd.rules import Rule
from explainers.autograd.signals import PER_BLOCK, BatchTarget, Signals
from explainers.models.passes import Passes

INNER_BATCH = 16  # inputs in one forward pass on a CPU, which more do not make faster


class Rerun(Protocol):
    """A function that records the model again on the same samples; see :meth:`__call__`."""

    def __call__(self, repeats: int = 1, **how: Any) -> Recording:
        """Record another forward pass of the same samples, each ``repeats`` times in a row; ``how`` are arguments of :class:`Recording`."""


def quadrature(name: str, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the points in 0..1 and the weights of the quadrature ``name`` with ``steps`` points, two arrays (steps,)."""
    if name == "gauss_legendre":
        points, weights = np.polynomial.legendre.leggauss(steps)
        return (points + 1) / 2, weights / 2
    if name == "riemann":
        return np.arange(1, steps + 1) / steps, np.full(steps, 1 / steps)
    points, weights = np.linspace(0, 1, steps), np.full(steps, 1 / steps)
    weights[[0, -1]] /= 2
    return points, weights


def mean_signals(rerun: Rerun, chosen: BatchTarget, rule: Rule, batch: int, steps: int, inner: int) -> Signals:
    """Return the signals of ``rule`` averaged along a path: over the embedded tokens x^1 times a, with a from 0 to 1. Methods that
    integrate gradients use them. ``rerun`` records the ``batch`` samples again, at ``inner`` points at once or, where memory runs out, at
    fewer; ``chosen`` is the target. The average is approximated by Gauss-Legendre quadrature with ``steps`` points.
    """
    points, weights = quadrature("gauss_legendre", steps)

    def signals_of(first: int, number: int) -> Signals:
        alphas, shares = (torch.tensor(values[first : first + number]) for values in (points, weights))
        recording = rerun(number, entry=_scale(alphas.repeat(batch)))
        signals = recording.cached_backward(rule, chosen.repeat(number).output_gradient(recording.logits, rule))
        return _weighted_sum(signals, shares, batch)

    return _sum(list(Passes(inner).run(steps, signals_of)))


def _scale(alphas: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda x: x * alphas.to(x)[:, None, None]


def _weighted_sum(signals: Signals, shares: Tensor, batch: int) -> Signals:
    """Return the sum of ``signals`` over several points of a path, each weighted by its number in ``shares``. The points of one sample are
    consecutive rows; there are ``batch`` samples.
    """

    def mean(signal: Tensor) -> Tensor:
        averaged: Tensor = torch.tensordot(shares.to(signal), signal.unflatten(0, (batch, len(shares))), ([0], [1]))
        return averaged

    return _combine([signals], lambda values: mean(values[0]))


def _sum(parts: list[Signals]) -> Signals:
    """Return the sum of the sets of signals ``parts``, tensor by tensor."""
    signals = _combine(parts, lambda values: torch.stack(values).sum(0))
    return replace(
        signals,
        unruled=frozenset().union(*(part.unruled for part in parts)),
        stopwatches=tuple(watch for part in parts for watch in part.stopwatches),
    )


def _combine(parts: list[Signals], combine: Callable[[list[Tensor]], Tensor]) -> Signals:
    """Apply ``combine`` to the tensors at the same place in several sets of signals, ``parts``; return one set of the results. Fields that
    belong to a single point of the path are left out.
    """

    def whole(values: list[Any]) -> Any:
        if values[0] is None:
            return None
        if isinstance(values[0], NotKept):
            return values[0]
        if isinstance(values[0], tuple):
            return tuple(whole(list(several)) for several in zip(*values, strict=True))
        return combine(values)

    names = (*PER_BLOCK, "pooling", "placed", "bias", "unplaced")
    combined = {name: whole([getattr(part, name) for part in parts]) for name in names}
    return replace(parts[0], **combined, pixels=None, missing=None, errors=None, fields=parts[0].fields - {"pixels"})
