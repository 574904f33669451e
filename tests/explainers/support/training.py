"""A small Vision Transformer with dropout, pictures, and everything that a training must find as it left it."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import timm
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import explainers
from tests.explainers.support.collected import LABELS, picture
from tests.explainers.support.saved_models import TINY

WRAPPING: dict[str, Any] = {"labels": LABELS, "preprocess": explainers.Preprocessing(resize=(32, 24), mean=(0.5,) * 3, std=(0.5,) * 3)}


def tiny_with_dropout(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    sizes: dict[str, Any] = TINY
    return timm.create_model("vit_tiny_patch16_224", num_classes=5, proj_drop_rate=0.2, drop_rate=0.2, **sizes)  # type: ignore[no-any-return]


def batch(step: int) -> tuple[Tensor, Tensor]:
    pixels = torch.stack([torch.from_numpy(np.asarray(picture(10 * step + i)).copy()).permute(2, 0, 1) for i in range(4)])
    return pixels.float() / 127.5 - 1, torch.arange(4)


def loss_of(module: nn.Module, step: int) -> Tensor:
    x, y = batch(step)
    return F.cross_entropy(module(x + 0.01 * torch.randn_like(x) * random.random() * float(np.random.random())), y)


def states(module: nn.Module) -> list[Any]:
    """All that a training goes on from, as plain values."""
    return [
        [each.training for each in module.modules()],
        [(each.requires_grad, each.data_ptr(), None if each.grad is None else each.grad.tolist()) for each in module.parameters()],
        [each.tolist() for each in (*module.parameters(), *module.buffers())],
        [
            (each._forward_hooks, each._forward_pre_hooks, each._backward_hooks, "forward" in vars(each))
            for each in map(_hooked, module.modules())
        ],
        torch.get_rng_state().tolist(),
        random.getstate(),
        [str(part) for part in np.random.get_state()],
        (torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")),
    ]


def _hooked(module: nn.Module) -> Any:
    return module
