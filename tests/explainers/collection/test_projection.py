"""Two principal components, against a singular value decomposition of the whole."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from explainers.collection.projection import Vectors, principal_components


def in_batches(vectors: Vectors, size: int = 7) -> Iterator[Vectors]:
    for start in range(0, len(vectors), size):
        yield vectors[start : start + size]


def test_components_are_those_of_a_decomposition_of_the_whole() -> None:
    random = np.random.default_rng(0)
    vectors = (random.normal(size=(40, 2)) * (5, 2) @ random.normal(size=(2, 9)) + random.normal(size=(40, 9)) * 0.1 + 3).astype(np.float32)
    centred = vectors.astype(np.float64) - vectors.mean(0, dtype=np.float64)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    expected = left[:, :2] * sizes[:2]
    found = principal_components(lambda: in_batches(vectors))
    assert found is not None
    for column in (0, 1):
        assert found[np.abs(found[:, column]).argmax(), column] > 0
        sign = np.sign(found[0, column] / expected[0, column])
        assert found[:, column] == pytest.approx(sign * expected[:, column], abs=1e-3)


def test_unknown_vectors_have_no_place() -> None:
    vectors = np.random.default_rng(1).normal(size=(12, 4)).astype(np.float32)
    known = principal_components(lambda: in_batches(vectors))
    with_unknown = np.insert(vectors, 5, np.nan, axis=0)
    found = principal_components(lambda: in_batches(with_unknown))
    assert found is not None
    assert known is not None
    assert np.isnan(found[5]).all()
    assert np.delete(found, 5, axis=0) == pytest.approx(known, abs=1e-5)


@pytest.mark.parametrize(
    "vectors",
    [np.ones((2, 4)), np.ones((9, 4)), np.ones((9, 1)), np.full((9, 4), np.nan), np.outer(np.arange(9), np.ones(4)), np.zeros((5, 0))],
)
def test_too_few_directions_are_no_plane(vectors: Vectors) -> None:
    assert principal_components(lambda: in_batches(vectors.astype(np.float32))) is None
