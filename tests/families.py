"""Tiny random models of every family that Vitrine promises to explain, and what ``wrap`` must find in each.

One table for all tests::

    from tests.families import FAMILIES
    family = FAMILIES["deit3"]
    module = family.build(seed=0)           # eval mode, float32, every parameter made non-trivial
    tensors = family.inputs(batch=2, seed=1)  # what Model.forward takes
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

import explainers.torchvision_ops  # noqa: F401  (before timm and transformers)

# isort: split
import timm
import transformers
from timm.layers import GluMlp  # type: ignore[attr-defined]
from timm.models.mlp_mixer import MlpMixer

SIZE = (32, 24)  # height, width of images; 8 x 8 patches lie in 4 rows and 3 columns
SQUARE = (32, 32)
PATCH = 8
TEXT_LENGTH = 9
VOCABULARY = 64
CLASS, SEPARATOR, PADDING, FIRST_WORD = 2, 3, 1, 5  # ids of the special tokens of texts, and of the first ordinary one


@dataclass(frozen=True)
class Family:
    """One row: how to build the model and what ``wrap`` must say about it.

    entry   dotted name of the module whose first argument is x^1, inside the explained model
    blocks  dotted name of every block, in order; ALBERT repeats one block
    """

    name: str
    library: Literal["timm", "transformers"]
    kind: Literal["image", "text", "clip"]
    make: Callable[[], nn.Module]
    blocks: tuple[str, ...]
    entry: str
    prefix: int
    class_token: int | None
    grid: tuple[int, int] | None
    size: tuple[int, int] = SIZE

    def build(self, seed: int = 0) -> nn.Module:
        """The model in eval mode; LayerScale, biases and positions are not the zeros they start as."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            module = self.make()
            with torch.no_grad():
                for parameter in module.parameters():
                    parameter.add_(torch.randn_like(parameter) * (0.2 if parameter.dim() <= 1 else 0.1))
        return module.eval()

    def inputs(self, batch: int = 2, seed: int = 0) -> dict[str, Tensor]:
        """Random tensors for ``Model.forward``; of several texts, the last is shorter and padded."""
        generator = torch.Generator().manual_seed(seed)
        tensors: dict[str, Tensor] = {}
        if self.kind != "text":
            tensors["pixel_values"] = torch.randn(batch, 3, *self.size, generator=generator)
        if self.kind != "image":
            tensors |= texts(batch, generator)
        return tensors


def texts(batch: int, generator: torch.Generator) -> dict[str, Tensor]:
    """[CLS] words [SEP] padding, and their attention mask."""
    ids = torch.randint(FIRST_WORD, VOCABULARY, (batch, TEXT_LENGTH), generator=generator)
    mask = torch.ones_like(ids)
    ids[:, 0] = CLASS
    for row in range(batch):
        length = TEXT_LENGTH - 3 if row and row == batch - 1 else TEXT_LENGTH
        ids[row, length - 1] = SEPARATOR
        ids[row, length:] = PADDING
        mask[row, length:] = 0
    return {"input_ids": ids, "attention_mask": mask}


def _timm(
    name: str, architecture: str, prefix: int, class_token: int | None, entry: str = "blocks.0", **arguments: Any
) -> Family:
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
    )


def _gated_mixer() -> Family:
    return _mixer("gmixer", mlp_layer=GluMlp, act_layer=nn.SiLU, mlp_ratio=(1.0, 4.0))


_SHAPE: dict[str, Any] = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
_TEXT: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 20,
    "num_labels": 3,
    "pad_token_id": PADDING,
    "bos_token_id": CLASS,
    "eos_token_id": SEPARATOR,
}


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
        made = getattr(transformers, config)(
            **(_SHAPE | {"image_size": size, "patch_size": PATCH, "num_labels": 5} | arguments)
        )
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


def _text(name: str, model: str, config: str, blocks: tuple[str, ...], **arguments: Any) -> Family:
    def make() -> nn.Module:
        return getattr(transformers, model)(getattr(transformers, config)(**(_TEXT | arguments)))  # type: ignore[no-any-return]

    return Family(
        name=name,
        library="transformers",
        kind="text",
        make=make,
        blocks=blocks,
        entry=blocks[0],
        prefix=1,
        class_token=0,
        grid=None,
    )


def _towers(config: str) -> Any:
    text = _SHAPE | {k: v for k, v in _TEXT.items() if k != "num_labels"}
    vision = _SHAPE | {"image_size": SQUARE[0], "patch_size": PATCH}
    extra = {"projection_dim": 16} if config == "CLIPConfig" else {"num_labels": 5}
    if config == "SiglipConfig":
        text["projection_size"] = _SHAPE["hidden_size"]
    return getattr(transformers, config)(text_config=text, vision_config=vision, **extra)


def _dual(
    name: str, model: str, config: str, *, entry: str, prefix: int, token: int | None, kind: Any = "clip"
) -> Family:
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


_ALL: list[Family] = [
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
    _timm("dinov2-reg", "vit_small_patch14_reg4_dinov2", 5, 0),
    _timm("dinov3", "vit_small_patch16_dinov3", 5, None),
    _timm("dinov3-token", "vit_small_patch16_dinov3", 5, 0, global_pool="token"),
    _mixer("mixer"),
    _gated_mixer(),
    _image("hf-vit", "ViTForImageClassification", "ViTConfig", "vit.layers", prefix=1, token=0),
    _image("hf-deit", "DeiTForImageClassification", "DeiTConfig", "deit.layers", prefix=2, token=0),
    _image(
        "hf-deit-distilled", "DeiTForImageClassificationWithTeacher", "DeiTConfig", "deit.layers", prefix=2, token=0
    ),
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
    _dual("hf-clip", "CLIPModel", "CLIPConfig", entry="vision_model.pre_layrnorm", prefix=1, token=0),
    _dual("hf-siglip", "SiglipModel", "SiglipConfig", entry="vision_model.encoder.layers.0", prefix=0, token=None),
    _dual(
        "hf-siglip-classifier",
        "SiglipForImageClassification",
        "SiglipConfig",
        entry="vision_model.encoder.layers.0",
        prefix=0,
        token=None,
        kind="image",
    ),
    _text(
        "bert",
        "BertForSequenceClassification",
        "BertConfig",
        ("bert.encoder.layer.0", "bert.encoder.layer.1"),
        **_SHAPE,
    ),
    _text(
        "distilbert",
        "DistilBertForSequenceClassification",
        "DistilBertConfig",
        ("distilbert.transformer.layer.0", "distilbert.transformer.layer.1"),
        dim=24,
        n_layers=2,
        n_heads=2,
        hidden_dim=48,
    ),
    _text(
        "roberta",
        "RobertaForSequenceClassification",
        "RobertaConfig",
        ("roberta.encoder.layer.0", "roberta.encoder.layer.1"),
        **_SHAPE,
    ),
    _text(
        "electra",
        "ElectraForSequenceClassification",
        "ElectraConfig",
        ("electra.encoder.layer.0", "electra.encoder.layer.1"),
        embedding_size=16,
        **_SHAPE,
    ),
    _text(
        "albert",
        "AlbertForSequenceClassification",
        "AlbertConfig",
        ("albert.encoder.albert_layer_groups.0.albert_layers.0",) * 2,
        embedding_size=16,
        **_SHAPE,
    ),
]
#: name -> family; ``[pytest.param(f, id=f.name) for f in FAMILIES.values()]`` makes a test of each.
FAMILIES: dict[str, Family] = {family.name: family for family in _ALL}
