"""Models that write over their own tensors, as far as torch can train them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import explainers
from explainers.autograd.memory import measure_one
from explainers.autograd.recording import Recording
from explainers.autograd.rules import RULES
from explainers.autograd.saved_values import SavedValues
from explainers.models.model import Model
from tests.explainers.support.operator_cases.attention import qkv
from tests.explainers.support.operator_cases.case import C, W, X, normal
from tests.explainers.support.toys import autograd, record, signal, toy
from tests.families import FAMILIES

SEED = normal(2, 30, seed=21)
B = normal(6, seed=22)


def divided(x: Tensor) -> Tensor:
    """As XLM, Nystromformer and ConViT scale their scores."""
    q, k, v = qkv(x)
    scores = q @ k.mT
    scores.div_(3**0.5)
    return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)


def divided_anew(x: Tensor) -> Tensor:
    q, k, v = qkv(x)
    return ((q @ k.mT / 3**0.5).softmax(-1) @ v).transpose(1, 2).flatten(2)


def operand_of_a_sum(x: Tensor) -> Tensor:
    a = x @ W
    total = a + x
    a.mul_(2.0)
    return total * a


def part_of_a_product(x: Tensor) -> Tensor:
    """As MViTv2 adds its position biases to a view of its scores."""
    q, k, v = qkv(x)
    scores = q @ k.mT
    scores[:, :, 1:] += 0.3 * C[:1, :5]
    return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)


def every_name_sees_it(x: Tensor) -> Tensor:
    a = x @ W
    same = a
    a += 1.0
    return same * 2


def after_an_average(x: Tensor) -> Tensor:
    a = x @ W
    mean = a.mean(1, keepdim=True)
    a.clamp_(min=0)
    return a + mean


def into_zeros(x: Tensor) -> Tensor:
    made = torch.zeros_like(x)
    made[:, 1:3] = x[:, :2] @ W
    return made @ W


def into_itself(x: Tensor) -> Tensor:
    a = x @ W
    a += a
    a[:, 0] += a[:, 1]
    return a @ W


def a_constant_later(x: Tensor) -> Tensor:
    c = torch.ones_like(x)
    y = x * c
    c.mul_(5.0)
    return y @ W + c


def after_what_is_computed_again(x: Tensor) -> Tensor:
    """The sum with a bias that GELU takes is not kept, nor what GELU gives, of which a part is written over too."""
    a = F.linear(x, W, B)
    curved = F.gelu(a)
    a.mul_(2.0)
    out = (curved[..., :3] * curved[..., 3:]) @ W[:3]
    curved[..., 3:].add_(1.0)
    return (out + curved) @ W + a


def after_what_is_computed_anew(x: Tensor) -> Tensor:
    a = F.linear(x, W, B)
    first, second = F.gelu(a).split(3, -1)
    return ((first * second) @ W[:3] + torch.cat([first, second + 1.0], -1)) @ W + a * 2.0


def a_gate_in_place(x: Tensor) -> Tensor:
    gate = x @ W
    return x * gate.sigmoid_()


FUNCTIONS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor] | None]] = {
    "divided": (divided, divided_anew),
    "operand-of-a-sum": (operand_of_a_sum, lambda x: (x @ W + x) * (x @ W * 2.0)),
    "part-of-a-product": (part_of_a_product, None),
    "every-name-sees-it": (every_name_sees_it, lambda x: (x @ W + 1.0) * 2),
    "after-an-average": (after_an_average, lambda x: F.relu(x @ W) + (x @ W).mean(1, keepdim=True)),
    "into-itself": (into_itself, None),
    "a-gate-in-place": (a_gate_in_place, lambda x: x * torch.sigmoid(x @ W)),
    "into-zeros": (into_zeros, lambda x: F.pad(x[:, :2] @ W, (0, 0, 1, 2)) @ W),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_that_are_written_over_are_kept_for_the_way_back(name: str) -> None:
    function, _ = FUNCTIONS[name]
    recording = record(function, X)
    with torch.no_grad():
        torch.testing.assert_close(recording.logits, function(X).flatten(1))
    torch.testing.assert_close(signal(recording, RULES["gradient"], SEED), autograd(function, X, SEED))


@pytest.mark.parametrize("rule", ["libra", "attnlrp", "deep_taylor", "lrp"])
@pytest.mark.parametrize("name", [name for name, (_, written) in FUNCTIONS.items() if written is not None])
def test_rules_are_those_of_the_same_without_writing(name: str, rule: str) -> None:
    function, written = FUNCTIONS[name]
    assert written is not None
    ours, expected = (signal(record(f, X), RULES[rule], SEED) for f in (function, written))
    torch.testing.assert_close(ours, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("rule", ["gradient", "libra", "attnlrp"])
def test_a_constant_that_is_written_over_later_counts_as_it_was(rule: str) -> None:
    """Torch itself gives no gradient here: it needs the constant, too."""
    ours, expected = (signal(record(f, X), RULES[rule], SEED) for f in (a_constant_later, lambda x: x @ W + 5.0))
    torch.testing.assert_close(ours, expected)


@pytest.mark.parametrize("rule", ["gradient", "libra", "attnlrp", "deep_taylor"])
def test_what_is_computed_again_may_be_written_over(rule: str) -> None:
    """Torch itself gives no gradient here: it needs what GELU took."""
    functions = (after_what_is_computed_again, after_what_is_computed_anew)
    ours, expected = (signal(record(f, X), RULES[rule], SEED) for f in functions)
    torch.testing.assert_close(ours, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("family", ["vit", "bert", "hf-clip"])
def test_what_is_computed_again_is_the_same_to_the_last_bit_and_takes_less_memory(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def kept_and_signals() -> tuple[int, list[Tensor]]:
        model = explainers.wrap(FAMILIES[family].build())
        tensors = FAMILIES[family].inputs(2)
        recording = Recording(model, tensors)
        signals = [recording.cached_backward(rule, torch.ones_like(recording.logits)) for rule in RULES.values()]
        arrived = [tensor for each in signals for tensor in (*each.block_inputs, *each.attentions) if tensor is not None]
        return measure_one(model, tensors), arrived

    kept, ours = kept_and_signals()
    monkeypatch.setattr(SavedValues, "recompute", lambda *_: None)
    kept_otherwise, expected = kept_and_signals()
    assert kept < 0.75 * kept_otherwise
    assert all(map(torch.equal, ours, expected))


class Writing(nn.Module):
    """Blocks that write into what they are given, as some add position embeddings, and a model that writes between them (XLM)."""

    def __init__(self, writes: bool) -> None:
        super().__init__()
        self.writes = writes
        self.blocks = nn.ModuleList([nn.Linear(6, 6), nn.Linear(6, 6)]).double()
        with torch.no_grad():
            for number, block in enumerate(self.blocks):
                block.weight.copy_(normal(6, 6, seed=number))
                block.bias.copy_(normal(6, seed=9 + number))
                block.register_forward_pre_hook(lambda _, args: ((args[0].add_(C) if writes else args[0] + C),))

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
            x = x.mul_(0.5) if self.writes else x * 0.5
        return x.flatten(1)


@pytest.mark.parametrize("rule", ["gradient", "libra", "deep_taylor"])
def test_inputs_and_outputs_of_blocks_stay_what_they_were(rule: str) -> None:
    def recorded(writes: bool) -> Recording:
        module = Writing(writes)
        model: Model = toy(nn.Identity())
        model.module, model.blocks, model.entry = module, list(module.blocks), module.blocks[0]
        model.forward = lambda tensors: module(tensors["x"])
        return Recording(model, {"x": X.clone()})

    ours, expected = recorded(True), recorded(False)
    a, b = ours.cached_backward(RULES[rule], SEED), expected.cached_backward(RULES[rule], SEED)
    for pair in zip(
        (*ours.block_inputs, *ours.block_outputs, *a.block_inputs, *a.block_outputs),
        (*expected.block_inputs, *expected.block_outputs, *b.block_inputs, *b.block_outputs),
        strict=True,
    ):
        torch.testing.assert_close(*pair)


def test_complex_numbers_are_kept_in_the_memory_of_real_ones_that_are_computed_again() -> None:
    """A complex view has other strides than the real tensor that it is a view of, and conjugates are no view of the numbers at all."""
    saved = SavedValues()
    source = torch.randn(3, 4, 2, generator=torch.Generator().manual_seed(0))
    real = 2 * source
    saved.recompute(real, torch.mul, source, 2)
    number = torch.view_as_complex(real)
    kept = [saved.keep(each) for each in (real, number, number.mH)]
    expected = [
        2 * source,
        torch.complex(2 * source[..., 0], 2 * source[..., 1]),
        torch.complex(2 * source[..., 0], -2 * source[..., 1]).mT,
    ]
    for each, right in zip(kept, expected, strict=True):
        torch.testing.assert_close(each.read(), right)
