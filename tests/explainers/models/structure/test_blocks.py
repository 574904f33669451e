"""The rows of blocks that are chosen where a model has several."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import explainers
from explainers.errors import ExplainerError
from tests.explainers.support.attention_forms import CLASSES, PREPROCESS, TOKENS, WIDTH, Block, built, pixels, plain_blocks

SIDE = 4


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.wide, self.narrow = nn.BatchNorm2d(WIDTH), nn.Conv2d(WIDTH, WIDTH, 3, padding=1), nn.Conv2d(WIDTH, WIDTH, 1)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.narrow(torch.relu(self.wide(self.norm(x))))
        return out


class AttentionOverMap(nn.Module):
    """A block of a Transformer that takes and gives a map (B, D, rows, columns)."""

    def __init__(self) -> None:
        super().__init__()
        self.block = plain_blocks()[0]

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.block(x.flatten(2).mT).mT.unflatten(-1, x.shape[2:])
        return out


class Hybrid(nn.Module):
    """``many`` blocks of convolutions and two of a Transformer, put together by ``order``."""

    def __init__(self, order: str, many: int) -> None:
        super().__init__()
        self.order, self.stem, self.patch = order, nn.Conv2d(3, WIDTH, 8, 8), nn.Conv2d(3, WIDTH, 8, 8)
        self.trunk = nn.Sequential(*[Convolutions() for _ in range(many)])
        self.cls, self.pos = nn.Parameter(torch.randn(1, 1, WIDTH)), nn.Parameter(torch.randn(1, TOKENS, WIDTH))
        self.blocks = nn.ModuleList([AttentionOverMap(), AttentionOverMap()] if order == "maps" else plain_blocks())
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CLASSES)

    def transform(self, x: Tensor) -> Tensor:
        if self.order != "maps":
            x = torch.cat([self.cls.expand(len(x), -1, -1), x.flatten(2).mT], 1) + self.pos
        for block in self.blocks:
            x = block(x)
        out: Tensor = self.norm(x.flatten(2).mT if self.order == "maps" else x)
        return out

    def forward(self, x: Tensor) -> Tensor:
        if self.order == "trunk last":
            tokens = self.transform(self.stem(x))[:, 1:]
            read = self.trunk(tokens.mT.unflatten(-1, (SIDE, SIDE))).mean((2, 3))
        elif self.order == "trunk unused":
            read = self.transform(self.patch(x))[:, 0]
            self.trunk(self.stem(x))
        elif self.order == "towers":
            read = self.transform(self.patch(x))[:, 0] + self.trunk(self.stem(x)).mean((2, 3))
        else:
            tokens = self.transform(self.trunk(self.stem(x)))
            read = tokens.mean(1) if self.order == "maps" else tokens[:, 0]
        out: Tensor = self.head(read)
        return out


@pytest.mark.parametrize("many", [2, 7])
@pytest.mark.parametrize("order", ["trunk first", "trunk last", "trunk unused", "maps"])
def test_a_transformer_goes_before_a_trunk_of_convolutions_however_long(order: str, many: int) -> None:
    module = built(lambda: Hybrid(order, many))
    model = explainers.wrap(module, kind="image", preprocess=PREPROCESS)
    assert [type(block) for block in model.blocks] == [AttentionOverMap if order == "maps" else Block] * 2
    taken: list[Tensor] = []

    def keep(block: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor]:
        taken.append(args[0].detach().requires_grad_())
        return (taken[0],)

    handle = model.blocks[0].register_forward_pre_hook(keep)
    (gradient,) = torch.autograd.grad(module(pixels())[0, 1], taken[0])
    handle.remove()
    products = (taken[0] * gradient).detach()
    expected = products.sum(1).flatten(1) if order == "maps" else products.sum(-1)
    result = explainers.explain(model, {"pixel_values": pixels()}, 1, ["input_x_gradient"])
    first = result[0] if isinstance(result, list) else result
    torch.testing.assert_close(first.maps[0].scores.double(), expected[0], rtol=1e-4, atol=1e-6)


def test_a_trunk_of_convolutions_alone_is_explained_as_before() -> None:
    class Trunk(Hybrid):
        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.head(self.trunk(self.stem(x)).mean((2, 3)))
            return out

    model = explainers.wrap(built(lambda: Trunk("alone", 3)), kind="image", preprocess=PREPROCESS)
    assert [type(block) for block in model.blocks] == [Convolutions] * 3


def test_two_towers_that_both_see_the_image_are_refused() -> None:
    with pytest.raises(ExplainerError, match="sees the image on a way round the blocks"):
        explainers.wrap(built(lambda: Hybrid("towers", 7)), kind="image", preprocess=PREPROCESS)
