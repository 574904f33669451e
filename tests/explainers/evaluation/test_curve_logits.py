"""Curves: what is kept at each step, and that shared answers are those of asking one by one."""

from __future__ import annotations

import explainers  # before timm

# isort: split
import math
from typing import Literal

import pytest
import timm
import timm.data
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from explainers.evaluation.curve_logits import CurveLogits, counts_of, keep_of
from explainers.evaluation.sanity_maps import layers_of, shuffle_layers
from explainers.metrics import RemovalCurve

SCORES = torch.tensor([[0.1, -5.0, 3.0, 2.0]])


def kept(curve: RemovalCurve, least: int = 0) -> list[list[int]]:
    return keep_of(curve, SCORES, least)[0].int().tolist()


def test_what_is_kept_at_each_step() -> None:
    halves = (0.5, 1.0)
    assert kept(RemovalCurve(fractions=halves)) == [[1, 1, 0, 0], [0, 0, 0, 0]]
    assert kept(RemovalCurve(fractions=halves, keeps_first=True)) == [[0, 0, 1, 1], [1, 1, 1, 1]]
    assert kept(RemovalCurve(fractions=halves, order="least")) == [[0, 0, 1, 1], [0, 0, 0, 0]]
    assert kept(RemovalCurve(fractions=halves, order="smallest")) == [[0, 1, 1, 0], [0, 0, 0, 0]]
    assert kept(RemovalCurve(fractions=(1.0,)), least=1) == [[0, 1, 0, 0]]
    assert kept(RemovalCurve(fractions=(0.1,), keeps_first=True), least=1) == [[0, 0, 1, 0]]


def test_fractions_become_numbers_of_tokens() -> None:
    assert counts_of(RemovalCurve(fractions=(0.1, 0.3, 0.7)), 10) == [1, 3, 7]
    assert counts_of(RemovalCurve(fractions=(0.01, 0.3, 0.55), rounding="up"), 10) == [1, 3, 6]


@pytest.fixture(scope="module")
def model() -> explainers.Model:
    torch.manual_seed(0)
    module = timm.create_model("vit_tiny_patch16_224", img_size=32, patch_size=8, embed_dim=24, depth=2, num_heads=2, num_classes=5)
    return explainers.wrap(module.eval())


def answers_of(model: explainers.Model, how: str | None) -> tuple[CurveLogits, Tensor]:
    picture = Image.effect_noise((32, 32), 60).convert("RGB")
    tensors = model.tensors(picture)
    layout = model.layout_of(tensors)
    assert layout.grid is not None
    patches = layout.grid[0] * layout.grid[1]
    content = torch.zeros(patches + layout.prefix, dtype=torch.bool)
    content[layout.prefix :] = True
    return CurveLogits(model, tensors, layout.grid, content, how), torch.randn(3, patches, generator=torch.Generator().manual_seed(0))


def test_superpixels_come_back_in_the_order_of_their_sums(model: explainers.Model) -> None:
    """Against plain loops over scikit-image's own segments, of a picture whose patches are larger than its superpixels."""
    segmentation = pytest.importorskip("skimage.segmentation")
    asked, scores = answers_of(model, None)
    curve = RemovalCurve(fractions=(0.0, 0.3, 1.0), keeps_first=True, rounding="up", pixels=True, superpixels=20)
    logits = asked.along([curve], scores)[0]
    pixels = asked.tensors["pixel_values"][0]
    scaled = (pixels - pixels.min()) / (pixels.max() - pixels.min())
    segments = torch.from_numpy(segmentation.slic(scaled.permute(1, 2, 0).double().numpy(), n_segments=20, start_label=0))
    names = segments.unique().tolist()
    assert 3 < len(names) <= 30
    black = model.tensors(Image.new("RGB", (32, 32)))["pixel_values"][0]
    for method in range(3):
        sums = dict.fromkeys(names, 0.0)
        for row in range(32):
            for column in range(32):
                sums[int(segments[row, column])] += float(scores[method, row // 8 * 4 + column // 8]) / 64
        assert sum(sums.values()) == pytest.approx(float(scores[method].sum()), abs=1e-4)
        best = sorted(names, key=lambda name: -sums[name])
        for step, count in enumerate((0, math.ceil(0.3 * len(names) - 1e-9), len(names))):
            shown = torch.isin(segments, torch.tensor(best[:count], dtype=segments.dtype))
            with torch.no_grad():
                expected = model.forward({"pixel_values": torch.where(shown, pixels, black)[None]})[0]
            torch.testing.assert_close(logits[method, step], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("how", [None, "zeroed", "black"])
def test_methods_and_curves_share_their_answers(model: explainers.Model, how: str | None) -> None:
    asked, scores = answers_of(model, how)
    curves = [
        RemovalCurve(fractions=(0.0, 0.5)),
        RemovalCurve(fractions=(0.5,), keeps_first=True),
        RemovalCurve(fractions=(0.25,), pixels=True),
    ]
    together = asked.along(curves, scores)
    with torch.no_grad():
        whole = model.forward(asked.tensors)[0]
    for number, curve in enumerate(curves):
        for method in range(3):
            alone = asked.along([curve], scores[method : method + 1])[0]
            torch.testing.assert_close(together[number][method], alone[0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(together[0][:, 0], whole.expand(3, -1), rtol=1e-4, atol=1e-5)
    assert (together[0][:, 1] - together[1][:, 0]).abs().max() > 1e-4


@pytest.mark.parametrize("order", ["most", "least"])
def test_pixels_turn_black_as_chefer_et_al_have_it(model: explainers.Model, order: Literal["most", "least"]) -> None:
    """The int(0.3 * 1024) pixels that come first in the map, enlarged bilinearly, are 0 before the normalisation, in every channel."""
    asked, scores = answers_of(model, None)
    found = asked.along([RemovalCurve(fractions=(0.3,), order=order, pixels=True)], scores)[0][:, 0]
    sign = 1 if order == "most" else -1
    config = timm.data.resolve_data_config({}, model=model.module)
    black = -torch.tensor(config["mean"]) / torch.tensor(config["std"])
    for method in range(3):
        large = F.interpolate(sign * scores[method].double().view(1, 1, 4, 4), (32, 32), mode="bilinear", align_corners=False)
        first = large.flatten().argsort(descending=True, stable=True)[: int(0.3 * 1024)]  # corners have one score
        pixels = asked.tensors["pixel_values"].clone().flatten(2)
        pixels[0, :, first] = black[:, None]
        with torch.no_grad():
            wanted = model.module(pixels.view(1, 3, 32, 32))[0]
        torch.testing.assert_close(found[method], wanted, rtol=1e-4, atol=1e-5)


def test_weights_are_shuffled_layer_by_layer_and_put_back(model: explainers.Model) -> None:
    before = {name: value.clone() for name, value in model.module.state_dict().items()}

    def changed() -> int:
        return sum(not torch.equal(value, before[name]) for name, value in model.module.state_dict().items())

    with shuffle_layers(model, seed=3) as steps:
        seen = [changed() for _ in steps]
    assert len(seen) == len(layers_of(model)) == len(model.blocks) + 1
    assert seen == sorted(seen)
    assert 0 < seen[0] < seen[-1]
    assert changed() == 0
