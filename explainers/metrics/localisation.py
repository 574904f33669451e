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


def grid_pointing(scores: Tensor, cell: tuple[int, int], cells: tuple[int, int] = (2, 2)) -> float:
    """The share of a map's positive scores that lies in one cell of a mosaic of pictures; 0 where no score is positive.

    scores  (rows, columns), explaining what only the picture in that cell shows
    cell    its row and column
    cells   rows and columns of the mosaic

    The localisation metric of Boehle et al., "Convolutional Dynamic Alignment Networks", CVPR 2021; chance is one in the number of cells.
    Raises ExplainerError where cells don't fall on whole patches, or there is no such cell.
    """
    if any(length % count for length, count in zip(scores.shape, cells, strict=True)):
        raise ExplainerError(f"a map of {tuple(scores.shape)} patches does not divide into {cells} cells")
    if not all(0 <= place < count for place, count in zip(cell, cells, strict=True)):
        raise ExplainerError(f"a mosaic of {cells} cells has no cell {cell}")
    height, width = (length // count for length, count in zip(scores.shape, cells, strict=True))
    cover = torch.zeros_like(scores)
    cover[cell[0] * height : (cell[0] + 1) * height, cell[1] * width : (cell[1] + 1) * width] = 1
    return energy(scores, cover)


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
