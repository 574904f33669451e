"""Small Vision Transformers of timm as the recipes use them: pixels in, some of the patches removed, folders written and loaded."""

from __future__ import annotations

import embedded.architectures  # noqa: F401  (registers ours with timm)
import explainers.models.libraries.torchvision_ops  # noqa: F401  (before timm)

# isort: split
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import timm
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from timm.layers import resample_abs_pos_embed
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor

from explainers.models.removal.patches import painted


def tensors(images: Tensor, device: str) -> Tensor:
    """uint8 (B, H, W, 3) to float (B, 3, H, W) from -1 to 1."""
    return images.to(device).permute(0, 3, 1, 2).float() / 127.5 - 1


@torch.inference_mode()
def answered(model: VisionTransformer, images: Tensor, batch: int = 32) -> Tensor:
    """What a finished model answers to pictures, uint8 (N, H, W, 3), on the CPU: (N, classes)."""
    model.to("cpu").eval()
    return torch.cat([model(pixels(model, batch_images)) for batch_images in images.split(batch)])


def pixels(model: VisionTransformer, images: Tensor) -> Tensor:
    """uint8 (B, H, W, 3) to float (B, 3, H, W) as the model's configuration says; pictures of another size are made the model's."""
    mean, std = (torch.tensor(model.pretrained_cfg[name]).view(1, 3, 1, 1) for name in ("mean", "std"))
    x = images.permute(0, 3, 1, 2).float() / 255
    side = model.patch_embed.img_size
    if x.shape[-2:] != tuple(side):
        x = F.interpolate(x, side, mode="bicubic", antialias=True).clamp(0, 1)
    return (x - mean) / std


def encode(model: VisionTransformer, pixels: Tensor, kept: Tensor | None = None) -> Tensor:
    """All tokens after the last normalisation, (B, 1 + patches, width); only the patches ``kept`` (B, n) if given.

    Square pictures of another size than the model's get its position embeddings resampled.
    """
    x = model.patch_embed(pixels)
    if x.shape[1] == model.patch_embed.num_patches:
        positions = model.pos_embed
    else:
        positions = resample_abs_pos_embed(model.pos_embed, [math.isqrt(x.shape[1])] * 2, num_prefix_tokens=1)
    return encode_patches(model, x, positions, kept)


def encode_features(model: VisionTransformer, features: Tensor, kept: Tensor | None = None, corner: tuple[int, int] = (0, 0)) -> Tensor:
    """`encode` of what the trunk of a ``vitrine_efficient`` made of pictures: (B, places, channels), places of a square grid.

    A grid smaller than the model's lies in its positions with the upper left ``corner`` (row, column).
    """
    projection = model.patch_embed.proj
    x = F.linear(features, projection.weight.flatten(1), projection.bias)
    side, whole = math.isqrt(x.shape[1]), model.patch_embed.grid_size[0]
    grid = model.pos_embed[:, 1:].view(1, whole, whole, -1)[:, corner[0] : corner[0] + side, corner[1] : corner[1] + side]
    return encode_patches(model, x, torch.cat([model.pos_embed[:, :1], grid.flatten(1, 2)], 1), kept)


def encode_patches(model: VisionTransformer, x: Tensor, positions: Tensor, kept: Tensor | None) -> Tensor:
    """The class token and patches x (B, n, width) with their positions (1, 1 + n, width) through all blocks."""
    x = x + positions[:, 1:]
    if kept is not None:
        x = x.gather(1, kept[..., None].expand(-1, -1, x.shape[-1]))
    x = torch.cat([(model.cls_token + positions[:, :1]).expand(len(x), -1, -1).to(x.dtype), x], 1)
    return model.norm(model.blocks(model.norm_pre(x)))  # type: ignore[no-any-return]


def removed(pixels: Tensor, kept: Tensor, patch: int) -> Tensor:
    """``pixels`` (B, 3, H, W) with all patches, ``patch`` pixels wide, but ``kept`` (B, n) painted grey."""
    grid = pixels.shape[-2] // patch, pixels.shape[-1] // patch
    return painted(pixels, torch.zeros(len(pixels), math.prod(grid), device=pixels.device).scatter_(1, kept, 1.0), grid)


def plain_attention(model: VisionTransformer, device: str) -> None:
    """On a CPU, products of matrices in place of the fused kernel, which takes twice as long for rows this short."""
    for block in model.blocks:
        block.attn.fused_attn = not device.startswith("cpu")


def halved(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights as they are stored: numbers with a fraction as float16, counts as they are."""
    return {name: (value.half() if value.is_floating_point() else value).contiguous() for name, value in weights.items()}


def create(architecture: str, labels: Sequence[str], model_args: dict[str, Any]) -> VisionTransformer:
    """An untrained classifier over ``labels``."""
    model = timm.create_model(architecture, num_classes=len(labels), **model_args)
    assert isinstance(model, VisionTransformer)
    return model


def load(folder: Path) -> VisionTransformer:
    """A trained one, ready to answer."""
    model = timm.create_model(f"local-dir:{folder}", pretrained=True).eval()
    assert isinstance(model, VisionTransformer)
    return model


def save(
    model: VisionTransformer,
    out: Path,
    architecture: str,
    labels: Sequence[str],
    model_args: dict[str, Any],
    mean: float = 0.5,
    std: float = 0.5,
    prefix: int | None = None,
) -> None:
    """Write the folder that ``timm.create_model("local-dir:<out>")`` loads; weights as float16.

    ``mean`` and ``std`` are of pixels from 0 to 1. ``prefix`` is how many tokens stand before the patches, where ``explainers.load`` cannot
    find it out.
    """
    out.mkdir(parents=True, exist_ok=True)
    config = {
        "architecture": architecture,
        "num_classes": len(labels),
        "num_features": model.num_features,
        "global_pool": "token",
        "label_names": list(labels),
        "model_args": model_args,
        "pretrained_cfg": {
            "num_classes": len(labels),
            "label_names": list(labels),
            "input_size": [3, *model.patch_embed.img_size],
            "fixed_input_size": True,
            "interpolation": "bicubic",
            "crop_pct": 1.0,
            "crop_mode": "center",
            "mean": [mean] * 3,
            "std": [std] * 3,
            "pool_size": None,
            "first_conv": model.pretrained_cfg["first_conv"],
            "classifier": "head",
        },
    }
    if prefix is not None:
        config["prefix"] = prefix
    (out / "config.json").write_text(json.dumps(config, indent=1) + "\n", "utf-8")
    save_file(halved(model.state_dict()), out / "model.safetensors", {"format": "pt"})
