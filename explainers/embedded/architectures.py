"""Architectures of our own recipes, registered with timm under names of their own: import this module before ``timm.create_model``.

``vitrine_hybrid`` is timm's plain Vision Transformer after residual convolutions: they learn from few photos what a Transformer
would need many for (Xiao et al., "Early Convolutions Help Transformers See Better", NeurIPS 2021).

``vitrine_efficient`` is timm's plain Vision Transformer after EfficientNet-Lite0 (M. Tan, R. Liu, 2020), whose features are its
patches: the hybrid of Dosovitskiy et al., "An Image is Worth 16x16 Words", ICLR 2021, on a trunk that is small.

``vitrine_named_patches`` is timm's plain Vision Transformer that is blind to all patches but the named ones: its answers are known to come
from these alone.

``vitrine_graph_transformer``, of molecules, is registered by a module of its own.
"""

from __future__ import annotations

import explainers.models.libraries.torchvision_ops

# isort: split
import itertools
from collections.abc import Sequence
from functools import partial
from typing import Any

import timm
import torch
import torch.nn.functional as F
from timm.layers import BatchNormAct2d, PatchEmbed
from timm.models import build_model_with_cfg, generate_default_cfgs, register_model
from timm.models.vision_transformer import VisionTransformer
from timm.models.vision_transformer_hybrid import HybridEmbed
from torch import Tensor, nn

import explainers.embedded.graph_transformer  # noqa: F401


class Residual(nn.Module):
    """A residual block: two convolutions of 3 x 3 with ``width`` channels added to their input, (B, C, H, W) to the same shape."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.norm2 = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)

    def forward(self, x: Tensor) -> Tensor:
        """Return the rectified sum of the input ``x`` (B, C, H, W) and the output of the two convolutions, in the same shape."""
        inner = F.relu(self.norm1(self.conv1(x)))
        return F.relu(x + self.norm2(self.conv2(inner)))


def stem(widths: Sequence[int], depths: Sequence[int]) -> nn.Sequential:
    """Build a convolutional stem, (B, 3, H, W) to (B, widths[-1], H / 2**n, W / 2**n): n = len(``widths``) halvings, each to its width and
    followed by as many residual blocks as ``depths`` says.
    """
    layers: list[nn.Module] = []
    for before, width, depth in zip((3, *widths), widths, depths, strict=False):
        halving = nn.Conv2d(before, width, 3, stride=2, padding=1, bias=False)
        layers += [halving, nn.BatchNorm2d(width), nn.ReLU(), *(Residual(width) for _ in range(depth))]
    return nn.Sequential(*layers)


MEAN, STD = 127 / 255, 128 / 255  # normalisation of pixel values from 0 to 1, as EfficientNet-Lite was trained


def fold_batch_norms(network: nn.Module) -> Any:
    """Fold every batch normalisation of ``network``, a timm EfficientNet, into the convolution before it, in place, and return the
    network.
    """
    for part in list(network.modules()):
        names = [name for name, child in part.named_children() if isinstance(child, nn.Conv2d | BatchNormAct2d)]
        for before, after in itertools.pairwise(names):
            convolution, norm = getattr(part, before), getattr(part, after)
            if isinstance(convolution, nn.Conv2d) and isinstance(norm, BatchNormAct2d):
                _fold(convolution, norm)
                setattr(part, after, norm.act)
    return network


@torch.no_grad()
def _fold(convolution: nn.Conv2d, norm: BatchNormAct2d) -> None:
    factor = norm.weight / (norm.running_var + norm.eps).sqrt()
    convolution.weight.mul_(factor.view(-1, 1, 1, 1))
    bias = torch.zeros_like(norm.bias) if convolution.bias is None else convolution.bias
    convolution.bias = nn.Parameter(norm.bias + (bias - norm.running_mean) * factor)


def efficientnet_trunk(stages: int) -> nn.Sequential:
    """Return EfficientNet-Lite0 up to stage number ``stages`` of its 7, as a module from pictures (B, 3, H, W) to features (B, channels, H
    / 16, W / 16). The last two stages are dilated.
    """
    network = fold_batch_norms(timm.create_model("tf_efficientnet_lite0", output_stride=16))
    return nn.Sequential(network.conv_stem, network.bn1, *network.blocks[:stages])


class NamedPatches(PatchEmbed):  # type: ignore[misc]
    """A patch embedding of timm's that keeps the patches whose number in raster order is in ``read``, and sets all others to zero."""

    def __init__(self, *args: Any, read: Sequence[int], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        is_read = torch.zeros(self.num_patches, 1)
        is_read[list(read)] = 1.0
        self.register_buffer("is_read", is_read)

    def forward(self, x: Tensor) -> Tensor:
        """Return the tokens (B, patches, width) of pictures ``x`` (B, 3, H, W), zero where no patch is read."""
        tokens: Tensor = super().forward(x) * self.is_read
        return tokens


_CONFIG = {"first_conv": "patch_embed.backbone.0", "classifier": "head"}
_PLAIN = {"first_conv": "patch_embed.proj", "classifier": "head"}
default_cfgs = generate_default_cfgs({"vitrine_hybrid": _CONFIG, "vitrine_efficient": _CONFIG, "vitrine_named_patches": _PLAIN})


@register_model  # type: ignore[untyped-decorator]
def vitrine_hybrid(pretrained: bool = False, **kwargs: Any) -> VisionTransformer:
    """Build timm's VisionTransformer (its arguments) whose patches are the places of a ``stem`` (``stem_widths``, ``stem_depths``).
    ``pretrained`` is passed on to timm.
    """
    embed = partial(HybridEmbed, backbone=stem(kwargs.pop("stem_widths"), kwargs.pop("stem_depths")))
    built = build_model_with_cfg(VisionTransformer, "vitrine_hybrid", pretrained, patch_size=1, embed_layer=embed, **kwargs)
    assert isinstance(built, VisionTransformer)
    return built


@register_model  # type: ignore[untyped-decorator]
def vitrine_efficient(pretrained: bool = False, **kwargs: Any) -> VisionTransformer:
    """Build timm's VisionTransformer (its arguments) whose patches are the places of an ``efficientnet_trunk`` of ``trunk_stages`` stages.
    ``pretrained`` is passed on to timm.
    """
    embed = partial(HybridEmbed, backbone=efficientnet_trunk(kwargs.pop("trunk_stages")))
    built = build_model_with_cfg(VisionTransformer, "vitrine_efficient", pretrained, patch_size=1, embed_layer=embed, **kwargs)
    assert isinstance(built, VisionTransformer)
    return built


@register_model  # type: ignore[untyped-decorator]
def vitrine_named_patches(pretrained: bool = False, **kwargs: Any) -> VisionTransformer:
    """Build timm's VisionTransformer (its arguments) that reads the patches numbered ``read``, in raster order, and is blind to the others.
    ``pretrained`` is passed on to timm.
    """
    embed = partial(NamedPatches, read=kwargs.pop("read"))
    built = build_model_with_cfg(VisionTransformer, "vitrine_named_patches", pretrained, embed_layer=embed, **kwargs)
    assert isinstance(built, VisionTransformer)
    return built
