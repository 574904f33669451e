"""Tiny random models and folders of inputs for collections."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import explainers
from explainers.collection.result import Collection
from explainers.models.model import Model
from tests.explainers.support.saved_models import save_timm, save_transformers

SIDES = {"width": 24, "height": 32}  # pixels of a picture, as the tiny model reads them: 4 rows of 3 patches
LABELS = ("ant", "bee", "cat", "dog", "eel")


def tiny_vit(folder: Path) -> Model:
    save_timm(folder)
    return explainers.load(folder, "cpu")


def tiny_bert(folder: Path) -> Model:
    save_transformers(folder)
    return explainers.load(folder, "cpu")


def picture(number: int) -> Image.Image:
    """Noise of its own for each number."""
    values = np.random.default_rng(number).integers(0, 256, (SIDES["height"], SIDES["width"], 3), dtype=np.uint8)
    return Image.fromarray(values)


def save_pictures(folder: Path, count: int, masks: bool = True) -> Path:
    """A folder of pictures: the class of each is the next of the model's, and the object of each the upper left of its patches and half of
    the next.
    """
    mask = np.zeros((SIDES["height"], SIDES["width"]), np.uint8)
    mask[:8, :12] = 255
    for number in range(count):
        name = f"{LABELS[number % len(LABELS)]}/{number:03d}.png"
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        picture(number).save(folder / name)
        if masks:
            (folder / "masks" / name).parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(mask).save(folder / "masks" / name)
    return folder


def finished(collection: Collection | None) -> Collection:
    assert collection is not None
    return collection


def approximately(value: float | None) -> object:
    """What a number in float32 may differ by from the same in float64."""
    return None if value is None else pytest.approx(value, rel=1e-4, abs=1e-5)
