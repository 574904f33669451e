"""The two sides of ``clip``, pictures of which only some patches may be read, and prompts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from embedded.recipes.vits import encode
from explainers.models.base import Model


@torch.inference_mode()
def text_features(model: Model, prompts: Sequence[str]) -> Tensor:
    """(prompts, width), length 1."""
    assert model.prompt_inputs is not None
    found = model.module.get_text_features(**model.prompt_inputs(prompts).tensors)  # type: ignore[operator]
    return F.normalize(found.pooler_output, dim=-1)


@torch.inference_mode()
def image_features(model: Model, pixels: Tensor, kept: Tensor | None = None) -> Tensor:
    """(B, width), length 1, of square pictures from -1 to 1 of any size; with ``kept`` (B, n) from these patches alone."""
    module: Any = model.module
    side = module.config.vision_config.image_size
    if pixels.shape[-1] != side:
        pixels = F.interpolate(pixels, (side, side), mode="bicubic", antialias=True).clamp(-1, 1)
    return F.normalize(module.visual_projection(encode(module.vision_model.timm_model, pixels, kept)[:, 0]), dim=-1)
