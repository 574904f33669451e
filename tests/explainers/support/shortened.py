"""A tiny model asked by hand about an input without some of its tokens."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import explainers


def alone(model: explainers.Model, tensors: dict[str, Tensor], gone: list[int]) -> Tensor:
    """The logits of the tiny ViT without these patches, its blocks run by hand."""
    vit: Any = model.module
    with torch.no_grad():
        x = vit._pos_embed(vit.patch_embed(tensors["pixel_values"]))
        x = x[:, [0, *(1 + i for i in range(x.shape[1] - 1) if i not in gone)]]
        for block in vit.blocks:
            x = block(x)
        logits: Tensor = vit.forward_head(vit.norm(x))[0]
    return logits
