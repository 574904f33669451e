"""Image models of timm and transformers, and dual encoders."""

from __future__ import annotations

from typing import Any

from torch import nn

import explainers.models.libraries.torchvision_ops  # noqa: F401  (before timm and transformers)

# isort: split
import timm
import transformers
from timm.layers import GluMlp  # type: ignore[attr-defined]
from timm.models.mlp_mixer import MlpMixer

from tests.families.family import PATCH, SHAPE, SIZE, SQUARE, TEXT, Family


def _timm(name: str, architecture: str, prefix: int, class_token: int | None, entry: str = "blocks.0", **arguments: Any) -> Family:
    shape: dict[str, Any] = {
        "embed_dim": 24,
        "depth": 2,
        "num_heads": 2,
        "img_size": SIZE,
        "patch_size": PATCH,
        "num_classes": 5,
    }
    return Family(
        name=name,
        library="timm",
        kind="image",
        make=lambda: timm.create_model(architecture, pretrained=False, **(shape | arguments)),
        blocks=("blocks.0", "blocks.1"),
        entry=entry,
        prefix=prefix,
        class_token=class_token,
        grid=(SIZE[0] // PATCH, SIZE[1] // PATCH),
    )


def _nested(name: str, architecture: str, mixed: bool) -> Family:
    """A Transformer in Transformer: four tokens of width 8 inside each patch."""
    shape: dict[str, Any] = {"embed_dim": 24, "inner_dim": 8, "depth": 2, "num_heads_inner": 4, "num_heads_outer": 2}
    return Family(
        name=name,
        library="timm",
        kind="image",
        make=lambda: timm.create_model(architecture, pretrained=False, num_classes=5, img_size=SIZE, patch_size=PATCH, **shape),
        blocks=("blocks.0", "blocks.1"),
        entry="blocks.0",
        prefix=1,
        class_token=0,
        grid=(SIZE[0] // PATCH, SIZE[1] // PATCH),
        mixed=mixed,
        row=24 + 4 * 8,
        lossy=True,  # tokens of width 8 inside patches
    )


def _branched(name: str, **arguments: Any) -> Family:
    """5 x 5 patches, and 3 x 3 of the image made smaller: no large patch is made of whole small ones."""
    shape: dict[str, Any] = {"embed_dim": (24, 16), "depth": ((1, 1, 0), (1, 1, 0)), "num_heads": (2, 4), "mlp_ratio": (2, 2, 1)}
    return Family(
        name=name,
        library="timm",
        kind="image",
        make=lambda: timm.create_model(
            "crossvit_tiny_240", num_classes=5, img_size=40, img_scale=(1.0, 0.75), patch_size=(8, 10), **(shape | arguments)
        ),
        blocks=("blocks.0", "blocks.1"),
        entry="blocks.0",
        prefix=2,
        class_token=0,
        grid=(5, 5),
        size=(40, 40),
        mixed=True,
        row=24 + 16,
        coarser=((3, 3),),
    )


def _mixer(name: str, **arguments: Any) -> Family:
    shape: dict[str, Any] = {"embed_dim": 24, "num_blocks": 2, "img_size": SIZE, "patch_size": PATCH, "num_classes": 5}
    return Family(
        name=name,
        library="timm",
        kind="image",
        make=lambda: MlpMixer(**(shape | arguments)),
        blocks=("blocks.0", "blocks.1"),
        entry="blocks.0",
        prefix=0,
        class_token=None,
        grid=(SIZE[0] // PATCH, SIZE[1] // PATCH),
        heads=None,
        lossy=True,
    )


def _gated_mixer() -> Family:
    return _mixer("gmixer", mlp_layer=GluMlp, act_layer=nn.SiLU, mlp_ratio=(1.0, 4.0))


def _image(
    name: str,
    model: str,
    config: str,
    blocks: str,
    *,
    token: int | None,
    prefix: int,
    size: tuple[int, int] = SIZE,
    **arguments: Any,
) -> Family:
    def make() -> nn.Module:
        made = getattr(transformers, config)(**(SHAPE | {"image_size": size, "patch_size": PATCH, "num_labels": 5} | arguments))
        return getattr(transformers, model)(made)  # type: ignore[no-any-return]

    return Family(
        name=name,
        library="transformers",
        kind="image",
        make=make,
        blocks=(f"{blocks}.0", f"{blocks}.1"),
        entry=f"{blocks}.0",
        prefix=prefix,
        class_token=token,
        grid=(size[0] // PATCH, size[1] // PATCH),
        size=size,
    )


def _towers(config: str) -> Any:
    text = SHAPE | {k: v for k, v in TEXT.items() if k != "num_labels"}
    vision = SHAPE | {"image_size": SQUARE[0], "patch_size": PATCH}
    if config == "Siglip2Config":
        vision = SHAPE | {"num_patches": 16, "patch_size": PATCH}
    extra = {"projection_dim": 16} if config == "CLIPConfig" else {"num_labels": 5}
    if config.startswith("Siglip"):
        text["projection_size"] = SHAPE["hidden_size"]
    return getattr(transformers, config)(text_config=text, vision_config=vision, **extra)


def _dual(name: str, model: str, config: str, *, entry: str, prefix: int, token: int | None, kind: Any = "clip") -> Family:
    return Family(
        name=name,
        library="transformers",
        kind=kind,
        make=lambda: getattr(transformers, model)(_towers(config)),
        blocks=("vision_model.encoder.layers.0", "vision_model.encoder.layers.1"),
        entry=entry,
        prefix=prefix,
        class_token=token,
        grid=(4, 4),
        size=SQUARE,
    )


VISION: list[Family] = [
    _timm("vit", "vit_tiny_patch16_224", 1, 0),
    _timm("deit3", "deit3_small_patch16_224", 1, 0),
    _timm("deit-distilled", "deit_tiny_distilled_patch16_224", 2, 0),
    _timm("eva02", "eva02_tiny_patch14_224", 1, None),  # SwiGLU, rotary positions, mean pooling
    _timm("eva02-base", "eva02_base_patch14_224", 1, None),  # with a norm inside SwiGLU, separate q, k and v
    _timm("beitv2", "beitv2_base_patch16_224", 1, None),
    _timm("flexivit", "flexivit_small", 1, 0),
    _timm("siglip", "vit_base_patch16_siglip_224", 0, None),  # attention pooling
    _timm("siglip-gap", "vit_base_patch16_siglip_gap_224", 0, None),
    _timm("clip-vit", "vit_base_patch32_clip_224", 1, 0, entry="norm_pre"),
    _timm("registers-gap", "vit_medium_patch16_reg4_gap_256", 4, None),
    _timm("dinov2-reg", "vit_small_patch14_reg4_dinov2", 5, 0),
    _timm("dinov3", "vit_small_patch16_dinov3", 5, None),
    _timm("dinov3-token", "vit_small_patch16_dinov3", 5, 0, global_pool="token"),
    _nested("tnt", "tnt_s_patch16_224", mixed=False),
    _nested("tnt-legacy", "tnt_s_legacy_patch16_224", mixed=True),  # its first convolution is over the whole image
    _branched("crossvit"),
    _mixer("mixer"),
    _gated_mixer(),
    _image("hf-vit", "ViTForImageClassification", "ViTConfig", "vit.layers", prefix=1, token=0),
    _image("hf-deit", "DeiTForImageClassification", "DeiTConfig", "deit.layers", prefix=2, token=0),
    _image("hf-deit-distilled", "DeiTForImageClassificationWithTeacher", "DeiTConfig", "deit.layers", prefix=2, token=0),
    _image(
        "hf-beit",
        "BeitForImageClassification",
        "BeitConfig",
        "beit.layers",
        prefix=1,
        token=None,
        use_relative_position_bias=True,
    ),
    _image(
        "hf-dinov2-reg",
        "Dinov2WithRegistersForImageClassification",
        "Dinov2WithRegistersConfig",
        "dinov2_with_registers.encoder.layer",
        prefix=5,
        token=0,
        size=SQUARE,
    ),
    _image("hf-dinov2", "Dinov2ForImageClassification", "Dinov2Config", "dinov2.encoder.layer", prefix=1, token=0, size=SQUARE),
    _dual(
        "hf-clip-classifier",
        "CLIPForImageClassification",
        "CLIPConfig",
        entry="vision_model.pre_layrnorm",
        prefix=1,
        token=None,
        kind="image",
    ),
    _dual("hf-clip", "CLIPModel", "CLIPConfig", entry="vision_model.pre_layrnorm", prefix=1, token=0),
    _dual("hf-siglip", "SiglipModel", "SiglipConfig", entry="vision_model.encoder.layers.0", prefix=0, token=None),
    # takes images as rows of patches with their places
    _dual("hf-siglip2", "Siglip2Model", "Siglip2Config", entry="vision_model.encoder.layers.0", prefix=0, token=None),
    _dual(
        "hf-siglip2-classifier",
        "Siglip2ForImageClassification",
        "Siglip2Config",
        entry="vision_model.encoder.layers.0",
        prefix=0,
        token=None,
        kind="image",
    ),
    _dual(
        "hf-siglip-classifier",
        "SiglipForImageClassification",
        "SiglipConfig",
        entry="vision_model.encoder.layers.0",
        prefix=0,
        token=None,
        kind="image",
    ),
]
