"""Tiny random detectors of transformers' own classes, of the families that read maps of several sizes at points that they choose."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import nn

import explainers  # noqa: F401  (before transformers)

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
        module = DETECTORS[name](dict(names)).eval()
        for parameter in module.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=parameter[0].numel() ** -0.5)
    return module.to(dtype)
