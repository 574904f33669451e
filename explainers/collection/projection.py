"""Two principal components of the vectors of a collection, which are read from the disk some at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
MAX_WIDTH = 4096  # numbers of a vector: the covariance of longer ones would take more than 134 MB


def principal_components(batches: Callable[[], Iterable[Vectors]]) -> NDArray[np.float32] | None:
    """Return the first two principal components of N vectors, (N, 2) float32, each with the sign by which its largest value is positive.

    ``batches`` is called twice and yields the vectors (n, D) in order; one batch is in memory with the covariance (D, D). Vectors of
    NaN, which are not known, stay NaN. None if there are fewer than two directions, fewer than three vectors or more than 4,096 numbers in
    one.
    """
    count, total, products = 0, np.zeros(0), np.zeros((0, 0))
    for batch in batches():
        known = batch[~np.isnan(batch).any(axis=1)].astype(np.float64)
        width = batch.shape[1]
        if width > MAX_WIDTH or width < 2:
            return None
        if not len(total):
            total, products = np.zeros(width), np.zeros((width, width))
        count += len(known)
        total += known.sum(axis=0)
        products += known.T @ known
    if count < 3:
        return None
    mean = total / count
    values, vectors = np.linalg.eigh(products / count - np.outer(mean, mean))
    axes = vectors[:, [-1, -2]]
    if values[-2] <= max(values[-1], 0) * 1e-12:
        return None
    placed = np.concatenate([(batch.astype(np.float64) - mean) @ axes for batch in batches()])
    largest = np.nanargmax(np.abs(placed), axis=0)
    signs = np.sign(placed[largest, [0, 1]])
    return (placed * np.where(signs == 0, 1, signs)).astype(np.float32)
