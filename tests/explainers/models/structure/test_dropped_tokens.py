"""Tokens that are dropped or merged between blocks, so that those left are no grid; and those that are pooled to a coarser grid."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import explainers
from explainers.errors import ExplainerError
from tests.explainers.support.attention_forms import PREPROCESS, WIDTH, Vit, built, plain_blocks


class Pooled(Vit):
    """Without a class token; ``reduce`` makes fewer tokens of those of the first block, inside of it or behind it."""

    def __init__(self, reduce: Callable[[Tensor], Tensor], is_inside: bool) -> None:
        super().__init__(plain_blocks)
        self.reduce, self.is_inside = reduce, is_inside
        if is_inside:
            self.blocks[0].register_forward_hook(lambda module, args, output: reduce(output))

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x).flatten(2).mT + self.pos[:, 1:]
        x = self.blocks[0](x)
        x = self.blocks[1](x if self.is_inside else self.reduce(x))
        return self.head(self.norm(x).mean(1))


def strongest(count: int) -> Callable[[Tensor], Tensor]:
    def pick(x: Tensor) -> Tensor:
        kept = x.sum(-1).topk(count).indices.sort(-1).values
        return x.gather(1, kept[..., None].expand(-1, -1, x.shape[-1]))

    return pick


def over_map(pool: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    return lambda x: pool(x.mT.unflatten(2, (4, 4))).flatten(2).mT


KERNEL = torch.randn(WIDTH, WIDTH, 3, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64) / 15
DROPPED = {
    "four strongest": strongest(4),
    "nine strongest": strongest(9),
    "seven strongest": strongest(7),  # which fill no grid
    "nine fixed": lambda x: x[:, [0, 1, 2, 4, 6, 8, 10, 12, 15]],
    "first four": lambda x: x[:, :4],
    "each row merged": lambda x: x.unflatten(1, (4, 4)).mean(2),
}
POOLED = {
    "means of 2 x 2": over_map(lambda x: F.avg_pool2d(x, 2)),
    "means to 3 x 3": over_map(lambda x: F.adaptive_avg_pool2d(x, 3)),
    "convolved in steps of two": over_map(lambda x: F.conv2d(x, KERNEL.to(x), stride=2, padding=1)),
}


@pytest.mark.parametrize("is_inside", [False, True], ids=["behind the block", "inside it"])
@pytest.mark.parametrize("name", DROPPED)
def test_dropped_or_merged_tokens_are_refused(name: str, is_inside: bool) -> None:
    with pytest.raises(ExplainerError, match="in the order of the picture"):
        explainers.wrap(built(lambda: Pooled(DROPPED[name], is_inside)), kind="image", preprocess=PREPROCESS)


def test_the_blocks_before_tokens_are_dropped_are_explained_where_they_are_named() -> None:
    """What the refusal advises, against autograd."""
    module, x = built(lambda: Pooled(strongest(7), False)), torch.randn(1, 3, 32, 32, generator=torch.Generator().manual_seed(5)).double()
    model = explainers.wrap(module, kind="image", preprocess=PREPROCESS, blocks=[module.blocks[0]])  # type: ignore[index]
    result = explainers.explain(model, {"pixel_values": x}, 1, ["input_x_gradient"])
    assert not isinstance(result, list)
    tokens = (module.patch(x).flatten(2).mT + module.pos[:, 1:]).detach().requires_grad_()  # type: ignore[operator,index]
    kept = module.blocks[1](strongest(7)(module.blocks[0](tokens)))  # type: ignore[index,operator]
    (gradient,) = torch.autograd.grad(module.head(module.norm(kept).mean(1))[0, 1], tokens)  # type: ignore[operator]
    torch.testing.assert_close(result["input_x_gradient"].scores.double(), (tokens * gradient).sum(-1)[0].detach(), rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("is_inside", [False, True], ids=["behind the block", "inside it"])
@pytest.mark.parametrize("name", POOLED)
def test_a_coarser_grid_is_taken(name: str, is_inside: bool) -> None:
    model = explainers.wrap(built(lambda: Pooled(POOLED[name], is_inside)), kind="image", preprocess=PREPROCESS)
    assert model.details["grid"] == ((3, 3) if "3 x 3" in name else (2, 2))


def test_a_class_token_among_merged_tokens_is_no_patch() -> None:
    """One and eight tokens, which would fill a grid of 3 x 3."""

    def pairs(x: Tensor) -> Tensor:
        return torch.cat([x[:, :1], x[:, 1:].unflatten(1, (8, 2)).mean(2)], 1)

    vit: nn.Module = built(lambda: Vit(plain_blocks, between=pairs))
    with pytest.raises(ExplainerError, match="in the order of the picture"):
        explainers.wrap(vit, kind="image", preprocess=PREPROCESS)


class RegistersInTheMiddle(Vit):
    """Three blocks, the second of which also takes registers behind its tokens."""

    def __init__(self) -> None:
        super().__init__(lambda: [*plain_blocks(), *plain_blocks()[:1]])
        self.registers = nn.Parameter(torch.randn(1, 3, WIDTH))

    def later(self, x: Tensor) -> Tensor:
        first, second, third = self.blocks
        tokens = x.shape[1]
        x = third(second(torch.cat([first(x), self.registers.expand(len(x), -1, -1)], 1))[:, :tokens])
        out: Tensor = self.head(self.norm(x)[:, 0])
        return out

    def embedded(self, x: Tensor) -> Tensor:
        return torch.cat([self.cls.expand(len(x), -1, -1), self.embed(self.patch(x))], 1) + self.pos

    def forward(self, x: Tensor) -> Tensor:
        return self.later(self.embedded(x))


def test_registers_of_a_middle_block_are_refused_with_the_argument_that_helps() -> None:
    module = built(RegistersInTheMiddle)
    assert isinstance(module, RegistersInTheMiddle)
    with pytest.raises(ExplainerError, match=r"take another number of tokens.*: pass blocks=") as refusal:
        explainers.wrap(module, kind="image", preprocess=PREPROCESS)
    assert "prefix=" not in str(refusal.value)
    outer = [module.blocks[0], module.blocks[2]]
    model = explainers.wrap(module, kind="image", preprocess=PREPROCESS, blocks=outer)
    x = torch.randn(1, 3, 32, 32, generator=torch.Generator().manual_seed(5)).double()
    result = explainers.explain(model, {"pixel_values": x}, 1, ["input_x_gradient"])
    assert not isinstance(result, list)
    tokens = module.embedded(x).detach().requires_grad_()
    (gradient,) = torch.autograd.grad(module.later(tokens)[0, 1], tokens)
    torch.testing.assert_close(result["input_x_gradient"].scores.double(), (tokens * gradient).sum(-1)[0].detach(), rtol=1e-5, atol=1e-8)
