"""The rows of blocks that are chosen where a model has several."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import explainers
from explainers.errors import ExplainerError
from tests.explainers.support.attention_forms import (
    CLASSES,
    PREPROCESS,
    TOKENS,
    WIDTH,
    Attention,
    Block,
    Vit,
    built,
    of_module,
    pixels,
    plain_blocks,
)

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
    with pytest.raises(ExplainerError, match=r"sees the image on a way round the blocks .*, or in another tensor that they take"):
        explainers.wrap(built(lambda: Hybrid("towers", 7)), kind="image", preprocess=PREPROCESS)


class ClassTokenAlone(Block):
    """A block that gives the class token alone."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x)[:, :1]


def test_a_last_block_that_gives_less_is_named_and_the_advice_runs() -> None:
    vit = built(lambda: Vit(lambda: [*plain_blocks(), ClassTokenAlone(lambda: Attention(of_module))]))
    assert isinstance(vit, Vit)
    with pytest.raises(ExplainerError, match=r"the last module in 'blocks' is of another class .* such as list\(model\.blocks\[:-1\]\)"):
        explainers.wrap(vit, kind="image", preprocess=PREPROCESS)
    model = explainers.wrap(vit, kind="image", preprocess=PREPROCESS, blocks=list(vit.blocks[:-1]))
    assert list(model.blocks) == list(vit.blocks[:-1])


class Whole(nn.Module):
    """Patches, then ``run`` of two blocks, then the mean."""

    def __init__(self) -> None:
        super().__init__()
        self.patch, self.blocks = nn.Conv2d(3, WIDTH, 8, 8), nn.ModuleList(plain_blocks())
        self.queries, self.decoder = nn.Parameter(torch.randn(1, 3, WIDTH)), nn.ModuleList([Decoding(), Decoding()])
        self.head = nn.Linear(WIDTH, CLASSES)

    def run(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.run(self.patch(x).flatten(2).mT).mean(1))
        return out


class Decoding(nn.Module):
    """A block of a decoder: its queries read the tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.kv, self.proj = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, queries: Tensor, x: Tensor) -> Tensor:
        kv = self.kv(x)
        return queries + self.proj((self.q(queries) @ kv.mT / 5).softmax(-1) @ kv)


class Doubled(Whole):
    def run(self, x: Tensor) -> Tensor:
        first, second = super().run(torch.cat([x, x.flip(1)])).chunk(2)
        return first + second


class EncoderAndDecoder(Whole):
    def run(self, x: Tensor) -> Tensor:
        queries, x = self.queries.expand(len(x), -1, -1), super().run(x)
        for block in self.decoder:
            queries = block(queries, x)
        return queries


class Merging(Whole):
    """As ToMe, each block ends with two tokens less."""

    def __init__(self) -> None:
        super().__init__()
        for block in self.blocks:
            block.register_forward_hook(lambda module, args, output: torch.cat([output[:, :-2], output[:, -2:].mean(1, keepdim=True)], 1))


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (Doubled, "'blocks' take 4 samples for 2 of the model's.*one row of tokens for each sample"),
        (EncoderAndDecoder, r"that were found, 'decoder.0' and those after it.*blocks= \(.*such as those of an encoder"),
        (Merging, r"each of the blocks in 'blocks' gives fewer tokens than it takes.*blocks= cannot help.*\(r=0\)"),
    ],
)
def test_the_reason_why_no_blocks_are_explained_is_true(make: type[Whole], reason: str) -> None:
    with pytest.raises(ExplainerError, match=reason):
        explainers.wrap(built(make), kind="image", preprocess=PREPROCESS)


def test_the_encoder_of_an_encoder_and_decoder_is_explained_by_its_name() -> None:
    module, x = built(EncoderAndDecoder), pixels()
    model = explainers.wrap(module, kind="image", preprocess=PREPROCESS, blocks="blocks")
    result = explainers.explain(model, {"pixel_values": x}, 1, ["input_x_gradient"])
    assert not isinstance(result, list)
    tokens = module.patch(x).flatten(2).mT.detach().requires_grad_()  # type: ignore[operator]
    (gradient,) = torch.autograd.grad(module.head(module.run(tokens).mean(1))[0, 1], tokens)  # type: ignore[operator]
    torch.testing.assert_close(result["input_x_gradient"].scores.double(), (tokens * gradient).sum(-1)[0].detach(), rtol=1e-5, atol=1e-8)
