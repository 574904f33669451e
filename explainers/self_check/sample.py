"""The input that a model is checked with: a picture of soft colours, a sentence or a molecule; the same at every opening."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from PIL import Image

from explainers.errors import ExplainerError
from explainers.models.inputs.types import Input, PicturePrompt, TextPair
from explainers.models.model import Model

MOLECULE = "CC(=O)Nc1ccc(O)cc1"  # paracetamol
TEXT = "A good film, and not too long."
PROMPTS = ("a photo of a cat", "a drawing of a house")
_SIZE = (320, 240)  # width and height of the picture, which no model takes as it is
_COARSE = (8, 6)  # of the noise that it is made of


@dataclass(frozen=True, eq=False)
class Sample:
    """A sample input on which a model is checked.

    source  the picture or the text; None if only tensors can be sent
    inputs  the value to pass to ``explain``
    target  what to explain: the prompts for a CLIP model; None: the top class
    """

    source: Image.Image | str | TextPair | PicturePrompt | None
    inputs: Input
    target: Any = None


def picture() -> Image.Image:
    """Return the sample picture, a PIL image of soft spots of colour on a grid."""
    noise = np.random.default_rng(0).integers(0, 256, (_COARSE[1], _COARSE[0], 3), dtype=np.uint8)
    return Image.fromarray(noise).resize(_SIZE, Image.Resampling.BICUBIC)


def sample_of(model: Model) -> Sample:
    """Return a sample input for ``model``; tensors of random numbers if the preparation of its pictures is unknown."""
    if model.kind == "molecule":
        return Sample(MOLECULE, MOLECULE)
    if model.kind == "text":
        source: Any = TEXT if model.task is None else model.task.sample(TEXT)
        if "text" not in model.reads:
            return Sample(picture(), picture()) if "picture" in model.reads else _random_sample(model)
        if model.reads_pictures:
            source = PicturePrompt(picture(), source)
        return Sample(source, source)
    target = list(PROMPTS) if model.kind == "clip" and model.prompt_inputs is not None else None
    source = picture()
    try:
        model.prepare(source)
    except ExplainerError:
        return _random_sample(model, target)
    return Sample(source, source, target)


def _random_sample(model: Model, target: Any = None) -> Sample:
    pixels = torch.randn(1, model.details["channels"], *model.details["input"], generator=torch.Generator().manual_seed(0))
    return Sample(None, {"pixel_values": pixels}, target)
