"""One look at each block, against the two looks that it stands for and against what the models are made to do."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import explainers
from explainers.autograd.recording import Recording
from explainers.autograd.structure import model_structure
from explainers.autograd.structure.attention_plan import usual_products
from explainers.autograd.structure.inner_order import is_row_by_row
from tests.explainers.support.attention_forms import (
    PREPROCESS,
    TOKENS,
    Attention,
    Block,
    Experts,
    FlippingBlock,
    Mlp,
    MlpWithConvolution,
    Vit,
    built,
    of_module,
    pixels,
    plain_blocks,
    softmax_of,
)


class SwappedInside(Mlp):
    """Two of the tokens change places before the layer and back after it."""

    def forward(self, x: Tensor) -> Tensor:
        order = torch.arange(x.shape[1])
        order[[3, 9]] = order[[9, 3]]
        return super().forward(x[:, order])[:, order]


class WithMean(Mlp):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + x.mean(1, keepdim=True)


class Gated(Mlp):
    """A gate of each token by all of them."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * (40 * x.mean((1, 2), keepdim=True)).sin()


def swapped(x: Tensor) -> Tensor:
    order = torch.arange(x.shape[1])
    order[[3, 9]] = order[[9, 3]]
    return x[:, order]


def flipped_values(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return softmax_of(q, k) @ v.flip(-2)


def blocks_with(mlp: Callable[[], nn.Module], form: object = of_module) -> Callable[[], list[nn.Module]]:
    return lambda: [Block(lambda: Attention(of_module)), Block(lambda: Attention(form), mlp)]


FORMS: dict[str, tuple[Callable[[], Vit], bool]] = {
    "plain": (lambda: Vit(plain_blocks), True),
    "experts": (lambda: Vit(blocks_with(Experts)), True),
    "two tokens swapped inside": (lambda: Vit(blocks_with(SwappedInside)), False),
    "two tokens swapped between blocks": (lambda: Vit(plain_blocks, between=swapped), False),
    "all turned round between blocks": (lambda: Vit(plain_blocks, between=lambda x: x.flip(1)), False),
    "turned round by a block": (lambda: Vit(lambda: [FlippingBlock(lambda: Attention(of_module)) for _ in range(2)]), False),
    "values turned round": (lambda: Vit(blocks_with(Mlp, flipped_values)), False),
    "a mean of all": (lambda: Vit(blocks_with(WithMean)), False),
    "a gate made of all": (lambda: Vit(blocks_with(Gated)), False),
    "a convolution along tokens": (lambda: Vit(blocks_with(MlpWithConvolution)), False),
}


def recording_of(make: Callable[[], Vit]) -> Recording:
    model = explainers.wrap(built(make), kind="image", preprocess=PREPROCESS)
    with torch.no_grad():
        return Recording(model, {"pixel_values": pixels()[:1]}, pixels=True)


@pytest.mark.parametrize("name", FORMS)
def test_one_look_says_what_two_say(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, is_by_row = FORMS[name]
    recording = recording_of(make)
    structure, seen = recording.structure, []
    real = is_row_by_row

    def spy(*args: object) -> bool:
        seen.append(real(*args))  # type: ignore[arg-type]
        return seen[-1]

    monkeypatch.setattr(model_structure, "is_row_by_row", spy)
    plan = structure.found_plan()
    assert seen == [is_by_row]
    monkeypatch.setattr(model_structure, "is_row_by_row", lambda *args: False)
    assert structure.found_plan() == plan
    assert recording.block_inputs[0].shape[1] == TOKENS


def test_a_single_token_out_of_order_among_many_is_seen() -> None:
    """The share of the whole signal that two of many tokens have is small."""
    recording = recording_of(FORMS["plain"][0])
    nodes = recording.structure._nodes
    usual = usual_products(nodes, recording.structure._shaped)

    def pull(outputs: list[Tensor], at: list[Tensor], signals: list[Tensor]) -> list[Tensor | None]:
        arrived = list(recording.structure._pull_all(outputs, at, signals))
        assert arrived[0] is not None
        arrived[0] = arrived[0].clone()
        arrived[0][:, 5] += 0.1 * signals[0][:, 6]  # a leak of one token into another
        return arrived

    assert is_row_by_row(nodes, usual, recording.structure._pull_all)
    assert not is_row_by_row(nodes, usual, pull)
