"""Localisation: whether a map lies on the object it is about. Maps are (rows, columns) of patches, larger for more evidence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from explainers.errors import ExplainerError
from explainers.metrics.registry import metric
from explainers.papers import CHEFER, ENERGY, GRID, LIBRAGRAD, POINTING, ROC


def energy(scores: Tensor, cover: Tensor) -> float:
    """Return the share of a map's positive scores that lies on an object; NaN if no score is positive.

    scores  (rows, columns)
    cover   (rows, columns): the share of each patch that the object covers, 0 to 1

    The energy-based pointing game of Wang et al., Score-CAM, CVPR workshops 2020, on patches in place of pixels.
    """
    positive = scores.double().clamp(min=0)
    total = float(positive.sum())
    return float((positive * cover).sum()) / total if total > 0 else float("nan")


def density(scores: Tensor, cover: Tensor) -> float:
    """Return the positive scores on an object per patch that it covers (arguments as for `energy`). Raises ExplainerError for an empty
    object.
    """
    area = float(cover.sum())
    if area <= 0:
        raise ExplainerError("the object covers no part of the image; give a mask that is true somewhere")
    return float((scores.double().clamp(min=0) * cover).sum()) / area


def grid_pointing(scores: Tensor, cell: tuple[int, int], cells: tuple[int, int] = (2, 2)) -> float:
    """Return the share of a map's positive scores that lies in one cell of a mosaic of pictures; NaN if no score is positive.

    scores  map (rows, columns) of the mosaic for a class that only the picture in one cell shows
    cell    row and column of that cell, from 0
    cells   number of rows and of columns of the mosaic

    The localisation metric of Boehle et al., "Convolutional Dynamic Alignment Networks", CVPR 2021; chance is one in the number of cells.
    Raises ExplainerError if the cells do not consist of whole patches, or if there is no such cell.
    """
    if any(length % count for length, count in zip(scores.shape, cells, strict=True)):
        raise ExplainerError(f"a map of {tuple(scores.shape)} patches does not divide into {cells} cells")
    if not all(0 <= index < count for index, count in zip(cell, cells, strict=True)):
        raise ExplainerError(f"a mosaic of {cells} cells has no cell {cell}")
    height, width = (length // count for length, count in zip(scores.shape, cells, strict=True))
    cover = torch.zeros_like(scores)
    cover[cell[0] * height : (cell[0] + 1) * height, cell[1] * width : (cell[1] + 1) * width] = 1
    return energy(scores, cover)


def average_precision(scores: Tensor, mask: Tensor) -> float:
    """Return the average precision of a map as a segmentation of an object's mask, 0 to 1; noise scores about the share that the mask
    covers.

    scores  (rows, columns), enlarged bicubically to the size of the mask; no threshold
    mask    bool (height, width), true on the object

    One image's part in LibraGrad's segmentation experiment (Mehri et al., CVPR 2025): the area under precision over recall,
    as a sum of steps. Raises ExplainerError for a mask that is empty, or for scores that are not finite.
    """
    if not bool(mask.any()):
        raise ExplainerError("the mask is empty; give one that is true somewhere")
    if not bool(torch.isfinite(scores).all()):
        raise ExplainerError("the map holds scores that are no numbers")
    from sklearn.metrics import average_precision_score

    large = F.interpolate(scores.float()[None, None], size=tuple(mask.shape), mode="bicubic", align_corners=False)[0, 0]
    return float(average_precision_score(mask.flatten().numpy(), large.flatten().numpy()))


@metric(
    "ap", title="Segmentation AP", family="localisation", takes=["maps", "mask"], direction="higher", source=LIBRAGRAD, kinds=("image",)
)
def segmentation_ap(maps: Tensor, mask: Tensor) -> Tensor:
    """Average precision of the map, enlarged bicubically and without a threshold, against the object's mask.

    ``maps`` (B, rows, columns); ``mask`` bool (B, height, width): where the object is. Returns (B,).
    """
    return torch.tensor(
        [average_precision(scores, object_mask) for scores, object_mask in zip(maps, mask, strict=True)], dtype=torch.float64
    )


COVERED = 0.5  # of a patch that counts as one of the object's


def covered_patches(mask: Tensor, grid: tuple[int, int]) -> Tensor:
    """Return which patches of a grid (rows, columns) an object covers by half or more: bool (B, rows, columns), from masks (B, height,
    width).
    """
    return F.adaptive_avg_pool2d(mask[:, None].double(), grid)[:, 0] >= COVERED


def _patch_scores(measure: Callable[[NDArray[Any], NDArray[Any]], float], maps: Tensor, mask: Tensor) -> Tensor:
    """Return ``measure`` (B,) of the patch scores of each of ``maps`` (B, rows, columns) against the patches that the object in ``mask``
    (height, width) covers by half or more; NaN if there are no such patches, or no others.
    """
    covers = covered_patches(mask, (maps.shape[1], maps.shape[2]))
    values = [
        float(measure(cover.flatten().numpy(), scores.flatten().double().numpy())) if 0 < cover.sum() < cover.numel() else float("nan")
        for scores, cover in zip(maps, covers, strict=True)
    ]
    return torch.tensor(values, dtype=torch.float64)


@metric("patch_ap", title="Patch AP", family="localisation", takes=["maps", "mask"], direction="higher", source=LIBRAGRAD, kinds=("image",))
def patch_ap(maps: Tensor, mask: Tensor) -> Tensor:
    """Average precision of the scores of patches in finding the patches that the object covers by half or more: segmentation AP without
    enlarging the map, for objects that lie on whole patches.

    ``maps`` (B, rows, columns); ``mask`` bool (B, height, width): where the object is. Returns (B,).
    """
    from sklearn.metrics import average_precision_score

    return _patch_scores(average_precision_score, maps, mask)


@metric("patch_auc", title="Patch AUC", family="localisation", takes=["maps", "mask"], direction="higher", source=ROC, kinds=("image",))
def patch_auc(maps: Tensor, mask: Tensor) -> Tensor:
    """The probability that a random patch of the object has a larger score than a random patch outside, ties counted half: the area under
    the ROC curve. A patch belongs to the object if at least half of it is covered. A random map has 0.5.

    ``maps`` (B, rows, columns); ``mask`` bool (B, height, width): where the object is. Returns (B,).
    """
    from sklearn.metrics import roc_auc_score

    return _patch_scores(roc_auc_score, maps, mask)


@metric(
    "own_object",
    title="Explained object lit most",
    family="localisation",
    takes=["maps", "mask", "others"],
    direction="higher",
    kinds=("image",),
)
def own_object(maps: Tensor, mask: Tensor, others: Tensor) -> Tensor:
    """The share of maps with more positive score per covered patch on the explained object than on any other object of the picture. Where
    each of two objects is explained in turn, a map that is the same for both does so half of the time. A map without a positive score has
    no value.

    ``maps`` (B, rows, columns); ``mask`` bool (B, height, width): the explained object; ``others`` bool (B, K, height, width). Returns
    (B,), 0, 1 or not a number.
    """
    size = (maps.shape[1], maps.shape[2])
    covers = F.adaptive_avg_pool2d(torch.cat([mask[:, None], others], 1).double(), size)
    densities = torch.tensor([[density(scores, cover) for cover in row] for scores, row in zip(maps, covers, strict=True)])
    return torch.where(maps.amax((1, 2)) > 0, (densities[:, 0] > densities[:, 1:].amax(1)).double(), torch.nan)


@metric("energy", title="Energy inside", family="localisation", takes=["maps", "mask"], direction="higher", source=ENERGY, kinds=("image",))
def energy_inside(maps: Tensor, mask: Tensor) -> Tensor:
    """The share of the map's positive scores that lies on the object. A map without a positive score has no value: it is left out of the
    mean.

    ``maps`` (B, rows, columns); ``mask`` bool (B, height, width): where the object is. Returns (B,).
    """
    covers = F.adaptive_avg_pool2d(mask[:, None].double(), (maps.shape[1], maps.shape[2]))[:, 0]
    return torch.tensor([energy(scores, cover) for scores, cover in zip(maps, covers, strict=True)], dtype=torch.float64)


@metric(
    "energy_ratio",
    title="Energy inside over the object's share",
    family="localisation",
    takes=["maps", "mask"],
    direction="higher",
    source=ENERGY,
    highest=None,
    unit="number",
    kinds=("image",),
)
def energy_ratio(maps: Tensor, mask: Tensor) -> Tensor:
    """The share of the map's positive scores that lies on the object, over the share of the picture that the object covers; a map with the
    same positive score everywhere has 1, one without a positive score no value.

    ``maps`` (B, rows, columns); ``mask`` bool (B, height, width): where the object is. Returns (B,).
    """
    return energy_inside(maps, mask) / mask.double().mean((1, 2))


@metric(
    "pointing", title="Pointing game", family="localisation", takes=["maps", "mask"], direction="higher", source=POINTING, kinds=("image",)
)
def pointing(maps: Tensor, mask: Tensor, tolerance: int = 0) -> Tensor:
    """The share of maps whose largest value, after bilinear enlarging, lies on the object.

    ``maps`` (B, rows, columns); ``mask`` bool (B, height, width): where the object is. Returns (B,), 0 or 1.

    With a ``tolerance`` a hit is also what lies so many pixels from the object; Zhang et al. allow 15. A map with one score throughout
    points nowhere and misses.
    """
    large = _enlarge(maps, mask)
    highest = large.flatten(1).argmax(1)
    near = mask.double()[:, None]
    if tolerance:
        offset = torch.arange(-tolerance, tolerance + 1)
        disc = (offset[:, None] ** 2 + offset**2 <= tolerance**2).double()
        near = F.conv2d(near, disc[None, None], padding=tolerance)
    hits = near.flatten(1).gather(1, highest[:, None])[:, 0] > 0.5
    return (hits & ~_is_constant(maps)).double()


@metric(
    "grid_pointing", title="Grid pointing", family="localisation", takes=["maps", "cell"], direction="higher", source=GRID, kinds=("image",)
)
def mosaic_pointing(maps: Tensor, cell: Tensor) -> Tensor:
    """In a mosaic of four pictures, the share of the map's positive scores that lies in the picture of the explained class. A map without a
    positive score has no value.

    ``maps`` (B, rows, columns); ``cell`` (B, 2): row and column of that picture. Returns (B,).
    """
    cells = [(int(row), int(column)) for row, column in cell]
    return torch.tensor([grid_pointing(scores, place) for scores, place in zip(maps, cells, strict=True)], dtype=torch.float64)


def _enlarge(maps: Tensor, mask: Tensor) -> Tensor:
    """Return maps (B, rows, columns) enlarged bilinearly to the size of the masks (B, height, width), in float64."""
    return F.interpolate(maps.double()[:, None], size=tuple(mask.shape[-2:]), mode="bilinear", align_corners=False)[:, 0]


def _from_0_to_1(maps: Tensor, mask: Tensor) -> Tensor:
    """Enlarge ``maps`` (B, rows, columns) to the size of ``mask``, scale each from 0 to 1, and return them, float64 (B, height, width); a
    map with a single score is 0 throughout.
    """
    large = _enlarge(maps, mask)
    low, high = large.amin((1, 2), keepdim=True), large.amax((1, 2), keepdim=True)
    return torch.where(_is_constant(maps)[:, None, None], 0.0, (large - low) / (high - low))


def _is_constant(maps: Tensor) -> Tensor:
    """Return which maps (B, rows, columns) have the same score at every patch, bool (B,); read before enlarging, which rounds."""
    return maps.amax((1, 2)) == maps.amin((1, 2))


def _above_mean(maps: Tensor, mask: Tensor) -> Tensor:
    """Return Chefer et al.'s segmentation by ``maps`` (B, rows, columns), bool (B, height, width) in the size of ``mask``: the pixels
    strictly above the mean of the enlarged map.
    """
    large = _from_0_to_1(maps, mask)
    return large > large.mean((1, 2), keepdim=True)


_SEGMENTS = ["maps", "mask", "labelled"]


@metric(
    "pixel_accuracy",
    title="Pixel accuracy",
    family="localisation",
    takes=_SEGMENTS,
    direction="higher",
    source=CHEFER,
    parts=("correct", "labelled"),
    combine=lambda sums: sums[..., 0] / sums[..., 1],
    kinds=("image",),
)
def pixel_accuracy(maps: Tensor, mask: Tensor, labelled: Tensor) -> Tensor:
    """The share of all labelled pixels of the data set that are correctly called object or background; object is what is above the map's
    mean.

    ``maps`` (B, rows, columns); ``mask`` and ``labelled`` bool (B, height, width): the object's pixels, and those with a label. Returns (B,
    2): pixels told right, and labelled ones.
    """
    right = (_above_mean(maps, mask) == mask) & labelled
    return torch.stack([right.sum((1, 2)), labelled.sum((1, 2))], 1).double()


@metric(
    "miou",
    title="mIoU",
    family="localisation",
    takes=_SEGMENTS,
    direction="higher",
    source=CHEFER,
    parts=("object_shared", "object_joined", "ground_shared", "ground_joined"),
    combine=lambda sums: (sums[..., 0] / sums[..., 1] + sums[..., 2] / sums[..., 3]) / 2,
    kinds=("image",),
)
def mean_iou(maps: Tensor, mask: Tensor, labelled: Tensor) -> Tensor:
    """Mean of two ratios of intersection to union, one for the object and one for the background; pixels are summed over the data set.

    ``maps`` (B, rows, columns); ``mask`` and ``labelled`` bool (B, height, width): the object's pixels, and those with a label. Returns (B,
    4): pixels of intersection and union, of object and of background.
    """
    inside = _above_mean(maps, mask)
    pairs = [(inside, mask), (~inside, ~mask)]
    return torch.stack([(x & labelled).sum((1, 2)) for a, b in pairs for x in (a & b, a | b)], 1).double()


@metric("map", title="mAP", family="localisation", takes=_SEGMENTS, direction="higher", source=CHEFER, kinds=("image",))
def mean_ap(maps: Tensor, mask: Tensor, labelled: Tensor) -> Tensor:
    """Average precision of the map and of its complement together, as the scores of object and background of every pixel. A map with one
    score throughout gives neither a score, as in the published code, and so has 0.5.

    ``maps`` (B, rows, columns); ``mask`` and ``labelled`` bool (B, height, width): the object's pixels, and those with a label. Returns
    (B,).
    """
    from sklearn.metrics import average_precision_score

    values = []
    for large, flat, object_mask, known in zip(_from_0_to_1(maps, mask), _is_constant(maps), mask, labelled, strict=True):
        scores, truth = large[known], object_mask[known]
        ground = scores if flat else 1 - scores  # else an empty map would be a sure vote for background
        both = torch.cat([truth, ~truth]).numpy(), torch.cat([scores, ground]).numpy()
        values.append(float(average_precision_score(*both)))
    return torch.tensor(values, dtype=torch.float64)
