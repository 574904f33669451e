"""Architectures of our own recipes, registered with timm under names of their own: import this module before ``timm.create_model``.

``vitrine_hybrid`` is timm's plain Vision Transformer behind residual convolutions: they learn from few photos what a Transformer
would need many for (Xiao et al., "Early Convolutions Help Transformers See Better", NeurIPS 2021).
"""

from __future__ import annotations

import explainers.torchvision_ops  # noqa: F401  (before timm)

# isort: split
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch.nn.functional as F
from timm.models import build_model_with_cfg, generate_default_cfgs, register_model
from timm.models.vision_transformer import VisionTransformer
from timm.models.vision_transformer_hybrid import HybridEmbed
from torch import Tensor, nn


class Residual(nn.Module):
    """Two convolutions of 3 x 3 beside a path that leaves its input as it is; (B, C, H, W) to the same shape."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.norm2 = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)

    def forward(self, x: Tensor) -> Tensor:
        """The sum of both paths, rectified."""
        inner = F.relu(self.norm1(self.conv1(x)))
        return F.relu(x + self.norm2(self.conv2(inner)))


def stem(widths: Sequence[int], depths: Sequence[int]) -> nn.Sequential:
    """(B, 3, H, W) to (B, widths[-1], H / 2**n, W / 2**n): n halvings, each to its width and followed by so many residual blocks."""
    layers: list[nn.Module] = []
    for before, width, depth in zip((3, *widths), widths, depths, strict=False):
        halving = nn.Conv2d(before, width, 3, stride=2, padding=1, bias=False)
        layers += [halving, nn.BatchNorm2d(width), nn.ReLU(), *(Residual(width) for _ in range(depth))]
    return nn.Sequential(*layers)


default_cfgs = generate_default_cfgs({"vitrine_hybrid": {"first_conv": "patch_embed.backbone.0", "classifier": "head"}})


@register_model
def vitrine_hybrid(pretrained: bool = False, **kwargs: Any) -> VisionTransformer:
    """timm's VisionTransformer (its arguments) whose patches are the places of a ``stem`` (``stem_widths``, ``stem_depths``)."""
    embed = partial(HybridEmbed, backbone=stem(kwargs.pop("stem_widths"), kwargs.pop("stem_depths")))
    built = build_model_with_cfg(VisionTransformer, "vitrine_hybrid", pretrained, patch_size=1, embed_layer=embed, **kwargs)
    assert isinstance(built, VisionTransformer)
    return built
