"""MDA against the published code: the search over its superpixels, the fit against its optimum, and the map."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from explainers.methods.implementations.metric_driven import (
    blur_picture,
    fit_convex,
    rank_superpixels,
    scores_of_curve,
    search_beginning,
    search_rest,
)
from tests.explainers.support.golden import Case

TOLERANCE = 1e-8
FROM_INSIDE = 1e-6
OF_THE_SOLVER = 1e-3  # the published one stops up to 5e-4 from the optimum


@cache
def case() -> Case:
    return Case("mda-vit")


def probability(pixels: Tensor) -> Tensor:
    with torch.no_grad():
        return case().model.forward({"pixel_values": pixels}).softmax(-1)[:, case().target]


def asking(background: Tensor) -> Callable[[Tensor], Tensor]:
    """The probability with some of the code's superpixels shown on a background."""
    segments = case().published["segments"].long()

    def ask(keep: Tensor) -> Tensor:
        is_shown = keep[:, segments][:, None]
        return probability(torch.where(is_shown, case().inputs["pixel_values"], background))

    return ask


def sizes() -> Tensor:
    """Pixels of each superpixel."""
    return case().published["segments"].long().flatten().bincount().double()


def test_the_order_that_is_searched_for() -> None:
    published, x = case().published, case().inputs["pixel_values"]
    blurred = blur_picture(x)
    assert float(probability(blurred)) == pytest.approx(float(published["probabilities_blurred"][0, 2]), abs=TOLERANCE)
    assert float(probability(x)) == pytest.approx(float(published["probabilities"][0, 2]), abs=TOLERANCE)
    large = F.interpolate(published["hint_patches"][None, None], size=(224, 224), mode="nearest")
    ranking = rank_superpixels(large[0, 0], published["segments"].long(), (7, 7))
    whole = float(probability(x))
    beginning = search_beginning(asking(blurred), ranking, 14, float(probability(blurred)), whole)
    assert beginning == published["beginning"].long().tolist()
    order = search_rest(asking(torch.zeros_like(x)), ranking, 14, beginning)
    assert order == published["deletion_order_best_first"].long().tolist()


@pytest.mark.parametrize("number", [0, 1])
def test_the_curve_that_is_fitted(number: int) -> None:
    curve = case().published[f"curve{number}|in"].numpy()
    fitted = fit_convex(curve)
    theirs = case().published[f"curve{number}|exact"].numpy()  # found from inside, so still a little off
    np.testing.assert_allclose(fitted, theirs, rtol=0, atol=FROM_INSIDE)
    assert float(np.square(fitted - curve).sum()) <= float(np.square(theirs - curve).sum())
    assert float(np.diff(fitted, 2).min()) >= -TOLERANCE
    assert fitted[[0, -1]].tolist() == curve[[0, -1]].tolist()


@pytest.mark.parametrize("gamma", ["0", "0.5", "1"])
def test_the_map(gamma: str) -> None:
    published = case().published
    order = published["deletion_order_best_first"].long()
    for curve, name, tolerance in (("curve1|exact", "map_exact", TOLERANCE), ("curve1|out", "map", OF_THE_SOLVER)):
        scores = torch.zeros(49, dtype=torch.float64)
        scores[order] = torch.from_numpy(scores_of_curve(published[curve].numpy(), sizes()[order].numpy(), float(gamma)))
        torch.testing.assert_close(scores.view(7, 7), published[f"{name}|gamma{gamma}"], rtol=0, atol=tolerance)
