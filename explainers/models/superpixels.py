"""Superpixels of a picture, by SLIC of scikit-image."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import torch
from torch import Tensor

from explainers.errors import NotInstalledError
from explainers.installation import not_installed


def can_find_superpixels() -> bool:
    """Return whether scikit-image, which finds superpixels, is installed."""
    return find_spec("skimage") is not None


def find_superpixels(pixels: Tensor, count: int) -> Tensor:
    """Cut a picture, ``pixels`` (C, height, width), into about ``count`` superpixels: connected regions of like colour. Return the
    superpixel of each pixel, int64 (height, width), numbered from 0 without gaps. SLIC takes ``count`` for a wish.

    The values, usually normalised, are scaled here to run from 0 to 1. Raises NotInstalledError without scikit-image.

    Source: Achanta et al., SLIC Superpixels Compared to State-of-the-art Superpixel Methods, TPAMI 2012, in scikit-image's version.
    """
    try:
        from skimage.segmentation import slic
    except ImportError:
        raise NotInstalledError(not_installed("Superpixels need the package scikit-image", "segments")) from None
    low, high = pixels.amin(), pixels.amax()
    picture = ((pixels - low) / (high - low).clamp(min=torch.finfo(pixels.dtype).tiny)).permute(1, 2, 0).double().cpu().numpy()
    labels = torch.from_numpy(slic(picture, n_segments=count, start_label=0, channel_axis=-1).astype(np.int64))
    numbered: Tensor = labels.unique(return_inverse=True)[1]
    return numbered


def sum_over_superpixels(scores: Tensor, superpixels: Tensor) -> Tensor:
    """Sum ``scores`` (..., height, width) of pixels over the pixels of each of K superpixels, int64 (height, width); return (..., K)."""
    count = int(superpixels.max()) + 1
    sums = torch.zeros(*scores.shape[:-2], count, dtype=scores.dtype)
    return sums.index_add(-1, superpixels.flatten(), scores.flatten(-2))
