"""Patch embeddings that compute what a convolution does, written in another way: rules that ask for layers, and z^B, give the same maps."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.explainers.support.attention_forms import CLASSES, WIDTH, built, pixels, plain_blocks, scores

SIDE, STEP, PADDING, GRID = 8, 4, 2, 8
#: Rules that the bias, the kind of layer or the bounds of the pixels decide on.
SPECS = (
    "lrp",
    "input_x_gradient:attnlrp-epsilon?at=pixels",
    "input_x_gradient:cp-lrp-gamma?at=pixels",
    "input_x_gradient:pa-lrp?at=pixels",
)
Embed = Callable[[Tensor, Tensor, Tensor], Tensor]  # from an image, a weight and a bias to (B, D, rows, columns)


def _as_map(tokens: Tensor) -> Tensor:
    return tokens.mT.unflatten(-1, (GRID, GRID))


def by_convolution(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.conv2d(x, weight, bias, STEP, PADDING)


def by_padded_convolution(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.conv2d(F.pad(x, (PADDING,) * 4), weight, bias, STEP)


def by_unfold(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return _as_map(F.linear(F.unfold(x, SIDE, stride=STEP, padding=PADDING).mT, weight.flatten(1), bias))


def by_tensor_unfold(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    cut = F.pad(x, (PADDING,) * 4).unfold(2, SIDE, STEP).unfold(3, SIDE, STEP)
    return _as_map(F.linear(cut.permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2), weight.flatten(1), bias))


def by_pieces(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    x = F.pad(x, (PADDING,) * 4)
    places = [(i * STEP, j * STEP) for i in range(GRID) for j in range(GRID)]
    return _as_map(F.linear(torch.stack([x[..., i : i + SIDE, j : j + SIDE].flatten(1) for i, j in places], 1), weight.flatten(1), bias))


def by_product_and_sum(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return _as_map((weight.flatten(1) @ F.unfold(x, SIDE, stride=STEP, padding=PADDING)).mT + bias)


def by_einsum(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    cut = F.pad(x, (PADDING,) * 4).unfold(2, SIDE, STEP).unfold(3, SIDE, STEP)
    return torch.einsum("bcpqij,dcij->bdpq", cut, weight) + bias[:, None, None]


class Embedded(nn.Module):
    """A ViT whose patches, already normalised inside, are embedded by ``embed``, and by a second layer if ``is_deep``."""

    def __init__(self, embed: Embed, is_deep: bool) -> None:
        super().__init__()
        self.embed, self.is_deep = embed, is_deep
        self.patch, self.deep = nn.Conv2d(3, WIDTH, SIDE, STEP, PADDING), nn.Conv2d(WIDTH, WIDTH, 1)
        self.pos = nn.Parameter(torch.randn(1, GRID**2, WIDTH))
        self.blocks, self.norm, self.head = nn.ModuleList(plain_blocks()), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed((x - 0.4) / 0.3 if self.is_deep else x, self.patch.weight, self.patch.bias).flatten(2)
        if self.is_deep:
            x, weight = F.gelu(x), self.deep.weight
            x = F.conv1d(x, weight[..., 0], self.deep.bias) if self.embed is by_convolution else self._layer(x.mT).mT
        x = x.mT + self.pos
        for block in self.blocks:
            x = block(x)
        out: Tensor = self.head(self.norm(x).mean(1))
        return out

    def _layer(self, x: Tensor) -> Tensor:
        return F.linear(x, self.deep.weight[..., 0, 0], self.deep.bias)


@pytest.mark.parametrize("is_deep", [False, True])
@pytest.mark.parametrize("embed", [by_padded_convolution, by_unfold, by_tensor_unfold, by_pieces, by_product_and_sum, by_einsum])
def test_layers_of_an_embedding_are_the_same_in_every_writing(embed: Embed, is_deep: bool) -> None:
    expected = scores(built(lambda: Embedded(by_convolution, is_deep)), pixels(), 1, *SPECS)
    found = scores(built(lambda: Embedded(embed, is_deep)), pixels(), 1, *SPECS)
    for spec, one, other in zip(SPECS, found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5 * float(other.abs().max()), msg=spec)
