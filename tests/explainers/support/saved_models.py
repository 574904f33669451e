"""Tiny models as libraries and the hub's cache keep them."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save_file

import explainers.models.libraries.torchvision_ops  # noqa: F401  (before timm and transformers)

# isort: split
import transformers

from tests.families import FAMILIES
from tests.support.vocabularies import wordpiece

TINY = {"embed_dim": 24, "depth": 2, "num_heads": 2, "img_size": [32, 24], "patch_size": 8}
COMMIT = "0123456789abcdef0123456789abcdef01234567"
REGISTERED = "test_vit.r160_in1k"  # timm's own tiny test model


def save_timm(folder: Path, half: bool = False) -> torch.nn.Module:
    """As timm's hub layout has it: config.json with the architecture, and the weights."""
    module = FAMILIES["vit"].build()
    cfg = {"input_size": [3, 32, 24], "mean": [0.5] * 3, "std": [0.5] * 3, "interpolation": "bicubic", "crop_pct": 1.0, "num_classes": 5}
    labels = ["ant", "bee", "cat", "dog", "eel"]
    config = {"architecture": "vit_tiny_patch16_224", "num_classes": 5, "model_args": TINY, "label_names": labels, "pretrained_cfg": cfg}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    save_file({name: t.half() if half else t for name, t in module.state_dict().items()}, folder / "model.safetensors")
    return module


def save_transformers(folder: Path, family: str = "bert", half: bool = False) -> torch.nn.Module:
    module = FAMILIES[family].build()
    if family == "bert":
        module.config.id2label = {0: "bad", 1: "middling", 2: "good"}
    (module.half() if half else module).save_pretrained(folder)
    if FAMILIES[family].kind != "image":
        wordpiece().save_pretrained(folder)
    if FAMILIES[family].kind != "text":
        size = {"height": FAMILIES[family].size[0], "width": FAMILIES[family].size[1]}
        transformers.ViTImageProcessorPil(size=size).save_pretrained(folder)
    return module


def cache_folder(cache: Path, repository: str) -> Path:
    """Where the hub's client keeps ``repository``: a snapshot of a commit that the branch main points to."""
    place = cache / f"models--{repository.replace('/', '--')}"
    (place / "refs").mkdir(parents=True)
    (place / "refs" / "main").write_text(COMMIT)
    folder = place / "snapshots" / COMMIT
    folder.mkdir(parents=True)
    return folder
