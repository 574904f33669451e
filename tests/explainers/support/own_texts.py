"""A small classifier of texts of one's own, whose forms tests derive from it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

WIDTH = 16


class Words(nn.Module):
    """A classifier of texts of one's own, whose blocks take what ``before`` makes of the embedded words."""

    def __init__(self, classes: int = 3) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words, self.places = nn.Embedding(60, WIDTH), nn.Embedding(40, WIDTH)
        layer: dict[str, Any] = {"dim_feedforward": 16, "batch_first": True, "dropout": 0.0, "norm_first": True}
        self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(WIDTH, 2, **layer) for _ in range(2))
        self.head = nn.Linear(WIDTH, classes)

    def embed(self, ids: Tensor) -> Tensor:
        embedded: Tensor = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        return embedded

    def before(self, x: Tensor) -> Tensor:
        return x

    def read(self, x: Tensor, ids: Tensor) -> Tensor:
        return x[:, 0]

    def forward(self, input_ids: Tensor) -> Tensor:
        x = self.before(self.embed(input_ids))
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.head(self.read(x, input_ids))
        return logits
