"""MDA on tiny models: it orders the patches that a model reads, and says where a search finds nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import explainers
from explainers import ExplainerError
from explainers.methods.implementations.metric_driven import fit_convex, mean_curve, scores_of_curve, search_beginning, search_rest
from tests.explainers.support.explained import image_model, picture
from tests.explainers.support.wrapped import wrapped

WORTH = torch.tensor([0.0, 4.0, 1.0, 3.0, 2.0])


def add_up(keep: torch.Tensor) -> torch.Tensor:
    """A model whose answer is the sum of what its patches are worth."""
    return keep.float() @ WORTH


def test_the_search_finds_the_order_of_a_model_that_adds_up() -> None:
    ranking = [2, 0, 4, 3, 1]
    beginning = search_beginning(add_up, ranking, 5, 0.0, 10.0)
    assert beginning == [1, 3, 4]  # 9 of 10
    assert search_rest(add_up, ranking, 5, beginning) == [1, 3, 4, 2, 0]
    assert search_beginning(add_up, ranking, 1, 0.0, 10.0) == ranking  # one candidate a place: the ranking, till 0.9 is there


def test_a_curve_that_is_convex_is_fitted_by_itself() -> None:
    curve = np.array([1.0, 0.5, 0.25, 0.125, 0.0])
    np.testing.assert_allclose(fit_convex(curve), curve, atol=1e-12)
    bent = fit_convex(np.array([1.0, 1.0, 0.0]))
    np.testing.assert_allclose(bent, [1.0, 0.5, 0.0], atol=1e-12)  # the chord: it may not bulge


def test_both_tests_are_scaled_to_their_ends_and_made_monotone() -> None:
    inserted, deleted = torch.tensor([0.2, 0.8, 0.7, 1.2]), torch.tensor([1.2, 0.3, 0.6, 0.2])
    np.testing.assert_allclose(mean_curve(inserted, deleted), [1.0, 1 - (0.6 + 0.9) / 2, 1 - (0.6 + 0.9) / 2, 0.0], atol=1e-6)


def test_sparse_and_dense_scores() -> None:
    fitted = np.array([1.0, 0.4, 0.0, 0.0])
    sparse = np.array([0.6 / 2 + 0.6 * 2 / 3, 0.4 / 2 + 0.4 / 3, 0.0])
    np.testing.assert_allclose(scores_of_curve(fitted, 2.0, 0.0), sparse)
    np.testing.assert_allclose(scores_of_curve(fitted, 2.0, 1.0), np.array([2 / 3, 1 / 3, 0.0]) * sparse[0] * 3 / 2)


def test_a_map_is_that_of_every_run_and_falls_along_the_order() -> None:
    first, again = (explainers.explain(image_model(), picture(), methods=["mda"])["mda"] for _ in range(2))
    assert torch.equal(first.scores, again.scores)
    assert float(first.scores[first.content].max()) > 0
    assert float(first.scores.min()) >= 0
    assert not bool(first.scores[~first.content].any())
    assert any("However much the picture is blurred" in note for note in first.notes)  # a random model


def test_words_are_refused() -> None:
    with pytest.raises(ExplainerError, match="reads words here, and this is for images"):
        explainers.explain(wrapped("bert", torch.float32), {"input_ids": torch.tensor([[1, 2, 3]])}, methods=["mda"])
