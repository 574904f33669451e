"""What a map says of numbers that a model takes out of the gradient."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention.flex_attention import flex_attention

import explainers
from explainers.autograd.recording import Recording
from tests.explainers.support.wrapped import inputs, wrapped
from tests.families import FAMILIES

TAKEN_OUT = "cuts numbers that depend on the input from the gradient"


class Tokens(nn.Module):
    """Two blocks of a change each, over (B, S, 4)."""

    def __init__(self, change: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.embed = nn.Embedding(9, 4)
        self.blocks = nn.ModuleList([Block(change), Block(change)])
        self.head = nn.Linear(4, 3)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        x = self.embed(input_ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x[:, 0])


class Block(nn.Module):
    """A mixture of tokens, and the change."""

    def __init__(self, change: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.mix, self.change = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), change

    def forward(self, x: Tensor) -> Tensor:
        return self.mix(x) + self.change(x)


def notes(change: Callable[[Tensor], Tensor], spec: str = "input_x_gradient:libra") -> list[str]:
    torch.manual_seed(0)
    ids = torch.tensor([[1, 2, 3]])
    result = explainers.explain(explainers.wrap(Tokens(change), blocks="blocks"), {"input_ids": ids}, 0, [spec])
    return [note for note in result[spec].notes if TAKEN_OUT in note]


@pytest.mark.parametrize(
    ("change", "function"),
    [
        (lambda x: x.detach(), "detach"),
        (lambda x: x.data * 2, "data"),
        (lambda x: x * torch.sigmoid(x.detach().mean(1, keepdim=True)), "detach"),
        (lambda x: torch.from_numpy(x.detach().numpy()), "numpy"),
        (lambda x: x * x.mean().item(), "item"),
    ],
)
def test_numbers_that_leave_the_gradient_are_named(change: Callable[[Tensor], Tensor], function: str) -> None:
    (note,) = notes(change)
    assert function in note.partition("(")[2].partition(")")[0].split(", ")


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x * (x > 0),  # a rectifier: what is chosen is constant under the gradient too
        lambda x: torch.zeros_like(x),
        lambda x: x * torch.ones_like(x.detach()),
        lambda x: x[:, x.detach().sum(-1).argsort(1)[0]],
        lambda x: x * torch.ones(4).to(x),
        lambda x: x * torch.ones(4).type_as(x),
        lambda x: x * torch.ones(4).expand_as(x),
        lambda x: x * torch.broadcast_tensors(x, torch.ones(4))[1],
    ],
)
def test_choices_and_shapes_are_no_such_numbers(change: Callable[[Tensor], Tensor]) -> None:
    assert notes(change) == []


def test_what_is_detached_and_only_kept_is_none() -> None:
    kept: list[Tensor] = []

    def change(x: Tensor) -> Tensor:
        kept.append(x.detach() * 2)
        return x

    assert notes(change) == []
    assert kept


def test_a_method_that_does_not_go_back_says_nothing() -> None:
    assert notes(lambda x: x.detach(), "rollout") == []


def half(x: Tensor) -> Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        return (x @ torch.ones(4, 4)).float()


def flexible(x: Tensor) -> Tensor:
    out: Tensor = flex_attention(x[:, None], x[:, None], x[:, None])[:, 0]
    return out


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize(("change", "advice"), [(half, "torch.autocast on inside its forward"), (flexible, "'eager' or 'sdpa'")])
def test_a_pass_without_a_way_back_says_why(change: Callable[[Tensor], Tensor], advice: str) -> None:
    with pytest.raises(explainers.ExplainerError, match=advice):
        notes(change)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_models_of_the_libraries_take_none_out(family: str) -> None:
    assert Recording(wrapped(family), inputs(family, 1)).nodes.detached == frozenset()
