"""Does a map lie on the object it is about? Maps are (rows, columns) of patches, larger for more evidence."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from sklearn.metrics import average_precision_score
from torch import Tensor

from explainers.errors import ExplainerError


def energy(scores: Tensor, cover: Tensor) -> float:
    """The share of a map's positive scores that lies on an object; 0 where no score is positive.

    scores  (rows, columns)
    cover   (rows, columns): the share of each patch that the object covers, 0 to 1

    The energy-based pointing game of Wang et al., Score-CAM, CVPR workshops 2020, on patches in place of pixels.
    """
    positive = scores.double().clamp(min=0)
    total = float(positive.sum())
    return float((positive * cover).sum()) / total if total > 0 else 0.0


def density(scores: Tensor, cover: Tensor) -> float:
    """The positive scores on an object per patch that it covers (arguments as for `energy`). Raises ExplainerError for an empty object."""
    area = float(cover.sum())
    if area <= 0:
        raise ExplainerError("the object covers no part of the image; give a mask that is true somewhere")
    return float((scores.double().clamp(min=0) * cover).sum()) / area


def average_precision(scores: Tensor, mask: Tensor) -> float:
    """The average precision of a map as a segmentation of an object's mask, 0 to 1; noise scores about the share that the mask covers.

    scores  (rows, columns), enlarged bicubically to the size of the mask; no threshold
    mask    bool (height, width), true on the object

    One image's part in LibraGrad's segmentation experiment (Mehri et al., CVPR 2025): the area under precision over recall,
    as a sum of steps. Raises ExplainerError for a mask that is empty, or for scores that are not finite.
    """
    if not bool(mask.any()):
        raise ExplainerError("the mask is empty; give one that is true somewhere")
    if not bool(torch.isfinite(scores).all()):
        raise ExplainerError("the map holds scores that are no numbers")
    large = F.interpolate(scores.float()[None, None], size=tuple(mask.shape), mode="bicubic", align_corners=False)[0, 0]
    return float(average_precision_score(mask.flatten().numpy(), large.flatten().numpy()))
