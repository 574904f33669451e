"""Small models of each kind with labels and tokenizers, and a picture."""

from __future__ import annotations

from functools import cache

import numpy as np
from PIL import Image

import explainers
from explainers import Model
from tests.families import FAMILIES
from tests.support.vocabularies import wordpiece

LABELS = ["Zebra", "elephant", "Spoon", "fork", "dog"]
TEXT = "Not a bad movie, the plot is well-made."


@cache
def image_model(name: str = "vit") -> Model:
    return explainers.wrap(FAMILIES[name].build(), labels=LABELS)


@cache
def text_model() -> Model:
    return explainers.wrap(FAMILIES["bert"].build(), labels=["negative", "neutral", "positive"], tokenizer=wordpiece())


@cache
def clip_model() -> Model:
    return explainers.wrap(FAMILIES["hf-clip"].build().double(), tokenizer=wordpiece(16))


def picture(seed: int = 0, size: tuple[int, int] = (50, 40)) -> Image.Image:
    noise = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    return Image.fromarray(noise)
