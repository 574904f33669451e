"""Boxes as tensors: their corners, and how far two of them overlap."""

from __future__ import annotations

import torch
from torch import Tensor


def corners_of(boxes: Tensor) -> Tensor:
    """Return x0, y0, x1, y1 (..., 4) of ``boxes`` given by centre, width and height, in float64 and without gradient."""
    centre, size = boxes.detach().double().split(2, -1)
    return torch.cat([centre - size / 2, centre + size / 2], -1)


def overlaps(boxes: Tensor, box: Tensor) -> Tensor:
    """Return for each of ``boxes`` (..., 4) the area that it shares with ``box`` (4,), divided by the area of both together (IoU, from 0 to
    1); 0 where neither has an area. All are corners x0, y0, x1, y1.
    """
    shared = (torch.minimum(boxes[..., 2:], box[2:]) - torch.maximum(boxes[..., :2], box[:2])).clamp(min=0).prod(-1)
    areas, area = (boxes[..., 2:] - boxes[..., :2]).clamp(min=0).prod(-1), (box[2:] - box[:2]).clamp(min=0).prod()
    together = areas + area - shared
    return torch.where(together > 0, shared / together.clamp(min=torch.finfo(together.dtype).tiny), 0.0)
