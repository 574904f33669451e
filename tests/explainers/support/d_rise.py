"""The masks of D-RISE, and how like two boxes are, calculated a second time (Petsiuk et al. 2021), and a small detector."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import nn

import explainers  # noqa: F401  (before transformers)

# isort: split
from transformers import YolosConfig, YolosForObjectDetection

SAMPLES, KEEP, CELLS, SEED, SIZE = 24, 0.5, 4, 3, (64, 96)
SPEC = f"d_rise?samples={SAMPLES}&keep={KEEP}&cells={CELLS}"


def along(side: int) -> np.ndarray[Any, Any]:
    """How much each of the CELLS numbers counts at each pixel of CELLS + 1 cells along a side: linear between the middles of numbers."""
    length = (CELLS + 1) * math.ceil(side / CELLS)
    places = np.clip((np.arange(length) + 0.5) * CELLS / length - 0.5, 0, CELLS - 1)
    return np.clip(1 - np.abs(places[:, None] - np.arange(CELLS)), 0, 1)


def drawn_masks() -> list[np.ndarray[Any, Any]]:
    torch.manual_seed(SEED)
    coarse = (torch.rand(SAMPLES, CELLS, CELLS) < KEEP).double().numpy()
    down, across = (torch.randint(0, math.ceil(side / CELLS), (SAMPLES,)).tolist() for side in SIZE)
    whole = [along(SIZE[0]) @ grid @ along(SIZE[1]).T for grid in coarse]
    return [mask[y : y + SIZE[0], x : x + SIZE[1]] for mask, y, x in zip(whole, down, across, strict=True)]


def like(box: Any, other: Any) -> float:
    (a, p, _), (b, q, is_object) = box, other
    shared = max(min(a[2], b[2]) - max(a[0], b[0]), 0) * max(min(a[3], b[3]) - max(a[1], b[1]), 0)
    iou = shared / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared)
    cosine = sum(s * t for s, t in zip(p, q, strict=True)) / math.hypot(*p) / math.hypot(*q)
    return iou * cosine * is_object


def yolos() -> nn.Module:
    """A detector of three classes with five boxes, in float64, whose weights do not die out."""
    torch.manual_seed(0)
    size = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64, "image_size": list(SIZE)}
    module = YolosForObjectDetection(YolosConfig(**size, num_detection_tokens=5, id2label={0: "dog", 1: "cat", 2: "bird"}))
    for parameter in module.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=parameter[0].numel() ** -0.5)
    return module.double().eval()
