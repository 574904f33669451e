"""A ViT written by hand, whose MLP is one of two experts and that may write into its pictures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from explainers import Preprocessing

D = 16
RECIPE = Preprocessing((32, 32), fit="squash")


class Experts(nn.Module):
    """Two experts, of which all tokens go to the first."""

    def __init__(self, has_idle: bool) -> None:
        super().__init__()
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(D, 2 * D), nn.GELU(), nn.Linear(2 * D, D)) for _ in range(2))
        self.has_idle = has_idle

    def forward(self, x: Tensor) -> Tensor:
        rows, out = x.flatten(0, 1), torch.zeros_like(x.flatten(0, 1))
        chosen = torch.zeros(len(rows), dtype=torch.long)
        for number, expert in enumerate(self.experts):
            if number and not self.has_idle:
                break
            (places,) = torch.where(chosen == number)
            out = out.index_add(0, places, expert(rows[places]))
        return out.view_as(x)


class Block(nn.Module):
    def __init__(self, has_idle: bool) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.qkv, self.proj, self.mlp = nn.Linear(D, 3 * D), nn.Linear(D, D), Experts(has_idle)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, 2, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        out: Tensor = x + self.mlp(self.norm2(x))
        return out


class ViT(nn.Module):
    def __init__(self, has_idle: bool = False, write: Callable[[Tensor], Any] = lambda x: None) -> None:
        super().__init__()
        self.patch, self.cls, self.pos = nn.Conv2d(3, D, 8, 8), nn.Parameter(torch.randn(1, 1, D)), nn.Parameter(torch.randn(1, 17, D))
        self.blocks, self.norm, self.head = nn.ModuleList(Block(has_idle) for _ in range(2)), nn.LayerNorm(D), nn.Linear(D, 5)
        self.write = write

    def forward(self, x: Tensor) -> Tensor:
        self.write(x)
        x = self.patch(x).flatten(2).mT
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], 1) + self.pos
        for block in self.blocks:
            x = block(x)
        out: Tensor = self.head(self.norm(x)[:, 0])
        return out
