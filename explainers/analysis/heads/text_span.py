"""TextSpan: which of many texts say best how what a head adds differs from picture to picture."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

#: How many directions of a head's output are kept, as in the published code.
RANK = 80


@dataclass(frozen=True, eq=False)
class TextSpan:
    """The ``texts`` chosen for a head, as places in the bank, in order; ``shares`` of the head's variance over the pictures that the
    direction of each takes away, and ``reconstruction`` (pictures, P): the mean, and what lies along the chosen directions.
    """

    texts: tuple[int, ...]
    shares: tuple[float, ...]
    reconstruction: Tensor


def text_span(head: Tensor, texts: Tensor, count: int, rank: int = RANK) -> TextSpan:
    """Greedily the ``count`` texts along which what a head adds varies most, each direction taken away before the next is chosen.

    head   (pictures, P): what the head adds to the embedding of each picture
    texts  (T, P) of length 1. They are projected on the first ``rank`` singular directions of ``head``, which are not centred, and keep
           the length that is left: a text of which the head says little is short, and not chosen

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
