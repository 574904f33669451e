"""Class attention as torch alone differentiates it, and what a method says of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor, nn

import explainers
from explainers.models.model import Model

TARGET = 1


@contextmanager
def kept_softmaxes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Tensor]]:
    """Every attention map of torch's own forward pass, its gradient kept."""
    maps: list[Tensor] = []
    softmax = Tensor.softmax

    def keeping(self: Tensor, *args: int, **how: int) -> Tensor:
        out: Tensor = softmax(self, *args, **how)
        out.retain_grad()
        maps.append(out)
        return out

    with monkeypatch.context() as patch:
        patch.setattr(Tensor, "softmax", keeping)
        yield maps


def plain_maps(model: Model, tensors: dict[str, Tensor], monkeypatch: pytest.MonkeyPatch) -> tuple[list[Tensor], list[Tensor]]:
    """The attention maps of the patches' blocks and of class attention, as they meet values, with torch's gradient of the target in
    ``grad``.
    """
    for part in model.module.modules():
        if hasattr(part, "fused_attn"):
            part.fused_attn = False
    for parameter in model.module.parameters():
        parameter.requires_grad_()
    patches = patches_of(model, tensors)
    mixed: list[Tensor] = []

    def keep_mixed(module: nn.Module, args: tuple[Tensor, ...], out: Tensor) -> Tensor:
        maps = out.permute(0, 3, 1, 2)
        maps.retain_grad()
        mixed.append(maps)
        return maps.permute(0, 2, 3, 1)

    mixing = [part.proj_w for part in model.module.modules() if hasattr(part, "proj_w")]  # CaiT's heads talk before they meet values
    handles = [layer.register_forward_hook(keep_mixed) for layer in mixing]
    with kept_softmaxes(monkeypatch) as maps:
        model.forward(tensors)[:, TARGET].sum().backward()
    for handle in handles:
        handle.remove()
    square = mixed or [a for a in maps if a.dim() == 4 and a.shape[-2:] == (patches, patches)][-len(model.blocks) :]
    return square, [a for a in maps if a.dim() == 4 and a.shape[-2:] == (1, 1 + patches)]


def patches_of(model: Model, tensors: dict[str, Tensor]) -> int:
    rows, columns = model.layout_of(tensors).grid or (0, 0)
    return rows * columns


def explained(model: Model, tensors: dict[str, Tensor], spec: str) -> Tensor:
    found = explainers.explain(model, tensors, target=TARGET, methods=[spec])
    return torch.stack([each[spec].scores for each in found]).double()


def close(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs.detach().double(), rtol=1e-5, atol=1e-8)
