"""Fill removed pixels of a picture in from their neighbours: the noisy linear imputation of ROAD (Rong et al., ICML 2022)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from explainers.errors import ExplainerError

NOISE = 0.01  # standard deviation of the noise on imputed pixels, as in the paper's code
_SEED = 0
#: Row and column of each of the 8 neighbours of a pixel, and the neighbour's weight: those beside it count twice as much as diagonal ones.
NEIGHBOURS = tuple(
    (row, column, 1 / 6 if 0 in (row, column) else 1 / 12) for row in (-1, 0, 1) for column in (-1, 0, 1) if (row, column) != (0, 0)
)


def imputation_noise(shape: Sequence[int]) -> Tensor:
    """Draw the noise (C, height, width) that is added to imputed pixels of a picture of this ``shape``: the same draws each time."""
    return NOISE * torch.randn(*shape, generator=torch.Generator().manual_seed(_SEED))


def impute_pixels(pixels: Tensor, keep: Tensor, noise: Tensor | None = None) -> Tensor:
    """Replace the pixels of a picture (C, height, width) where ``keep``, bool (height, width), is False, and return it.

    Each removed pixel becomes the weighted mean of its neighbours inside the picture, removed or not: neighbours beside it have the weight
    1/6, diagonal ones 1/12, and at the rim weights are divided by their sum. All removed pixels of a channel are solved for together, in
    float64. ``noise`` (C, height, width) is added where pixels were removed. Raises ExplainerError if no pixel is kept.
    """
    from scipy.sparse import csc_matrix
    from scipy.sparse.linalg import splu

    gone = ~keep.numpy()
    if gone.all():
        raise ExplainerError("No pixel of the picture is kept, so none can be filled in: keep some.")
    if not gone.any():
        return pixels.clone()
    values = pixels.double().numpy().copy()
    height, width = gone.shape
    rows, columns = np.nonzero(gone)
    number = np.full(gone.shape, -1)
    number[rows, columns] = np.arange(len(rows))
    weights, known = np.zeros(len(rows)), np.zeros((len(rows), len(values)))
    unknown: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    for down, right, weight in NEIGHBOURS:
        y, x = rows + down, columns + right
        inside = np.flatnonzero((y >= 0) & (y < height) & (x >= 0) & (x < width))
        y, x = y[inside], x[inside]
        weights[inside] += weight
        is_gone = gone[y, x]
        known[inside[~is_gone]] += weight * values[:, y[~is_gone], x[~is_gone]].T
        unknown.append((np.full(int(is_gone.sum()), -weight), inside[is_gone], number[y[is_gone], x[is_gone]]))
    each = np.arange(len(rows))
    entries, of_rows, of_columns = (np.concatenate(parts) for parts in zip((weights, each, each), *unknown, strict=True))
    values[:, rows, columns] = splu(csc_matrix((entries, (of_rows, of_columns)))).solve(known).T
    if noise is not None:
        values[:, rows, columns] += noise.double().numpy()[:, rows, columns]
    return torch.from_numpy(values).to(pixels)
