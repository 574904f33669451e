"""The place of the samples in a tensor: where relevance of a sum is shared within each sample, this is not always its first axis.

Blocks may add (tokens, samples, width), rows of all samples flattened, or the tokens of one sample alone. Two gradients tell which: of the
second each sample has another multiple of the first, so that their quotient is the sample, at every number that the answer depends on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Size, Tensor

#: How far the quotient of two gradients may be from a whole number.
_MAX_DISTANCE = 0.05


@dataclass(frozen=True)
class SampleAxis:
    """The axis of a tensor along which its ``samples`` lie: each as a stretch of it, or with ``inner`` next to each other again and again.
    ``axis`` None: all of the tensor belongs to one sample.
    """

    samples: int
    axis: int | None = None
    inner: bool = False

    def to_front(self, x: Tensor) -> Tensor:
        """Return ``x`` with its samples along a first axis of their own."""
        if self.axis is None:
            return x.unsqueeze(0)
        parts = (-1, self.samples) if self.inner else (self.samples, -1)
        moved: Tensor = x.unflatten(self.axis, parts).movedim(self.axis + self.inner, 0)
        return moved

    def back(self, x: Tensor) -> Tensor:
        """Undo :meth:`to_front`."""
        if self.axis is None:
            return x.squeeze(0)
        return x.movedim(0, self.axis + self.inner).flatten(self.axis, self.axis + 1)


def _possible(shape: Size, samples: int) -> Iterator[SampleAxis]:
    for axis, size in enumerate(shape):
        if size % samples == 0 and size:
            yield SampleAxis(samples, axis)
    for axis, size in enumerate(shape):
        if size % samples == 0 and size > samples:
            yield SampleAxis(samples, axis, inner=True)
    yield SampleAxis(samples)


def sample_axis_of(gradient: Tensor, multiple: Tensor, samples: int) -> SampleAxis | None:
    """Return where the samples lie in a tensor with this ``gradient``, whose ``multiple`` is that times 1 for the first sample, 2 for the
    second and so on. None if the two do not tell.
    """
    quotient = multiple / gradient
    sample = quotient.round()
    known = (gradient != 0) & ((quotient - sample).abs() <= _MAX_DISTANCE) & (sample >= 1) & (sample <= samples)
    if not bool(known.any()) or float((known.sum() / (gradient != 0).sum()).item()) < 0.9:
        return None
    numbers = torch.arange(1, samples + 1, dtype=sample.dtype, device=sample.device)
    for possible in _possible(gradient.shape, samples):
        of, is_known = possible.to_front(sample), possible.to_front(known)
        if possible.axis is None:
            numbers_of_known = of[is_known]
            if bool((numbers_of_known == numbers_of_known[0]).all()):
                return possible
        elif bool(((of == numbers.view(-1, *[1] * (of.dim() - 1))) | ~is_known).all()):
            return possible
    return None
