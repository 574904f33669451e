"""TextSpan: which of many texts say best how what a head adds differs from picture to picture."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

#: How many directions of a head's output are kept, as in the published code.
RANK = 80


@dataclass(frozen=True, eq=False)
class TextSpan:
    """The ``texts`` chosen for a head, as indices in the bank of texts, in the order of their choice; the ``shares`` of the head's variance
    over the pictures that each one explains; and ``reconstruction`` (pictures, P): the mean plus the head's part along the chosen
    directions.
    """

    texts: tuple[int, ...]
    shares: tuple[float, ...]
    reconstruction: Tensor


def text_span(head: Tensor, texts: Tensor, count: int, rank: int = RANK) -> TextSpan:
    """Choose greedily the ``count`` texts along which a head's output varies most; each one's direction is removed before the next is
    chosen.

    head   (pictures, P): what the head adds to the embedding of each picture
    texts  (T, P) of length 1. They are projected on the first ``rank`` singular directions of ``head``, which are not centred, and not
           scaled to length 1 again: a text that has little to do with the head becomes short, and is not chosen

    Source: Gandelsman, Efros & Steinhardt, ICLR 2024, algorithm 1, as their code has it.
    """
    directions = torch.linalg.svd(head, full_matrices=False).Vh[:rank]
    projected = texts @ directions.mT @ directions
    mean = head.mean(0)
    rest, reconstruction = head - mean, mean.expand_as(head).clone()
    variance = rest.square().sum()
    chosen, shares = [], []
    for _ in range(min(count, len(texts), len(directions))):
        best = int((rest @ projected.mT).std(0).argmax())
        unit = projected[best] / projected[best].norm().clamp_min(torch.finfo(head.dtype).tiny)
        part = torch.outer(rest @ unit, unit)
        chosen.append(best)
        shares.append(float(part.square().sum() / variance.clamp_min(torch.finfo(head.dtype).tiny)))
        rest, reconstruction = rest - part, reconstruction + part
        projected = projected - torch.outer(projected @ unit, unit)
    return TextSpan(tuple(chosen), tuple(shares), reconstruction)
