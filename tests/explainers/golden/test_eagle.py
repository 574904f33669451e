"""EAGLE against the published code: the order, how often the model is asked, and the map."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch
from torch import Tensor

import explainers
from explainers.methods.implementations.eagle import scores_of_order, search_order
from tests.explainers.support.golden import Case

TOLERANCE = 1e-9


@cache
def case() -> Case:
    return Case("eagle-vit")


def probability(pixels: Tensor) -> Tensor:
    with torch.no_grad():
        return case().model.forward({"pixel_values": pixels}).softmax(-1)[:, case().target]


@pytest.mark.parametrize("side", [8, 4])
def test_the_search(side: int) -> None:
    published, x = case().published, case().inputs["pixel_values"]
    asked = 2  # with the whole picture and with none

    def ask(keep: Tensor) -> Tensor:
        nonlocal asked
        asked += len(keep)
        cells = keep.view(-1, 1, side, side).repeat_interleave(32 // side, 2).repeat_interleave(32 // side, 3)
        return probability(x * cells)

    tag = f"{side}x{side}"
    whole, nothing = float(probability(x)), float(probability(torch.zeros_like(x)))
    np.testing.assert_allclose([whole, nothing], published[f"{tag}|ends"], rtol=0, atol=TOLERANCE)
    order, objective = search_order(ask, side * side, nothing, whole)
    assert order == published[f"{tag}|order"].long().tolist()
    assert asked == int(published[f"{tag}|asked"])
    np.testing.assert_allclose(objective[1:], published[f"{tag}|insertion"] + 1 - published[f"{tag}|deletion"], rtol=0, atol=TOLERANCE)
    scores = scores_of_order(order, objective)
    np.testing.assert_allclose(scores[order], published[f"{tag}|values"] - published[f"{tag}|values"].min(), rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose((scores / scores.max()).view(side, side), published[f"{tag}|map"], rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize(("spec", "tag"), [("eagle", "8x8"), ("eagle?side=4", "4x4")])
def test_the_method(spec: str, tag: str) -> None:
    """Of whole patches: four of them make a part where there are 4 x 4 parts."""
    (one,) = explainers.explain(case().model, case().inputs, target=case().target, methods=[spec]).maps
    theirs = case().published[f"{tag}|map"]
    each = 8 // len(theirs)
    theirs = theirs.repeat_interleave(each, 0).repeat_interleave(each, 1)
    patches = one.scores[one.content].double().view_as(theirs)
    torch.testing.assert_close(patches / patches.max(), theirs, rtol=0, atol=1e-6)
    assert not bool(one.scores[~one.content].any())
