"""What a map says in numbers: its shares on the object and on the border, its most relevant parts, its steps, its agreement with others."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from explainers.collection.records import LARGEST_INT8
from explainers.datasets import AnnotatedObject, Sample
from explainers.evaluation.explained_classes import ClassLookup
from explainers.evaluation.marked_parts import explained_mask
from explainers.metrics.localisation import energy
from explainers.metrics.rank_correlation import rank_correlations
from explainers.metrics.removal_curves import removal_order
from explainers.models.inputs.types import ImageInput
from explainers.records.result import Attribution, WordScore

TOP_SHARE = 0.1  # of the parts, which are taken away to see whether the answer falls
MIN_RANKED_PARTS = 3  # the rank correlation of two parts is 1 or -1, by chance as by agreement
ONE_PART_SHARE = 0.5  # of a map's evidence on one part, from which the ranks of the others are not compared
THUMBNAIL_SIDE = 96  # pixels of its longer side
JPEG_QUALITY = 80


def part_scores(attribution: Attribution, words: Sequence[WordScore] | None) -> Tensor:
    """Return the score of each part (N,), float32: the patches of a picture in raster order, or the ``words`` of a text."""
    if words is None:
        return attribution.scores[attribution.content].float()
    return torch.tensor([word.score for word in words], dtype=torch.float32)


def quantise(scores: Tensor) -> tuple[list[int], float]:
    """Return scores (N,) in whole steps from -127 to 127, and the size of a step; a map of zeros has steps of size 0."""
    largest = float(scores.abs().max()) if len(scores) else 0.0
    if largest == 0:
        return [0] * len(scores), 0.0
    step = largest / LARGEST_INT8
    steps: list[int] = (scores.double() / step).round().int().tolist()
    return steps, step


def top_parts(scores: Tensor) -> list[int]:
    """Return the tenth of the parts with the largest scores (at least one), the largest first; of equal ones the earlier is first."""
    order: list[int] = removal_order(scores, "most")[: max(1, math.floor(TOP_SHARE * len(scores) + 0.5))].tolist()
    return order


def border_cover(grid: tuple[int, int]) -> Tensor:
    """Return which patches are the outermost of a grid (rows, columns): 1 there, else 0."""
    cover = torch.ones(grid)
    cover[1:-1, 1:-1] = 0
    return cover


def share_on(scores: Tensor, cover: Tensor | None) -> float | None:
    """Return the share of the positive scores that lies under a cover of the same shape, 0 to 1 for each part; None without a cover, and if
    no score is positive.
    """
    return None if cover is None else _finite(energy(scores.view(cover.shape), cover))


def object_cover(sample: Sample, record: object, classes: ClassLookup, answer: int, words: Sequence[WordScore] | None) -> Tensor | None:
    """Return how far the object covers each part of an input, 0 to 1: (rows, columns) of pixels of the picture that the model saw, or (N,)
    of the ``words`` of a text; None if the data mark no object that is visible.

    The objects are those of the class ``answer``, or if there are none, all. In a text they are the words that people marked.
    """
    if words is not None:
        spans = [(0, span) for span in sample.rationale or ()] + [(1, span) for span in sample.pair_rationale or ()]
        marked = [any(word.part == part and word.start < end and start < word.end for part, (start, end) in spans) for word in words]
        return torch.tensor(marked, dtype=torch.float32) if any(marked) else None
    if not sample.objects or not isinstance(record, ImageInput):
        return None
    masks = explained_mask(sample, _objects_of(sample.objects, classes, answer), record)
    return None if masks is None else (masks[0] & masks[1])[0].float()


def _objects_of(objects: Sequence[AnnotatedObject], classes: ClassLookup, answer: int) -> Sequence[AnnotatedObject]:
    """Return the objects of the class with the index ``answer``; all of them if it has none."""
    return [each for each in objects if each.label is not None and answer in classes.classes_of(each.label)] or objects


def on_parts(cover: Tensor | None, grid: tuple[int, int] | None) -> Tensor | None:
    """Return the share of each patch, (rows, columns) = ``grid``, that the ``cover`` of pixels (height, width) covers. Without a grid, as
    for words, return ``cover`` unchanged, also None.
    """
    if cover is None or grid is None:
        return cover
    shares: Tensor = F.adaptive_avg_pool2d(cover[None], grid)[0]
    return shares


def agreements(maps: Sequence[Tensor]) -> tuple[float | None, list[float | None]]:
    """Return the mean Spearman's rank correlation of every two maps, (N,) each, and that of each map with the others.

    None where there are no two maps to compare, or where ranks say nothing: with fewer than :data:`MIN_RANKED_PARTS` parts, or where all
    maps put most of their evidence on the same part, and what is ranked below it is nearly zero in each. A map with one score throughout
    counts in no mean.
    """
    if len(maps) < 2 or len(maps[0]) < MIN_RANKED_PARTS or _rest_on_one_part(maps):
        return None, [None] * len(maps)
    correlations = rank_correlations(np.stack([scores.double().numpy() for scores in maps]))
    np.fill_diagonal(correlations, np.nan)
    return _mean(correlations), [_mean(row) for row in correlations]


def _rest_on_one_part(maps: Sequence[Tensor]) -> bool:
    """Return whether one part holds at least :data:`ONE_PART_SHARE` of the sum of the scores' sizes in each of ``maps``, (N,) each."""
    tops = {int(scores.abs().argmax()) for scores in maps}
    return len(tops) == 1 and all(float(scores.abs().max()) >= ONE_PART_SHARE * float(scores.abs().sum()) > 0 for scores in maps)


def _mean(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else None


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def thumbnail(sample: Sample, record: ImageInput) -> bytes | None:
    """Return a JPEG file of the part of the sample's picture that the model saw, at most 96 pixels wide and high; None for a text."""
    if sample.image is None:
        return None
    crop = sample.image.convert("RGB").crop(record.crop)
    scale = THUMBNAIL_SIDE / max(crop.size)
    small = crop.resize((max(1, round(crop.width * scale)), max(1, round(crop.height * scale))))
    file = io.BytesIO()
    small.save(file, "JPEG", quality=JPEG_QUALITY)
    return file.getvalue()
