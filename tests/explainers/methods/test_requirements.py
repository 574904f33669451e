"""Why a method cannot run for a model is said of that model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

import explainers
from explainers.methods.requirements import missing_requirements
from tests.explainers.support.attention_forms import (
    PREPROCESS,
    WIDTH,
    Attention,
    Block,
    Form,
    Mlp,
    Vit,
    built,
    of_module,
    pixels,
    plain_blocks,
    scores,
    softmax_of,
)
from tests.explainers.support.wrapped import wrapped
from tests.support.task_models import writer


def test_a_copy_by_another_name_is_called_by_it() -> None:
    first = missing_requirements(writer())
    other = missing_requirements(replace(writer(), name="other"))
    assert first.keys() == other.keys()
    assert {key: text.replace("writer", "other") for key, text in first.items()} == other
    assert other["image"].startswith("other ")
    assert missing_requirements(writer()) is first  # and is found once


class Reads(Vit):
    """Without a class token; the head adds the patches at ``places``."""

    def __init__(self, places: list[int]) -> None:
        super().__init__(plain_blocks)
        self.places = places

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(self.patch(x)) + self.pos[:, 1:]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, self.places].sum(1))  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("places", "said"),
    [
        ([0], "its head reads a patch, the one in row 1 and column 1"),
        ([15], "its head reads a patch, the one in row 4 and column 4"),
        ([6], "its head reads a patch, the one in row 2 and column 3"),
        ([6, 9], "its head reads 2 of its 16 tokens"),
        (list(range(16)), "its head pools all tokens"),
    ],
)
def test_a_head_without_a_class_token_is_said_to_read_what_it_reads(places: list[int], said: str) -> None:
    model = explainers.wrap(built(lambda: Reads(places)), kind="image", preprocess=PREPROCESS)
    assert said in missing_requirements(model)["class_token"]


class SequenceFirst(Block):
    """Takes and gives (tokens, batch, width)."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.transpose(0, 1)).transpose(0, 1)


class Reversible(nn.Module):
    """Each half of the channels is added what is made of the other."""

    def __init__(self) -> None:
        super().__init__()
        self.attn, self.mlp = Attention(of_module), Mlp()
        self.widen, self.narrow = nn.Linear(WIDTH // 2, WIDTH), nn.Linear(WIDTH, WIDTH // 2)

    def forward(self, x: Tensor) -> Tensor:
        a, b = x.chunk(2, -1)
        a = a + self.narrow(self.attn(self.widen(b)))
        return torch.cat([a, b + self.narrow(self.mlp(self.widen(a)))], -1)


class Turned(Vit):
    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(self.patch(x))
        x = (torch.cat([self.cls.expand(len(x), -1, -1), x], 1) + self.pos).transpose(0, 1)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[0])  # type: ignore[no-any-return]


def test_blocks_that_add_in_other_axes_or_to_some_channels_are_said_to() -> None:
    turned = built(lambda: Turned(lambda: [SequenceFirst(lambda: Attention(of_module)) for _ in range(2)]))
    halves = built(lambda: Vit(lambda: [Reversible(), Reversible()]))
    reasons = [missing_requirements(explainers.wrap(each, kind="image", preprocess=PREPROCESS))["residual"] for each in (turned, halves)]
    assert "whose axes are others" in reasons[0]
    assert "a part of each token's channels" in reasons[1]


def test_what_a_text_model_cannot_run_is_not_replaced_by_what_hides_parts_of_a_picture() -> None:
    reason = missing_requirements(wrapped("deberta-v3"))["parts"]
    assert reason.endswith("What reads no such parts runs, such as input_x_gradient and occlusion.")


def mixed(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    """Each head's weights are made of both."""
    return module.mix(softmax_of(q, k).movedim(1, -1)).movedim(-1, 1) @ v  # type: ignore[no-any-return]


def scaled(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return 2 * softmax_of(q, k) @ v


def difference(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return (softmax_of(q, k) - 0.5 * softmax_of(k, q)) @ v


def sigmoid(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return (q @ k.mT / q.shape[-1] ** 0.5).sigmoid() @ v


def written_out(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return softmax_of(q, k) @ v


@pytest.mark.parametrize("form", [mixed, scaled, difference, sigmoid])
def test_weights_that_are_more_than_a_softmax_have_no_scores(form: Callable[..., Tensor]) -> None:
    """AGCAM takes scores of each head together with the gradient of its weights."""
    model = explainers.wrap(Form(form).vit(), kind="image", preprocess=PREPROCESS)
    lacks = missing_requirements(model)
    assert "scores" in lacks or "attention" in lacks  # a sigmoid leaves no map at all
    reason = next(variant.reason for variant in explainers.variants(model) if variant.spec == "agcam")
    assert reason in (lacks.get("attention"), lacks.get("scores"))


def test_scores_are_the_same_however_attention_is_written() -> None:
    maps = [scores(Form(form).vit(), pixels(), 1, "agcam") for form in (of_module, written_out)]
    torch.testing.assert_close(maps[0], maps[1])
    assert bool(maps[0][0].any())
