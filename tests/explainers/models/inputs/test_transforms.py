"""Transforms of torchvision and timm, and functions, as ``preprocess=``: the tensor is theirs, and the part that it shows is found."""

from __future__ import annotations

import explainers  # isort: skip  (before torchvision)

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from timm.data.transforms_factory import create_transform
from torchvision import transforms as v1
from torchvision.models import ViT_B_16_Weights
from torchvision.transforms import v2

from explainers import Crop, ExplainerError, Preprocessing
from explainers.models.inputs.transforms import TransformPreprocessing
from explainers.models.inputs.types import ImageInput
from tests.support.own_models.case import vit

MEAN, STD = (0.5, 0.4, 0.3), (0.2, 0.2, 0.3)
PICTURE = Image.fromarray(np.random.default_rng(0).integers(0, 256, (300, 401, 3), dtype=np.uint8))


def padded(picture: Image.Image) -> Image.Image:
    side = max(picture.size)
    canvas = Image.new("RGB", (side, side), (124, 116, 104))
    canvas.paste(picture, ((side - picture.width) // 2, (side - picture.height) // 2))
    return canvas


def squashed(picture: Image.Image) -> torch.Tensor:
    return torch.from_numpy(np.array(picture.resize((32, 32)))).permute(2, 0, 1) / 255


#: Transforms, and the part of a picture of 401 x 300 pixels that each shows, by arithmetic.
SHOWN: dict[str, tuple[Callable[[Any], Any], tuple[float, float, float, float]]] = {
    # 341 x 256 pixels, of which 224 x 224 in the middle are kept; the picture is 401 / 342 or 300 / 256 times as large
    "weights.transforms()": (ViT_B_16_Weights.DEFAULT.transforms(), (69.2, 18.8, 331.8, 281.2)),
    "compose": (v1.Compose([v1.Resize(36), v1.CenterCrop(32), v1.ToTensor(), v1.Normalize(MEAN, STD)]), (66.8, 16.7, 334.2, 283.3)),
    "squash": (v1.Compose([v1.Resize((32, 32)), v1.ToTensor()]), (0, 0, 401, 300)),
    "v2": (
        v2.Compose([v2.ToImage(), v2.Resize(40, antialias=True), v2.CenterCrop(32), v2.ToDtype(torch.float32, scale=True)]),
        (75.7, 30, 317.8, 270),
    ),
    "timm": (create_transform(32, crop_pct=0.9, is_training=False), (61, 17, 340.5, 291)),
    "function": (squashed, (0, 0, 401, 300)),
    "grey": (v1.Compose([v1.Grayscale(), v1.Resize((32, 32)), v1.ToTensor()]), (0, 0, 401, 300)),
    "padded": (v1.Compose([v1.Lambda(padded), v1.Resize((32, 32)), v1.ToTensor(), v1.Normalize(MEAN, STD)]), (0, -50.5, 401, 350.5)),
    "off-centre": (
        v1.Compose([v1.Resize((300, 401)), v1.Lambda(lambda p: p.crop((50, 70, 210, 230))), v1.Resize((32, 32)), v1.ToTensor()]),
        (50, 70, 210, 230),
    ),
}


@pytest.mark.parametrize("name", SHOWN)
def test_the_part_that_a_transform_shows_is_found(name: str) -> None:
    transform, expected = SHOWN[name]
    recipe = TransformPreprocessing.of_transform(transform)
    pixels, record = recipe(PICTURE)
    torch.testing.assert_close(pixels, torch.as_tensor(transform(PICTURE)).as_subclass(torch.Tensor).float())
    assert record.is_placed
    assert (record.width, record.height, record.seen) == (401, 300, (pixels.shape[2], pixels.shape[1]))
    assert recipe.size == tuple(pixels.shape[1:])
    assert np.abs(np.array(record.crop) - np.array(expected)).max() < 2


@pytest.mark.parametrize(
    "transform",
    [
        v1.Compose([v1.Resize((32, 32)), v1.RandomHorizontalFlip(1.0), v1.ToTensor()]),
        v1.Compose([v1.Resize((32, 32)), v1.Lambda(lambda picture: picture.rotate(30)), v1.ToTensor()]),
        lambda picture: (squashed(picture) - squashed(picture).mean()) / (squashed(picture).std() + 1e-6),
    ],
    ids=["flipped", "turned", "standardised"],
)
def test_a_part_that_is_not_found_is_said(transform: Callable[[Any], Any]) -> None:
    model = explainers.wrap(vit(), kind="image", preprocess=transform)
    prepared = model.prepare(PICTURE)
    (record,) = prepared.inputs
    assert isinstance(record, ImageInput)
    assert (record.is_placed, record.crop, (record.width, record.height)) == (False, (0, 0, *record.seen), record.seen)
    assert any("could not be found" in note for note in prepared.notes[0])


def test_a_model_gives_the_same_with_a_transform_as_with_the_settings_that_it_has() -> None:
    module = vit()
    side = explainers.wrap(module).details["input"][0]
    transform = v1.Compose([v1.Resize(side + 8), v1.CenterCrop(side), v1.ToTensor(), v1.Normalize(MEAN, STD)])
    settings = Preprocessing((side + 8,) * 2, crop=(side, side), mean=MEAN, std=STD, resample=Image.Resampling.BILINEAR)
    ours, theirs = (explainers.open(module, kind="image", preprocess=each, check="none") for each in (transform, settings))
    maps = [explainers.explain(model, PICTURE, 0, ["input_x_gradient"]) for model in (ours, theirs)]
    a, b = (each[0] if isinstance(each, list) else each for each in maps)
    torch.testing.assert_close(a.maps[0].scores, b.maps[0].scores, rtol=1e-4, atol=1e-6)
    assert np.abs(np.array(a.input.crop) - np.array(b.input.crop)).max() <= 1  # type: ignore[union-attr]
    shown, known = (np.asarray(each.input.pixels, dtype=float) for each in (a, b))  # type: ignore[union-attr]
    assert np.abs(shown - known).max() <= 1


def test_a_crop_is_placed_in_the_whole_picture() -> None:
    recipe = TransformPreprocessing.of_transform(squashed)
    _, record = recipe.of(Crop(PICTURE, (100, 50, 228, 178)))
    assert (record.width, record.height, record.frame) == (401, 300, (100, 50, 228, 178))
    assert np.abs(np.array(record.crop) - np.array((100, 50, 228, 178))).max() <= 1


@pytest.mark.parametrize(
    ("passed", "said"),
    [
        (v1.Compose([v1.RandomResizedCrop(32), v1.ToTensor()]), "without random steps"),
        (v1.Resize((32, 32)), "makes a Image of a picture"),
        (v2.Compose([v2.ToImage(), v2.Resize((32, 32))]), "torch.uint8"),
        (lambda picture: picture.nothing, "failed on a PIL image"),
        (lambda picture: torch.zeros(4, 8, 8), "4 channels"),
        (7, "takes no int"),
    ],
)
def test_what_is_no_transform_is_refused_with_what_to_pass(passed: Any, said: str) -> None:
    with pytest.raises(ExplainerError, match=said):
        explainers.wrap(vit(), kind="image", preprocess=passed)


def test_a_transform_of_greys_for_a_model_of_colours_is_refused() -> None:
    with pytest.raises(ExplainerError, match="makes greys, and the model takes 3 channels"):
        explainers.wrap(vit(), kind="image", preprocess=SHOWN["grey"][0])
