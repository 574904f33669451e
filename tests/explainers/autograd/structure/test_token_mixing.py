"""Tokens that come together by something else than attention: maps that read attention say so, and none else does.

What is expected is tried by hand: attention gives nothing, and one token at the input of a block is changed.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import explainers
from explainers.errors import ExplainerError
from tests.explainers.support.attention_forms import (
    HEADS,
    PREPROCESS,
    TOKENS,
    WIDTH,
    Attention,
    Block,
    Experts,
    MlpWithConvolution,
    Vit,
    built,
    of_module,
    pixels,
    plain_blocks,
    softmax_of,
)

SAID = "come together by another way than attention"
SPECS = ("raw_attention", "rollout", "generic_attention", "attcat", "token_tm", "globenc", "alti", "transformer_attribution")


class Mixing(Block):
    """``mix`` follows the block's attention and MLP."""

    def __init__(self, mix: Callable[[Mixing, Tensor], Tensor]) -> None:
        super().__init__(lambda: Attention(of_module))
        self.mix, self.over_tokens = mix, nn.Linear(TOKENS, TOKENS)
        self.over_patches = nn.Conv2d(WIDTH, WIDTH, 3, padding=1, groups=WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.mix(self, super().forward(x))


def convolved(block: Mixing, x: Tensor) -> Tensor:
    patches = block.over_patches(x[:, 1:].mT.unflatten(2, (4, 4))).flatten(2).mT
    return torch.cat([x[:, :1], x[:, 1:] + patches], 1)


def class_with_mean(block: Mixing, x: Tensor) -> Tensor:
    return torch.cat([x[:, :1] + x[:, 1:].mean(1, keepdim=True), x[:, 1:]], 1)


def shifted(block: Mixing, x: Tensor) -> Tensor:
    return x + block.n2(x).roll(1, 1)


MIXING: dict[str, Callable[[], list[nn.Module]]] = {
    "layer over tokens": lambda: [Mixing(lambda block, x: x + block.over_tokens(x.mT).mT) for _ in range(2)],
    "in the second block alone": lambda: [Mixing(lambda block, x: x), Mixing(lambda block, x: x + block.over_tokens(x.mT).mT)],
    "convolution over patches": lambda: [Mixing(convolved) for _ in range(2)],
    "convolution in the MLP": lambda: [Block(lambda: Attention(of_module), MlpWithConvolution) for _ in range(2)],
    "class token with a mean": lambda: [Mixing(class_with_mean) for _ in range(2)],
    "neighbours added": lambda: [Mixing(shifted) for _ in range(2)],
    "gate by a mean": lambda: [Mixing(lambda block, x: x * (4 * x.mean(1, keepdim=True)).sigmoid()) for _ in range(2)],
    "Fourier transform": lambda: [Mixing(lambda block, x: x + 0.1 * torch.fft.fft(x, dim=1).real) for _ in range(2)],
}


def talking(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return module.mix(softmax_of(q, k).movedim(1, -1)).movedim(-1, 1) @ v  # type: ignore[no-any-return]


def head_by_head(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return torch.cat([F.scaled_dot_product_attention(*(t[:, i : i + 1] for t in (q, k, v))) for i in range(HEADS)], 1)


ALONE: dict[str, Callable[[], list[nn.Module]]] = {
    "plain": plain_blocks,
    "experts": lambda: [Block(lambda: Attention(of_module), Experts) for _ in range(2)],
    "talking heads": lambda: [Block(lambda: Attention(talking)) for _ in range(2)],
    "heads in a loop": lambda: [Block(lambda: Attention(head_by_head)) for _ in range(2)],
    "channels normalised": lambda: [Mixing(lambda block, x: F.normalize(x, dim=-1) * x.softmax(-1)) for _ in range(2)],
}


class _Nothing(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.zeros_like(x)


def brings_tokens_together(vit: Vit) -> bool:
    """Whether a change of one token at the input of a block whose attention gives nothing changes another by a hundredth of that."""
    for each in copy.deepcopy(vit).blocks:
        assert isinstance(each, Block)
        each.attn = _Nothing()
        x = torch.randn(1, TOKENS, WIDTH, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        for token in range(TOKENS):
            moved = x.clone()
            moved[:, token] += 0.1 * torch.randn(WIDTH, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
            with torch.no_grad():
                change = (each(moved) - each(x)).norm(dim=-1)[0]
            if bool(change[torch.arange(TOKENS) != token].max() > 0.01 * change[token]):
                return True
    return False


def notes_of(vit: nn.Module, *specs: str) -> dict[str, str]:
    """The notes on each map; what is refused says why."""
    model, said = explainers.wrap(vit, kind="image", preprocess=PREPROCESS), {}
    for spec in specs:
        try:
            result = explainers.explain(model, {"pixel_values": pixels()}, 1, [spec])
        except ExplainerError as refusal:
            said[spec] = str(refusal)
        else:
            first = result[0] if isinstance(result, list) else result
            said[spec] = " ".join(first[spec].notes)
    return said


@pytest.mark.parametrize("name", MIXING)
def test_what_reads_attention_says_that_tokens_come_together_elsewhere(name: str) -> None:
    vit = built(lambda: Vit(MIXING[name]))
    assert isinstance(vit, Vit)
    assert brings_tokens_together(vit)
    said = notes_of(vit, *SPECS, "input_x_gradient", "fullgrad")
    assert SAID not in said["input_x_gradient"] + said["fullgrad"]
    for spec in SPECS:
        assert SAID in said[spec] or "tokens come together in them on other ways than attention" in said[spec], spec
    assert any(SAID in said[spec] for spec in SPECS) or name == "Fourier transform"


@pytest.mark.parametrize("name", ALONE)
def test_nothing_is_said_where_attention_alone_brings_tokens_together(name: str) -> None:
    vit = built(lambda: Vit(ALONE[name]))
    assert isinstance(vit, Vit)
    assert not brings_tokens_together(vit)
    assert not any(SAID in said or "cannot run" in said for said in notes_of(vit, "raw_attention", "rollout", "generic_attention").values())


def test_it_is_said_of_what_stands_between_two_blocks() -> None:
    class Between(Vit):
        def __init__(self) -> None:
            super().__init__(plain_blocks, between=lambda x: x + F.pad(x[:, 1:], (0, 0, 0, 1)))

    assert SAID in notes_of(built(Between), "rollout")["rollout"]
