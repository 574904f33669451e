"""The outlines of objects as a model saw their picture: cut and resized as the picture was."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from explainers.datasets import AnnotatedObject, Sample
from explainers.datasets.base import Mask
from explainers.models.inputs.types import ImageInput


def explained_mask(sample: Sample, objects: Sequence[AnnotatedObject], record: ImageInput) -> tuple[Tensor, Tensor] | None:
    """Mask of some objects together and what is labelled, bool (1, height, width); None where nothing of them is seen."""
    if sample.image is None or not objects:
        return None
    mask = _crop_mask(np.logical_or.reduce([obj.mask for obj in objects]), record)
    labelled = _crop_mask(sample.labelled, record) if sample.labelled is not None else np.ones_like(mask)
    return (torch.from_numpy(mask)[None], torch.from_numpy(labelled)[None]) if (mask & labelled).any() else None


def other_masks(sample: Sample, objects: Sequence[AnnotatedObject], record: ImageInput) -> Tensor | None:
    """Masks bool (1, K, height, width) of all other objects of the picture; None where none of them is seen."""
    masks = [_crop_mask(obj.mask, record) for obj in sample.objects if obj not in objects]
    visible_masks = [torch.from_numpy(mask) for mask in masks if mask.any()]
    return torch.stack(visible_masks)[None] if visible_masks else None


def _crop_mask(mask: Mask, record: ImageInput) -> Mask:
    """A mask of the original, cut and resized as the picture was; each pixel takes the nearest."""
    picture = Image.fromarray(mask).crop(record.crop).resize(record.seen, Image.Resampling.NEAREST)
    return np.array(picture)
