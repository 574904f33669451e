"""Small vision Transformers whose attention has a form of the test's own, and a second writing of it that keeps its maps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import explainers

WIDTH, HEADS, TOKENS, CLASSES = 24, 2, 17, 5
PREPROCESS = explainers.Preprocessing((32, 32))
Kept = list[Tensor]


def keep(kept: Kept, weights: Tensor) -> Tensor:
    if weights.requires_grad:
        weights.retain_grad()
    kept.append(weights)
    return weights


def softmax_of(q: Tensor, k: Tensor) -> Tensor:
    return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)


def plain_twin(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor, kept: Kept) -> Tensor:
    return keep(kept, softmax_of(q, k)) @ v


class Attention(nn.Module):
    """``form`` is how it is explained; while ``kept`` is a list, its ``twin`` runs."""

    kept: Kept | None = None

    def __init__(self, form: Any, twin: Any = plain_twin) -> None:
        super().__init__()
        self.form, self.twin = form, twin
        self.qkv, self.proj, self.more = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2 * WIDTH)
        self.mix = nn.Linear(HEADS, HEADS)

    def heads(self, x: Tensor, count: int) -> Tensor:
        return x.unflatten(-1, (count, HEADS, -1)).permute(2, 0, 3, 1, 4)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.heads(self.qkv(x), 3)
        out = self.form(self, q, k, v, x) if self.kept is None else self.twin(self, q, k, v, x, self.kept)
        return self.proj(out.transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(F.gelu(self.a(x)))


class MlpWithConvolution(Mlp):
    def __init__(self) -> None:
        super().__init__()
        self.along = nn.Conv1d(2 * WIDTH, 2 * WIDTH, 3, padding=1, groups=2 * WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(F.gelu(self.along(self.a(x).mT).mT))


class Experts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.router, self.a, self.b = nn.Linear(WIDTH, 2), Mlp(), Mlp()

    def forward(self, x: Tensor) -> Tensor:
        gate = self.router(x).softmax(-1)
        return gate[..., :1] * self.a(x) + gate[..., 1:] * self.b(x)


class Block(nn.Module):
    def __init__(self, attention: Callable[[], nn.Module], mlp: Callable[[], nn.Module] = Mlp) -> None:
        super().__init__()
        self.n1, self.n2, self.attn, self.mlp = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), attention(), mlp()

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.n1(x))
        return x + self.mlp(self.n2(x))


class Twice(Block):
    def __init__(self, attention: Callable[[], nn.Module], how: str) -> None:
        super().__init__(attention)
        self.n3, self.other, self.how = nn.LayerNorm(WIDTH), attention(), how

    def forward(self, x: Tensor) -> Tensor:
        if self.how == "parallel":
            return x + self.attn(self.n1(x)) + self.other(self.n3(x))
        if self.how == "without residual":
            return x + self.other(self.n3(self.attn(self.n1(x))))
        x = x + self.attn(self.n1(x))
        x = x + self.other(self.n3(x))
        return x + self.mlp(self.n2(x))


class Bare(Block):
    def forward(self, x: Tensor) -> Tensor:
        return self.mlp(self.attn(self.n1(x)))


class Chunk(nn.ModuleList):
    def forward(self, x: Tensor) -> Tensor:
        for block in self:
            x = block(x)
        return x


class FlippingBlock(Block):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).flip(1)


class Vit(nn.Module):
    """``embed`` orders the patches, ``between`` what goes from the first block into the second."""

    def __init__(
        self,
        blocks: Callable[[], list[nn.Module]],
        embed: Callable[[Tensor], Tensor] = lambda x: x.flatten(2).mT,
        between: Callable[[Tensor], Tensor] = lambda x: x,
    ) -> None:
        super().__init__()
        self.embed, self.between = embed, between
        self.patch, self.cls = nn.Conv2d(3, WIDTH, 8, 8), nn.Parameter(torch.randn(1, 1, WIDTH))
        self.pos = nn.Parameter(torch.randn(1, TOKENS, WIDTH))
        self.blocks, self.norm, self.head = nn.ModuleList(blocks()), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(self.patch(x))
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], 1) + self.pos[:, : 1 + x.shape[1]]
        for i, block in enumerate(self.blocks):
            x = block(x if i != 1 else self.between(x))
        return self.head(self.norm(x)[:, 0])


def built(make: Callable[[], nn.Module]) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = make().double().eval()
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.15)
    return module


def pixels(batch: int = 1) -> Tensor:
    return torch.randn(batch, 3, 32, 32, generator=torch.Generator().manual_seed(5), dtype=torch.float64)


def of_module(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v)


@dataclass
class Form:
    """``form`` in each of two blocks, or in ``blocks``, of which so many at a time are ``parallel``; or it is to be refused."""

    form: Any = of_module
    twin: Any = plain_twin
    blocks: Callable[[Callable[[], nn.Module]], list[nn.Module]] = lambda a: [Block(a), Block(a)]
    refused: bool = False
    parallel: int = 1

    def vit(self) -> Vit:
        vit = built(lambda: Vit(lambda: self.blocks(lambda: Attention(self.form, self.twin))))
        assert isinstance(vit, Vit)
        return vit


def twin_of(form: Form, vit: Vit, x: Tensor, target: int) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    """Logits, the maps (B, H, S, S) one after the other in the order of the tokens, and their gradients."""
    kept: Kept = []
    for module in vit.modules():
        if isinstance(module, Attention):
            module.kept = kept
    try:
        logits = vit(x)
        logits[0, target].backward()
    finally:
        for module in vit.modules():
            if isinstance(module, Attention):
                module.kept = None
        vit.zero_grad()
    maps, gradients = [], []
    for first in range(0, len(kept), form.parallel):
        together = kept[first : first + form.parallel]
        maps.append(torch.cat([each.detach() for each in together], 1))
        gradients.append(torch.cat([each.grad for each in together if each.grad is not None], 1))
    return logits.detach(), maps, gradients


def scores(vit: nn.Module, x: Tensor, target: int, *specs: str) -> list[Tensor]:
    model = explainers.wrap(vit, kind="image", preprocess=PREPROCESS)
    result = explainers.explain(model, {"pixel_values": x}, target, list(specs))
    first = result[0] if isinstance(result, list) else result
    return [first[spec].scores.double() for spec in specs]


def plain_blocks() -> list[nn.Module]:
    return [Block(lambda: Attention(of_module)), Block(lambda: Attention(of_module))]
