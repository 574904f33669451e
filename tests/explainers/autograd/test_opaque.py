"""Code that a recording cannot follow: custom functions, checkpoints, scripted, compiled and mapped code."""

from __future__ import annotations

import gc
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import explainers
from explainers import ExplainerError
from explainers.autograd.recording import Recording
from explainers.autograd.rules import RULES
from tests.explainers.support.operator_cases.case import W, X, normal, seeded
from tests.explainers.support.toys import autograd, record, signal, toy
from tests.explainers.support.wrapped import inputs
from tests.families import FAMILIES


class Swish(torch.autograd.Function):
    """As timm's memory-efficient SwishMe, with one number that is no tensor."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, slope: float) -> Tensor:
        ctx.save_for_backward(x)
        ctx.slope = slope
        return x.mul(torch.sigmoid(slope * x))

    @staticmethod
    def backward(ctx: Any, *signals: Tensor) -> Any:
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(ctx.slope * x)
        return signals[0] * (s + ctx.slope * x * s * (1 - s)), None


class Reversed(torch.autograd.Function):
    """The gradient reversed, as for domain adaptation: its backward is no derivative."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x) * 2

    @staticmethod
    def backward(ctx: Any, *signals: Tensor) -> Any:
        return -signals[0]


class Kernel(torch.autograd.Function):
    """What has no backward at all."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return F.silu(x)

    @staticmethod
    def backward(ctx: Any, *signals: Tensor) -> Any:
        raise NotImplementedError


class Attention(torch.autograd.Function):
    """Attention of the tokens to themselves, with its derivative."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        weights = (x @ x.mT).softmax(-1)
        ctx.save_for_backward(x, weights)
        return weights @ x

    @staticmethod
    def backward(ctx: Any, *signals: Tensor) -> Any:
        x, weights = ctx.saved_tensors
        of_weights = weights * (signals[0] @ x.mT)
        of_scores = of_weights - weights * of_weights.sum(-1, keepdim=True)
        return of_scores @ x + of_scores.mT @ x + weights.mT @ signals[0]


def _scripted(x: Tensor) -> Tensor:
    return x * torch.sigmoid(x)


with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # torch would have people compile; models that exist are scripted
    scripted = torch.jit.script(_scripted)


def attend(x: Tensor) -> Tensor:
    return (x @ x.mT).softmax(-1) @ x


def swish(x: Tensor) -> Tensor:
    return x * torch.sigmoid(1.5 * x)


class Writing(torch.autograd.Function):
    """A function that writes into what it is given."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x.clone())
        ctx.mark_dirty(x)
        return x.mul_(torch.sigmoid(x))

    @staticmethod
    def backward(ctx: Any, *signals: Tensor) -> Any:
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(x)
        return signals[0] * (s + x * s * (1 - s))


def largest_as_a_constant(x: Tensor) -> Tensor:
    with torch.no_grad():
        largest = (x @ W).max(-1, keepdim=True).values
        places = (x @ W).topk(2, -1).values[..., :1]
    return x * largest + x * places


def reversed_in_a_checkpoint(x: Tensor) -> Tensor:
    return Reversed.apply(swish(x)) @ W


Function = Callable[[Tensor], Tensor]
#: Opaque code, and what it computes written out.
EXACT: dict[str, tuple[Function, Function]] = {
    "function": (lambda x: Swish.apply(x @ W, 1.5) @ W, lambda x: swish(x @ W) @ W),
    "function-twice": (lambda x: Swish.apply(Swish.apply(x, 1.5) @ W, 1.5), lambda x: swish(swish(x) @ W)),
    "function-without-backward": (lambda x: Kernel.apply(x @ W) @ W, lambda x: F.silu(x @ W) @ W),
    "attention": (lambda x: Attention.apply(Attention.apply(x @ W)) @ W, lambda x: attend(attend(x @ W)) @ W),
    "checkpoint": (lambda x: checkpoint(swish, x @ W, use_reentrant=False) @ W, lambda x: swish(x @ W) @ W),
    "checkpoint-reentrant": (lambda x: checkpoint(swish, x @ W, use_reentrant=True) @ W, lambda x: swish(x @ W) @ W),
    "function-of-a-function": (lambda x: Swish.apply(Swish.apply(x @ W, 1.5), 1.5) @ W, lambda x: swish(swish(x @ W)) @ W),
    "function-in-a-checkpoint": (
        lambda x: checkpoint(lambda y: Swish.apply(y, 1.5), x @ W, use_reentrant=False) @ W,
        lambda x: swish(x @ W) @ W,
    ),
    "function-in-a-reentrant-checkpoint": (
        lambda x: checkpoint(lambda y: Swish.apply(y, 1.5), x @ W, use_reentrant=True) @ W,
        lambda x: swish(x @ W) @ W,
    ),
    "checkpoint-last": (lambda x: checkpoint(swish, x @ W, use_reentrant=True), lambda x: swish(x @ W)),
    "compiled": (lambda x: torch.compile(swish, backend="eager")(x @ W) @ W, lambda x: swish(x @ W) @ W),
}
SEED = normal(2, 30, seed=21)


@pytest.mark.parametrize("rule", ["gradient", "libra", "attnlrp", "deep_taylor"])
@pytest.mark.parametrize("name", EXACT)
def test_what_can_be_looked_into_has_the_signal_of_the_same_written_out(name: str, rule: str) -> None:
    opaque, plain = EXACT[name]
    ours, expected = record(opaque, X), record(plain, X)
    torch.testing.assert_close(ours.logits, expected.logits)
    torch.testing.assert_close(signal(ours, RULES[rule], SEED), signal(expected, RULES[rule], SEED), rtol=1e-10, atol=1e-12)
    assert not ours.cached_backward(RULES[rule], SEED).unruled


_ATTENTION = seeded(lambda: nn.MultiheadAttention(6, 2, add_zero_attn=True, batch_first=True)).requires_grad_(False)


def zero_attention(x: Tensor) -> Tensor:
    attended: Tensor = _ATTENTION(x, x, x, need_weights=False)[0]
    return attended


OPAQUE: dict[str, tuple[Function, str]] = {
    "reversed": (lambda x: Reversed.apply(x @ W) @ W, "Reversed"),
    "writing": (lambda x: Writing.apply(x @ W) @ W, "Writing"),
    "reversed-in-a-checkpoint": (lambda x: checkpoint(reversed_in_a_checkpoint, x @ W, use_reentrant=True), "Reversed"),
    "zero-attention": (zero_attention, "add_zero_attn"),
    "scripted": (lambda x: scripted(x @ W) @ W, "scripted"),
    "scripted-last": (lambda x: scripted(x @ W), "scripted"),
    "vmap": (lambda x: torch.vmap(F.gelu)(x @ W) @ W, "torch.vmap"),
}


@pytest.mark.parametrize("name", OPAQUE)
def test_what_cannot_be_looked_into_is_named(name: str) -> None:
    function, word = OPAQUE[name]
    recording = record(function, X)
    plain = (lambda x: reversed_in_a_checkpoint(x @ W)) if "checkpoint" in name else function  # of which torch gives no gradient at x
    torch.testing.assert_close(signal(recording, RULES["gradient"], SEED), autograd(plain, X, SEED))
    assert not recording.cached_backward(RULES["gradient"], SEED).unruled
    (said,) = recording.cached_backward(RULES["libra"], SEED).unruled
    assert word in said


def test_what_a_model_computes_without_gradient_stays_a_constant() -> None:
    def function(x: Tensor) -> Tensor:
        with torch.no_grad():
            mask = torch.sigmoid(x @ W) * 2
        return mask * x

    recording = record(function, X)
    torch.testing.assert_close(signal(recording, RULES["gradient"], SEED), autograd(function, X, SEED))
    assert not recording.cached_backward(RULES["libra"], SEED).unruled


def test_numbers_read_without_gradient_are_constants_however_they_are_read() -> None:
    recording = record(largest_as_a_constant, X)
    torch.testing.assert_close(signal(recording, RULES["gradient"], SEED), autograd(largest_as_a_constant, X, SEED))


def test_a_function_with_a_backward_of_its_own_in_a_checkpoint_is_refused() -> None:
    def function(x: Tensor) -> Tensor:
        return checkpoint(reversed_in_a_checkpoint, x @ W, use_reentrant=False)

    with pytest.raises(ExplainerError, match=r"Reversed .* runs in gradient checkpointing"):
        record(function, X)


def test_what_a_model_keeps_of_a_pass_keeps_nothing_else_and_is_a_constant_in_the_next() -> None:
    kept: list[Tensor] = []

    def function(x: Tensor) -> Tensor:
        with torch.no_grad():
            kept.append(F.silu(x @ W).mean((0, 1)) + (kept[-1] if kept else 0))
        return Swish.apply(x @ W + kept[-1], 1.5)

    graphs = []
    for _ in range(2):
        recording = record(function, X)
        graphs.append(weakref.ref(recording.block_inputs[0]))
        assert not recording.cached_backward(RULES["libra"], SEED).unruled
        del recording
    gc.collect()
    assert [graph() for graph in graphs] == [None, None]


def test_a_weight_that_is_no_parameter_is_a_constant() -> None:
    weight = W.clone().requires_grad_()
    derived = weight * 2  # made outside of the pass, with a graph of its own
    recording = record(lambda x: F.linear(x, weight) + F.linear(x, derived), X)
    assert not recording.cached_backward(RULES["libra"], SEED).unruled
    expected = (SEED.view(X.shape) @ (W + 2 * W)).view_as(X)
    torch.testing.assert_close(signal(recording, RULES["gradient"], SEED), expected)


def scores(module: nn.Module, method: str, tensors: dict[str, Tensor]) -> Tensor:
    result = explainers.explain(explainers.wrap(module), tensors, methods=[method])
    return (result[0] if isinstance(result, list) else result)[method].scores


@pytest.mark.parametrize("method", ["fullgrad:libra", "transformer_attribution", "input_x_gradient:attnlrp", "input_x_gradient"])
@pytest.mark.parametrize("way", ["checkpointing", "compiled-module", "compiled-inside"])
def test_a_checkpointed_or_compiled_vit_gets_the_maps_of_the_plain_one(way: str, method: str) -> None:
    family = FAMILIES["vit"]
    module, tensors = family.build(), {"pixel_values": inputs("vit", 1, torch.float32)["pixel_values"]}
    expected = scores(module, method, tensors)
    other = family.build()
    if way == "checkpointing":
        other.set_grad_checkpointing()
    elif way == "compiled-module":
        other = torch.compile(other, backend="eager")  # type: ignore[assignment]
    else:
        other.compile(backend="eager")
    assert torch.equal(scores(other, method, tensors), expected)


def test_a_compiled_function_is_compiled_again_after_the_pass() -> None:
    counted: list[int] = []

    def backend(graph: Any, examples: Any) -> Any:
        counted.append(1)
        return graph.forward

    function = torch.compile(swish, backend=backend)
    Recording(toy(function), {"x": X})
    assert not counted
    with torch.no_grad():
        function(X)
    assert counted
