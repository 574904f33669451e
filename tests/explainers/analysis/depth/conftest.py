"""Tiny models with weights large enough for their parts to change the answer, and pictures to ask them."""

from __future__ import annotations

import explainers  # before timm

# isort: split
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import timm
import torch
from PIL import Image

SIDE, CLASSES = 32, 5
TEXTS = [
    "a good film",
    "not a bad movie",
    "the plot is well-made",
    "films",
    "a bad plot",
    "good",
    "the movie is not bad",
    "a well-made plot",
]
MakeVit = Callable[..., torch.nn.Module]


def _vit(**changes: Any) -> torch.nn.Module:
    torch.manual_seed(0)
    shape = {"img_size": SIDE, "patch_size": 8, "embed_dim": 24, "depth": 3, "num_heads": 2, "num_classes": CLASSES, **changes}
    module = timm.models.vision_transformer.VisionTransformer(**shape)
    for name, value in module.named_parameters():
        if value.ndim > 1 and "norm" not in name:
            torch.nn.init.normal_(value, std=0.2)
    return module.eval()


@pytest.fixture(scope="session")
def make_vit() -> MakeVit:
    """Makes a ViT of three blocks, 4 by 4 patches and five classes."""
    return _vit


@pytest.fixture(scope="session")
def vit(make_vit: MakeVit) -> explainers.Model:
    return explainers.wrap(make_vit(), name="vit")


@pytest.fixture(scope="session")
def pictures() -> list[Image.Image]:
    """Coloured noise."""
    rng = np.random.default_rng(0)
    return [Image.fromarray(rng.integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)) for _ in range(16)]
