"""Small Vision Transformers of timm as the recipes use them: pixels in, some of the patches removed, folders written and loaded."""

from __future__ import annotations

import explainers.embedded.architectures
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

from explainers.models.removal.patches import paint_patches


def tensors(images: Tensor, device: str) -> Tensor:
    """Convert pictures, ``images`` uint8 (B, H, W, 3), to float (B, 3, H, W) from -1 to 1 on ``device``, and return them."""
    return images.to(device).permute(0, 3, 1, 2).float() / 127.5 - 1


@torch.inference_mode()
def answer(model: VisionTransformer, images: Tensor, batch: int = 32) -> Tensor:
    """Return the logits (N, classes) of a finished ``model`` for pictures, the ``images``, uint8 (N, H, W, 3), on the CPU."""
    model.to("cpu").eval()
    return torch.cat([model(pixels(model, batch_images)) for batch_images in images.split(batch)])


def pixels(model: VisionTransformer, images: Tensor) -> Tensor:
    """Convert pictures, ``images`` uint8 (B, H, W, 3), to the input of ``model``, float (B, 3, H, W), normalised and resized to the model's
    size, and return them.
    """
    mean, std = (torch.tensor(model.pretrained_cfg[name]).view(1, 3, 1, 1) for name in ("mean", "std"))
    x = images.permute(0, 3, 1, 2).float() / 255
    side = model.patch_embed.img_size
    if x.shape[-2:] != tuple(side):
        x = F.interpolate(x, side, mode="bicubic", antialias=True).clamp(0, 1)
    return (x - mean) / std


def encode(model: VisionTransformer, pixels: Tensor, kept: Tensor | None = None) -> Tensor:
    """Return all tokens of ``model`` after the last normalisation, (B, 1 + patches, width), for its input ``pixels`` (B, 3, H, W), of only
    the patches ``kept`` (B, n) where given.

    Square pictures of another size than the model's get its position embeddings resampled.
    """
    x = model.patch_embed(pixels)
    if x.shape[1] == model.patch_embed.num_patches:
        positions = model.pos_embed
    else:
        positions = resample_abs_pos_embed(model.pos_embed, [math.isqrt(x.shape[1])] * 2, num_prefix_tokens=1)
    return encode_patches(model, x, positions, kept)


def encode_features(model: VisionTransformer, features: Tensor, kept: Tensor | None = None, corner: tuple[int, int] = (0, 0)) -> Tensor:
    """Return all tokens of ``model`` after the last normalisation, as `encode` does, from the trunk's ``features`` (B, places, channels) of
    a square grid.

    Only the patches ``kept`` (B, n) are read where given. A grid smaller than the model's lies in its positions with the upper left
    ``corner`` (row, column).
    """
    projection = model.patch_embed.proj
    x = F.linear(features, projection.weight.flatten(1), projection.bias)
    side, whole = math.isqrt(x.shape[1]), model.patch_embed.grid_size[0]
    grid = model.pos_embed[:, 1:].view(1, whole, whole, -1)[:, corner[0] : corner[0] + side, corner[1] : corner[1] + side]
    return encode_patches(model, x, torch.cat([model.pos_embed[:, :1], grid.flatten(1, 2)], 1), kept)


def encode_patches(model: VisionTransformer, x: Tensor, positions: Tensor, kept: Tensor | None) -> Tensor:
    """Run the class token and patches ``x`` (B, n, width), with their ``positions`` (1, 1 + n, width), through all blocks of ``model``, and
    return (B, 1 + n, width); of only the patches ``kept`` (B, n) where given.
    """
    x = x + positions[:, 1:]
    if kept is not None:
        x = x.gather(1, kept[..., None].expand(-1, -1, x.shape[-1]))
    x = torch.cat([(model.cls_token + positions[:, :1]).expand(len(x), -1, -1).to(x.dtype), x], 1)
    return model.norm(model.blocks(model.norm_pre(x)))  # type: ignore[no-any-return]


def paint_removed(pixels: Tensor, kept: Tensor, patch: int) -> Tensor:
    """Return a copy of ``pixels`` (B, 3, H, W) with all patches, ``patch`` pixels wide, painted grey except those numbered ``kept`` (B,
    n).
    """
    grid = pixels.shape[-2] // patch, pixels.shape[-1] // patch
    return paint_patches(pixels, torch.zeros(len(pixels), math.prod(grid), device=pixels.device).scatter_(1, kept, 1.0), grid)


def plain_attention(model: VisionTransformer, device: str) -> None:
    """Make the blocks of ``model`` multiply matrices in place of the fused attention kernel if ``device`` is a CPU, where that takes twice
    as long for rows this short.
    """
    for block in model.blocks:
        block.attn.fused_attn = not device.startswith("cpu")


def to_half(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Convert ``weights`` to the stored form, and return them by name: floating-point tensors as float16, counts as they are."""
    return {name: (value.half() if value.is_floating_point() else value).contiguous() for name, value in weights.items()}


def create(architecture: str, labels: Sequence[str], model_args: dict[str, Any]) -> VisionTransformer:
    """Return an untrained classifier with the classes ``labels``: timm's ``architecture``, built with the arguments ``model_args``."""
    model = timm.create_model(architecture, num_classes=len(labels), **model_args)
    assert isinstance(model, VisionTransformer)
    return model


def load(folder: Path) -> VisionTransformer:
    """Return the trained classifier in ``folder``, ready to answer."""
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
    """Write ``model``, built as timm's ``architecture`` with ``model_args``, and its ``labels`` to the folder ``out``, which
    ``timm.create_model("local-dir:<out>")`` loads; weights as float16.

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
    save_file(to_half(model.state_dict()), out / "model.safetensors", {"format": "pt"})
