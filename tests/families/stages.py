"""Image models whose tokens change on the way: stages of maps, convolutions, class tokens that come late."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

import explainers.models.libraries.torchvision_ops  # noqa: F401  (before timm and transformers)

# isort: split
import timm
import transformers
from timm.models.volo import _create_volo

from tests.families.family import PATCH, SIZE, Family

GRID = (4, 3)


def _stages(
    name: str,
    make: Callable[[], nn.Module],
    blocks: tuple[str, ...],
    grid: tuple[int, int] = GRID,
    *,
    library: Any = "timm",
    reduction: int = PATCH,
    heads: int | None = 2,
    lossy: bool = False,
) -> Family:
    """A family whose blocks take patches alone, ``reduction`` pixels a side."""
    return Family(
        name=name,
        library=library,
        kind="image",
        make=make,
        blocks=blocks,
        entry=blocks[0],
        prefix=0,
        class_token=None,
        grid=grid,
        size=(grid[0] * reduction, grid[1] * reduction),
        heads=heads,
        mixed=True,
        lossy=lossy,
    )


def _timm(architecture: str, **arguments: Any) -> Callable[[], nn.Module]:
    return lambda: timm.create_model(architecture, pretrained=False, num_classes=5, **arguments)


def _sized(*size: int) -> dict[str, Any]:
    """For models that take any size: the one they say they were made for."""
    return {"pretrained_cfg_overlay": {"input_size": (3, *size)}}


_SWIN = {"img_size": 32, "patch_size": 4, "embed_dim": 12, "depths": (2, 2), "num_heads": (1, 2)}


def _hf_swin() -> nn.Module:
    config = transformers.SwinConfig(
        image_size=32, patch_size=4, embed_dim=12, depths=[2, 2], num_heads=[1, 2], window_size=4, num_labels=5
    )
    return transformers.SwinForImageClassification(config)


def _hf_convnext() -> nn.Module:
    config = transformers.ConvNextConfig(num_stages=2, hidden_sizes=[12, 24], depths=[1, 2], image_size=24, num_labels=5)
    return transformers.ConvNextForImageClassification(config)


STAGES: list[Family] = [
    # windows of the last stage are parts of its map, or the whole of it: then attention is over all its tokens
    _stages("swin", _timm("swin_tiny_patch4_window7_224", window_size=2, **_SWIN), ("layers.1.blocks.0", "layers.1.blocks.1"), (4, 4)),
    _stages(
        "swin-whole", _timm("swin_tiny_patch4_window7_224", window_size=4, **_SWIN), ("layers.1.blocks.0", "layers.1.blocks.1"), (4, 4)
    ),
    _stages(
        "convnext",
        _timm("convnext_tiny", dims=(4, 8, 12, 24), depths=(1, 1, 1, 2), **_sized(128, 96)),
        ("stages.3.blocks.0", "stages.3.blocks.1"),
        reduction=32,
        heads=None,
        lossy=True,
    ),
    _stages(
        "convnextv2",
        _timm("convnextv2_tiny", dims=(4, 8, 12, 24), depths=(1, 1, 1, 2), **_sized(128, 96)),
        ("stages.3.blocks.0", "stages.3.blocks.1"),
        reduction=32,
        heads=None,
        lossy=True,
    ),
    _stages(
        "resnet",
        _timm("resnet18", layers=(1, 1, 1, 3), channels=(8, 8, 12, 24), **_sized(128, 96)),
        ("layer4.1", "layer4.2"),
        reduction=32,
        heads=None,
    ),
    _stages(
        "resnet-deep-stem",  # convolutions in the stem, average pooling in the short cuts
        _timm("resnet50d", layers=(1, 1, 1, 3), channels=(2, 2, 3, 6), **_sized(128, 96)),
        ("layer4.1", "layer4.2"),
        reduction=32,
        heads=None,
        lossy=True,
    ),
    _stages(
        "efficientvit",  # linear attention over three scales of tokens, in half of the blocks
        _timm("efficientvit_b0", widths=(4, 6, 8, 12, 24), depths=(1, 1, 1, 2, 2), head_dim=4, head_widths=(24, 20), **_sized(128, 96)),
        tuple(f"stages.3.blocks.{block}.{part}_module" for block in (1, 2) for part in ("context", "local")),
        reduction=32,
        heads=None,
        lossy=True,
    ),
    # a class token that only the last blocks have
    _stages(
        "cait",
        _timm("cait_xxs24_224", img_size=SIZE, patch_size=PATCH, embed_dim=24, depth=2, num_heads=2),
        ("blocks.0", "blocks.1"),
        lossy=True,
    ),
    _stages(
        "xcit",  # attention over channels, of which a head has as many as there are tokens
        _timm("xcit_nano_12_p8_224", img_size=SIZE, embed_dim=24, depth=2, num_heads=2),
        ("blocks.0", "blocks.1"),
        lossy=True,
    ),
    _stages(
        "volo",
        lambda: _create_volo(
            "volo_d1_224",
            layers=(1, 1, 1, 1),
            embed_dims=(12, 24, 24, 24),
            num_heads=(2, 2, 2, 2),
            stem_hidden_dim=8,
            img_size=(64, 48),
            num_classes=5,
            **_sized(64, 48),
        ),
        ("network.2.0", "network.3.0", "network.4.0"),
        reduction=16,
    ),
    _stages("hf-swin", _hf_swin, ("swin.encoder.layers.1.blocks.0", "swin.encoder.layers.1.blocks.1"), (4, 4), library="transformers"),
    _stages(
        "hf-convnext",
        _hf_convnext,
        ("convnext.encoder.stages.1.layers.0", "convnext.encoder.stages.1.layers.1"),
        (3, 3),
        library="transformers",
        heads=None,
        lossy=True,
    ),
]
