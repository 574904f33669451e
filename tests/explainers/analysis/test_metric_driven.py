"""MDA over superpixels of one's own: the method's own map where these are patches, and what may be sent."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import explainers
from explainers import ExplainerError
from tests.support.own_models.case import vit

PIXELS = torch.randn(1, 3, 160, 160, generator=torch.Generator().manual_seed(0))
INPUT = {"pixel_values": PIXELS}


def model() -> Any:
    return explainers.wrap(vit())


MODEL = model()


def patches() -> torch.Tensor:
    rows = torch.arange(160) // 16
    return rows[:, None] * 10 + rows


@pytest.mark.parametrize("superpixels", [None, patches()])
def test_over_patches_it_is_the_method(superpixels: torch.Tensor | None) -> None:
    same = model()
    result: Any = explainers.explain(same, INPUT, 1, ["mda?candidates=2"])
    one = (result[0] if isinstance(result, list) else result).maps[0]
    found = explainers.metric_driven_map(same, INPUT, 1, superpixels=superpixels, candidates=2)
    torch.testing.assert_close(found[::16, ::16].flatten().float(), one.scores[one.content])


def test_superpixels_and_a_hint_are_taken() -> None:
    stripes = (torch.arange(160)[None] // 20).expand(160, 160)
    found = explainers.metric_driven_map(model(), INPUT, superpixels=stripes.numpy(), hint=torch.arange(100.0).view(10, 10))
    assert all(len(found[stripes == number].unique()) == 1 for number in range(8))
    assert float(found.max()) > 0


def test_candidates_are_taken_by_the_hint() -> None:
    """With one candidate for each place the order is that of the hint."""
    stripes = (torch.arange(160)[None] // 20).expand(160, 160)
    rising, falling = (
        explainers.metric_driven_map(MODEL, INPUT, 1, superpixels=stripes, hint=hint, candidates=1, gamma=1.0)[0, ::20]
        for hint in (torch.arange(8.0).expand(8, 8), -torch.arange(8.0).expand(8, 8))
    )
    assert rising.sort(stable=True).values.tolist() == rising.tolist()
    assert falling.sort(stable=True, descending=True).values.tolist() == falling.tolist()


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"superpixels": torch.zeros(10, 10, dtype=torch.long)}, "send whole numbers .160, 160."),
        ({"superpixels": torch.rand(160, 160)}, "send whole numbers"),
        ({"superpixels": 2 * patches()}, "without gaps"),
        ({"hint": torch.full((10, 10), torch.nan)}, "send finite numbers"),
        ({"gamma": 2}, "from 0 to 1"),
        ({"candidates": 0}, "at least 1"),
    ],
)
def test_what_cannot_be_taken_is_refused(how: dict[str, Any], said: str) -> None:
    with pytest.raises(ExplainerError, match=said):
        explainers.metric_driven_map(model(), INPUT, 1, **how)
