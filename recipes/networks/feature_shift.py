"""Features of pictures moved towards classes that few photos show, and what the teacher says of them.

Photos without labels show some of ImageNet's classes often and most of them never: a student that sees nothing else forgets the rest.
But what the teacher does with the last features of the trunk is known, so it can be asked about features that no photo has. They are
moved the way in which features vary from photo to photo: as far as these are Gaussian, to where they most likely are when the
class's logit is so much higher.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from recipes.networks.trunk import FAST_DTYPE, Seen, Teacher

MOVED_SHARE = 0.5  # share of a batch's pictures that are moved
LOGIT_RISE = (2.0, 14.0)  # least and greatest rise of the class's logit


class Mover:
    """A function that changes features of pictures so that they look more like those of a given class. The directions in which features
    vary are learned from ``batches``; what each class reads is known from ``teacher``.
    """

    def __init__(self, teacher: Teacher, batches: list[Seen]) -> None:
        self.weight, self.bias = teacher.head[0].weight[:, :, 0, 0].detach(), teacher.head[0].bias.detach()
        self.moved = slice(self.weight.shape[1])  # the last features; the early ones that follow stay
        tokens = torch.cat([batch.tokens[:, ::7, self.moved].float().flatten(0, 1) for batch in batches])
        self.spread = torch.cov(tokens.T).to(FAST_DTYPE)
        self.classifier = teacher.classifier.weight.detach()
        self.basis, self.centre = teacher.basis, teacher.centre

    @torch.no_grad()
    def __call__(self, batch: Seen, rng: np.random.Generator, first: int | None = None) -> Seen:
        """Return ``batch`` with the features in a rectangle of a random half of its pictures moved towards a random class each, all drawn
        by ``rng``. If ``first`` is given, only the first ``first`` pictures are changed.
        """
        number, places = len(batch.tokens) if first is None else first, batch.tokens.shape[1]
        rows = torch.from_numpy(rng.permutation(number)[: round(MOVED_SHARE * number)])
        old = batch.tokens[rows][..., self.moved].to(FAST_DTYPE)
        before = old @ self.weight.T + self.bias
        wanted = self.classifier[torch.from_numpy(rng.integers(len(self.classifier), size=len(rows)))].to(FAST_DTYPE)
        slope = (wanted[:, None] * ((before > 0) & (before < 6))) @ self.weight
        step = slope @ self.spread
        region = rectangles(rng, len(rows), math.isqrt(places))[..., None]
        gain = (slope.float() * step.float() * region).sum((1, 2), keepdim=True) / places
        rise = torch.from_numpy(rng.uniform(*LOGIT_RISE, (len(rows), 1, 1)).astype(np.float32))
        tokens = (old + rise / gain.clamp(min=1e-4) * step * region).to(FAST_DTYPE)
        change = (tokens @ self.weight.T + self.bias).clamp(0, 6) - before.clamp(0, 6)
        moved = Seen(*(part.clone() for part in batch))
        moved.tokens[rows, :, self.moved] = tokens.half()
        moved.local[rows] += (change @ self.basis.to(FAST_DTYPE).T).half()
        moved.logits[rows] += (change.float().mean(1) @ self.classifier.T).half()
        return moved


def rectangles(rng: np.random.Generator, number: int, grid: int) -> Tensor:
    """Draw ``number`` random rectangles by ``rng`` in a square grid of side ``grid`` as masks (number, grid * grid): 1 inside, 0 outside,
    at least a third as wide and tall as the grid.
    """
    least = math.ceil(grid / 3)
    sizes = rng.integers(least, grid + 1, (2, number, 1))
    starts = (rng.random((2, number, 1)) * (grid - sizes + 1)).astype(int)
    places = np.arange(grid)
    tall, wide = ((places >= starts) & (places < starts + sizes)).astype(np.float32)
    return torch.from_numpy(tall[:, :, None] * wide[:, None, :]).flatten(1)
