"""Models whose last block gives the class token alone: what is refused names the blocks that can be read, and these are read."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import explainers
from tests.explainers.support.attention_forms import PREPROCESS, Attention, Block, Vit, built, of_module, pixels, softmax_of


class OfClassToken(Block):
    """A block in which the class token alone asks, and goes on."""

    def forward(self, x: Tensor) -> Tensor:
        attention: Any = self.attn
        q, k, v = attention.heads(attention.qkv(self.n1(x)), 3)
        x = x[:, :1] + attention.proj((softmax_of(q[:, :, :1], k) @ v).transpose(1, 2).flatten(2))
        out: Tensor = x + self.mlp(self.n2(x))
        return out


class Either(OfClassToken):
    """A block of one class with those before it, which a flag turns into one of the class token alone."""

    is_last = False

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) if self.is_last else Block.forward(self, x)


def of_another_class(before: int) -> list[nn.Module]:
    return [*(Block(lambda: Attention(of_module)) for _ in range(before)), OfClassToken(lambda: Attention(of_module))]


def of_the_same_class(before: int) -> list[nn.Module]:
    blocks = [Either(lambda: Attention(of_module)) for _ in range(before + 1)]
    blocks[-1].is_last = True
    return list(blocks)


def wrap(vit: nn.Module, **how: Any) -> Any:
    return explainers.wrap(vit, kind="image", preprocess=PREPROCESS, **how)


@pytest.mark.parametrize("before", [1, 2, 3])
def test_the_advice_of_a_refusal_is_true(before: int) -> None:
    vit: Any = built(lambda: Vit(lambda: of_another_class(before)))
    with pytest.raises(explainers.ExplainerError, match=re.escape("list(model.blocks[:-1])")):
        wrap(vit)
    assert len(wrap(vit, blocks=list(vit.blocks[:-1])).blocks) == before


@pytest.mark.parametrize("make", [of_another_class, of_the_same_class])
def test_a_list_that_is_passed_by_name_is_told_which_of_it_cannot_be_read(make: Callable[[int], list[nn.Module]]) -> None:
    vit: Any = built(lambda: Vit(lambda: make(2)))
    with pytest.raises(explainers.ExplainerError, match=r"blocks\.2 does not, .* Pass the others, as a list of modules"):
        wrap(vit, blocks="blocks")
    model = wrap(vit, blocks=list(vit.blocks[:2]))
    with torch.no_grad():
        expected = vit(pixels())
    result = explainers.explain(model, {"pixel_values": pixels()}, 1, ["fullgrad:libra"])
    first = result[0] if isinstance(result, list) else result
    torch.testing.assert_close(first.logits.double().view(1, -1), expected, rtol=1e-5, atol=1e-6)


def test_a_note_on_later_blocks_promises_no_more_than_blocks_does() -> None:
    vit: Any = built(lambda: Vit(lambda: of_the_same_class(2)))
    result = explainers.explain(wrap(vit), {"pixel_values": pixels()}, 1, ["fullgrad_plus"])
    (note,) = (result[0] if isinstance(result, list) else result)["fullgrad_plus"].notes
    assert "Where they give as many tokens as they take, and not the class token alone" in note
    with pytest.raises(explainers.ExplainerError, match="take and give tokens of one shape"):
        wrap(vit, blocks=list(vit.blocks[2:]))
