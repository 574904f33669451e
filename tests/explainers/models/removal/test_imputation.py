"""Pixels that are filled in from their neighbours."""

from __future__ import annotations

import pytest
import torch

from explainers import ExplainerError
from explainers.evaluation.curve_logits import CurveLogits, keep_of
from explainers.metrics.road import IMPUTED
from explainers.models.removal.imputation import NEIGHBOURS, NOISE, imputation_noise, impute_pixels
from explainers.models.removal.token_removal import answer
from tests.explainers.support.wrapped import inputs, wrapped


def test_a_removed_pixel_is_the_weighted_mean_of_its_neighbours() -> None:
    pixels = torch.randn(3, 5, 6, generator=torch.Generator().manual_seed(0)).double()
    keep = torch.rand(5, 6, generator=torch.Generator().manual_seed(1)) > 0.6
    keep[0, 0] = False
    found = impute_pixels(pixels, keep)
    assert torch.equal(found[:, keep], pixels[:, keep])
    for row, column in torch.nonzero(~keep).tolist():
        inside = [(row + down, column + right, weight) for down, right, weight in NEIGHBOURS]
        inside = [place for place in inside if 0 <= place[0] < 5 and 0 <= place[1] < 6]
        total = sum(weight for *_, weight in inside)
        mean = torch.stack([weight * found[:, y, x] for y, x, weight in inside]).sum(0) / total
        torch.testing.assert_close(found[:, row, column], mean, rtol=0, atol=1e-12)


def test_noise_is_added_where_pixels_were_removed_alone() -> None:
    pixels, keep = torch.zeros(3, 8, 8), torch.zeros(8, 8, dtype=torch.bool)
    keep[:, :4] = True
    noise = imputation_noise((3, 8, 8))
    found = impute_pixels(pixels, keep, noise)
    assert float(found[:, keep].abs().max()) == 0
    torch.testing.assert_close(found[:, ~keep], noise[:, ~keep])
    assert float(imputation_noise((3, 64, 64)).std()) == pytest.approx(NOISE, rel=0.05)
    assert torch.equal(impute_pixels(pixels, torch.ones_like(keep), noise), pixels)


def test_a_picture_without_any_pixel_is_refused() -> None:
    with pytest.raises(ExplainerError, match="No pixel of the picture is kept"):
        impute_pixels(torch.zeros(3, 4, 4), torch.zeros(4, 4, dtype=torch.bool))


def test_a_curve_asks_the_model_about_imputed_pictures() -> None:
    model, tensors = wrapped("vit"), inputs("vit", 1)
    scores = torch.rand(2, 12, generator=torch.Generator().manual_seed(0))
    asked = CurveLogits(model, tensors, (4, 3), torch.arange(13) > 0, None)
    found = asked.along([IMPUTED], scores)[0]
    pixels = tensors["pixel_values"]
    height, width = pixels.shape[-2:]
    large = torch.nn.functional.interpolate(scores.double().view(2, 1, 4, 3), size=(height, width), mode="bilinear", align_corners=False)
    keep = keep_of(IMPUTED, large.flatten(1))[1, 4].view(height, width)
    assert int((~keep).sum()) == height * width // 2
    picture = impute_pixels(pixels[0], keep, imputation_noise(pixels.shape[1:]))
    torch.testing.assert_close(found[1, 4], answer(model, {**tensors, "pixel_values": picture[None]})[0].float(), rtol=0, atol=1e-5)
