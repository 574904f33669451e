"""Tiny random detectors of transformers' own classes, of the families that read maps of several sizes at points that they choose."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import explainers  # noqa: F401  (before transformers)
from tests.support.vocabularies import bert_pieces

# isort: split
import transformers as hf

NAMES = {0: "dog", 1: "cat", 2: "bird"}
#: What no trunk of a library is to be downloaded for.
_OWN_TRUNK: dict[str, Any] = {"use_pretrained_backbone": False, "use_timm_backbone": False, "backbone": None}
_LEVELS = [16, 24, 32]
_HYBRID: dict[str, Any] = {
    **{"encoder_hidden_dim": 32, "encoder_in_channels": _LEVELS, "encoder_ffn_dim": 32, "encoder_attention_heads": 2},
    **{"d_model": 32, "num_queries": 6, "decoder_in_channels": [32, 32, 32], "decoder_ffn_dim": 32, "decoder_layers": 2},
    **{"decoder_attention_heads": 2, "num_denoising": 0},
}


def _rt_detr(name: str, names: dict[int, str]) -> nn.Module:
    trunk = hf.RTDetrResNetConfig(
        embedding_size=8,
        hidden_sizes=[8, *_LEVELS],
        depths=[1] * 4,
        layer_type="basic",
        out_features=["stage2", "stage3", "stage4"],
    )
    config = getattr(hf, f"{name}Config")(backbone_config=trunk, decoder_n_points=2, id2label=names, **_OWN_TRUNK, **_HYBRID)
    module: nn.Module = getattr(hf, f"{name}ForObjectDetection")(config)
    return module


def _d_fine(names: dict[int, str]) -> nn.Module:
    trunk = hf.HGNetV2Config(
        stem_channels=[3, 8, 8],
        stage_in_channels=[8, 8, 16, 24],
        stage_mid_channels=[8] * 4,
        stage_out_channels=[8, *_LEVELS],
        stage_num_blocks=[1] * 4,
        stage_numb_of_layers=[1] * 4,
        hidden_sizes=[8, *_LEVELS],
        depths=[1] * 4,
        embedding_size=8,
        out_features=["stage2", "stage3", "stage4"],
    )
    return hf.DFineForObjectDetection(
        hf.DFineConfig(backbone_config=trunk, decoder_n_points=[2, 2, 2], max_num_bins=4, id2label=names, **_HYBRID)
    )


def _deformable_detr(two_stage: bool, names: dict[int, str]) -> nn.Module:
    stages = [f"stage{i}" for i in (2, 3, 4)]
    trunk = hf.ResNetConfig(embedding_size=8, hidden_sizes=[8, *_LEVELS], depths=[1] * 4, layer_type="basic", out_features=stages)
    size = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 2, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "num_queries": 6}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_n_points": 2, "decoder_n_points": 2}
    return hf.DeformableDetrForObjectDetection(
        hf.DeformableDetrConfig(
            backbone_config=trunk,
            num_feature_levels=3,
            two_stage_num_proposals=6,
            two_stage=two_stage,
            with_box_refine=two_stage,
            id2label=names,
            **_OWN_TRUNK,
            **size,
            **heads,
        )
    )


def words_of(name: str) -> Any:
    """A tokenizer for a detector that is asked with texts. OWL-ViT reads a text at its highest id, which ends it; Grounding DINO knows the
    ids that end and part texts by BERT's own numbers.
    """
    words = ["a", "good", "bad", "not", "film", "dog"]
    pieces = ["[PAD]", *(f"[unused{i}]" for i in range(1, 1030))]
    for piece, number in (("[UNK]", 100), ("[CLS]", 101), ("[SEP]", 102), ("[MASK]", 103), (".", 1012), ("?", 1029)):
        pieces[number] = piece
    pieces[200 : 200 + len(words)] = words
    if name != "GroundingDinoForObjectDetection":
        pieces = ["[PAD]", "[UNK]", "[CLS]", "[MASK]", ".", *words, "[SEP]"]
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), special, strict=True))
    return hf.PreTrainedTokenizerFast(tokenizer_object=bert_pieces(pieces, special), model_max_length=16, **names)


def _owl(name: str) -> nn.Module:
    size = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = getattr(hf, f"{name}Config")(
        text_config={**size, "vocab_size": 12, "max_position_embeddings": 16, "bos_token_id": 2, "eos_token_id": 11},
        vision_config={**size, "image_size": 64, "patch_size": 16},
        projection_dim=32,
    )
    module: nn.Module = getattr(hf, f"{name}ForObjectDetection")(config)
    return module


def _grounding_dino() -> nn.Module:
    stages = ["stage2", "stage3", "stage4"]
    trunk = hf.SwinConfig(image_size=64, patch_size=4, embed_dim=8, depths=[1] * 4, num_heads=[1] * 4, window_size=2, out_features=stages)
    words = {"vocab_size": 1030, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
    size = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 2, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "num_queries": 6}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_n_points": 2, "decoder_n_points": 2}
    return hf.GroundingDinoForObjectDetection(
        hf.GroundingDinoConfig(
            backbone_config=trunk, text_config=hf.BertConfig(**words), num_feature_levels=3, max_text_len=40, **size, **heads
        )
    )


#: By name, what makes a detector that is asked with texts.
ASKED_WITH_TEXTS: dict[str, Callable[[], nn.Module]] = {
    "OwlViTForObjectDetection": partial(_owl, "OwlViT"),
    "Owlv2ForObjectDetection": partial(_owl, "Owlv2"),
    "GroundingDinoForObjectDetection": _grounding_dino,
}


#: By name, what makes a detector with random weights, of classes with these names.
DETECTORS: dict[str, Callable[[dict[int, str]], nn.Module]] = {
    "RTDetrForObjectDetection": partial(_rt_detr, "RTDetr"),
    "RTDetrV2ForObjectDetection": partial(_rt_detr, "RTDetrV2"),
    "DFineForObjectDetection": _d_fine,
    "DeformableDetrForObjectDetection": partial(_deformable_detr, False),
    "DeformableDetrForObjectDetection of two stages": partial(_deformable_detr, True),
}


def detector(name: str, dtype: torch.dtype = torch.float64, names: Mapping[int, str] = NAMES) -> nn.Module:
    """The detector in eval mode, with weights so large that boxes differ, and classes of these ``names``."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = (ASKED_WITH_TEXTS[name]() if name in ASKED_WITH_TEXTS else DETECTORS[name](dict(names))).eval()
        for parameter in module.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=parameter[0].numel() ** -0.5)
    return module.to(dtype)


class OwnDetector(nn.Module):
    """A detector as small ones of one stage are: for each cell of 16 pixels a box and the logits of its classes, (B, 4 + C, cells)."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.trunk = nn.Sequential(nn.Conv2d(3, 8, 5, 4, 2), nn.BatchNorm2d(8), nn.SiLU(), nn.Conv2d(8, 16, 5, 4, 2), nn.SiLU())
            self.head = nn.Conv2d(16, 4 + 3, 3, 1, 1)
            for part in self.modules():
                if isinstance(part, nn.Conv2d):
                    nn.init.normal_(part.weight, std=1.5 * part.weight[0].numel() ** -0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.trunk(x)).flatten(2)


def of_cells(raw: Tensor) -> tuple[Tensor, Tensor]:
    """Of (4 + C, cells) the boxes, in pixels around the middles of 4 rows of cells, and the scores."""
    middles = torch.cartesian_prod(torch.arange(4), torch.arange(raw.shape[1] // 4)).flip(1).to(raw) * 16 + 8
    low, high = F.softplus(raw[:2].T) * 12, F.softplus(raw[2:4].T) * 12
    return torch.cat([middles - low, middles + high], -1), raw[4:].T.sigmoid()


def boxes_and_scores(output: Tensor) -> tuple[Tensor, Tensor]:
    return of_cells(output[0])
