"""Clusters of maps, and the place in the picture that a cluster names.

The clusters are those of SpRAy (Lapuschkin et al., "Unmasking Clever Hans predictors", Nature Communications 2019): spectral clustering of
downsized maps, with the eigengap for their number.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
MOST_CLUSTERS = 8
MOST_CLUSTERED = 1000  # rows; eigenvectors take their number cubed
LEAST_NEIGHBOURS = 5
EXCESS_COVERED = 0.5  # of what a cluster has more than other rows
MOST_OF_PICTURE = 0.2  # of the patches, that a place may cover
MIN_SHARE_ON_BORDER = 0.8  # of the patches of a place that lies along the border
SHARED_FROM = 1 / 3  # of what a row's share of evidence at a shared place can exceed the mean of rows with other answers by
MOST_ROWS = 0.5  # with an answer, which must share a place that is theirs
_VERTICAL, _HORIZONTAL = ("upper", "", "lower"), ("left", "", "right")
_EDGES = {"upper": "at the top", "lower": "at the bottom", "left": "at the left", "right": "at the right"}


def cluster_maps(maps: Floats, seed: int) -> Integers:
    """Return the cluster of each of the ``maps`` (N, F), counted from 0.

    They are joined to their nearest neighbours (the natural logarithm of N, at least 5). The number of clusters is where the eigenvalues of
    the normalised Laplacian of that graph rise most, at most 8; the rows of its first eigenvectors are then clustered by k-means (Ng et
    al., 2002).
    """
    from scipy.linalg import eigh  # both take a second to import
    from sklearn.cluster import KMeans
    from sklearn.neighbors import kneighbors_graph

    count = len(maps)
    neighbours = max(LEAST_NEIGHBOURS, math.ceil(math.log(max(1, count))))
    if count <= neighbours + 1:
        return np.zeros(count, np.int64)
    graph = kneighbors_graph(maps, neighbours).toarray()
    graph = np.maximum(graph, graph.T)
    scale = 1 / np.sqrt(graph.sum(1))
    laplacian = np.eye(count) - scale[:, None] * graph * scale
    most = min(MOST_CLUSTERS, count - 1)
    values, vectors = eigh(laplacian, subset_by_index=(0, most))
    number = int(np.diff(values).argmax()) + 1
    if number == 1:
        return np.zeros(count, np.int64)
    points = vectors[:, :number]
    points = points / np.maximum(np.linalg.norm(points, axis=1, keepdims=True), np.finfo(np.float64).tiny)
    labels: Integers = KMeans(number, n_init=10, random_state=seed).fit_predict(points).astype(np.int64)
    return labels


def place_of(cluster: Floats, others: Floats) -> Integers:
    """Return the patches, in raster order, that make up the place of a cluster: the fewest that hold half of what its mean map exceeds that
    of the other rows by, at most a fifth of the picture. ``cluster`` and ``others`` are shares of the positive scores (N, P).
    """
    excess = np.maximum(cluster.mean(0) - others.mean(0), 0)
    order = np.argsort(-excess, kind="stable")
    needed = int(np.searchsorted(excess[order].cumsum(), EXCESS_COVERED * excess.sum())) + 1
    return np.sort(order[: max(1, min(needed, int(MOST_OF_PICTURE * len(excess))))])


def place_in_words(patches: Integers, grid: tuple[int, int]) -> str:
    """Name where ``patches`` of a ``grid`` (rows, columns) lie: along the border, in a ninth of the picture or at one side of it, after
    "mostly" if some lie elsewhere, else how many scattered patches they are.
    """
    rows, columns = patches // grid[1], patches % grid[1]
    sides = (rows == 0, rows == grid[0] - 1, columns == 0, columns == grid[1] - 1)
    share_on_border = np.logical_or.reduce(sides).mean()
    if min(grid) > 2 and all(side.any() for side in sides) and share_on_border >= MIN_SHARE_ON_BORDER:
        return _where(float(share_on_border), "along the border")
    down, right = rows * 3 // grid[0], columns * 3 // grid[1]
    ninths = np.bincount(down * 3 + right, minlength=9) / len(patches)
    if ninths.max() > 0.5:
        vertical, horizontal = _VERTICAL[ninths.argmax() // 3], _HORIZONTAL[ninths.argmax() % 3]
        if vertical and horizontal:
            return _where(ninths.max(), f"in the {vertical} {horizontal} corner")
        return _where(ninths.max(), _EDGES.get(vertical or horizontal, "in the middle"))
    for thirds, names in ((down, _VERTICAL), (right, _HORIZONTAL)):
        shares = np.bincount(thirds, minlength=3) / len(patches)
        if shares.max() > 0.5 and names[shares.argmax()]:
            return _where(shares.max(), _EDGES[names[shares.argmax()]])
    return f"at {len(patches)} scattered places"


def _where(share: float, name: str) -> str:
    """Return the name of a place that holds this share of some patches; after "mostly" if it does not hold all."""
    return name if share == 1 else f"mostly {name}"


def share_at_turns(maps: Floats, patches: Integers, grid: tuple[int, int]) -> Floats:
    """Return for each of the ``maps`` (N, P) its share at a place when it is rolled cyclically by every offset of the grid: (N, P), the
    unrolled map first.
    """
    place = np.zeros(grid)
    place.reshape(-1)[patches] = 1
    spectrum = np.fft.rfft2(place).conj() * np.fft.rfft2(maps.reshape(-1, *grid))
    shares: Floats = np.fft.irfft2(spectrum, s=grid).reshape(len(maps), -1)
    return shares
