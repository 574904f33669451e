"""The two sides of ``clip``, pictures of which only some patches may be read, and prompts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from explainers.models.model import Model
from recipes.networks.vits import encode


@torch.inference_mode()
def text_features(model: Model, prompts: Sequence[str], batch: int = 100) -> Tensor:
    """Return the embeddings by ``model`` of the ``prompts``, (prompts, width), length 1. ``batch`` prompts go into one pass."""
    assert model.prompt_inputs is not None
    features = []
    for start in range(0, len(prompts), batch):
        inputs = model.prompt_inputs(list(prompts[start : start + batch])).tensors
        features.append(model.module.get_text_features(**inputs).pooler_output)  # type: ignore[operator]
    return F.normalize(torch.cat(features), dim=-1)


@torch.inference_mode()
def image_features(model: Model, images: Tensor, kept: Tensor | None = None) -> Tensor:
    """Return the embeddings by ``model`` (B, width), length 1, of square pictures of any size, the ``images``, uint8 (B, H, W, 3), from the
    patches ``kept`` (B, n) alone where given.
    """
    module: Any = model.module
    pixels = torch.cat([model.prepare_input(Image.fromarray(image)).tensors["pixel_values"] for image in images.numpy()])
    return F.normalize(module.visual_projection(encode(module.vision_model.timm_model, pixels, kept)[:, 0]), dim=-1)
