"""A rule in people's own code: what an explanation reads, as a regulariser, while training, nested, and what is refused."""

from __future__ import annotations

import gc
import threading
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import explainers
from explainers import backward_rule
from explainers.autograd.own_code import own_code
from explainers.autograd.recording import Recording
from explainers.autograd.rules import RULES, Rule
from explainers.errors import ExplainerError
from explainers.models.structure.hooks import remove_hooks_after
from tests.explainers.support.wrapped import every_family, inputs, wrapped
from tests.families import FAMILIES

CLOSE = {"rtol": 1e-8, "atol": 1e-10}


@every_family
def test_signals_are_those_of_an_explanation(name: str) -> None:
    """At x^1 of every family, under one rule of each way back; and what passes without a rule is named alike."""
    model, tensors, start = wrapped(name), inputs(name), list[Tensor]()

    def begin(module: nn.Module, args: Any, kwargs: Any) -> Any:
        if start:
            return None
        start.append(model.block_kind.input_tokens(args, kwargs).detach().requires_grad_())
        return model.block_kind.with_input_tokens(args, kwargs, start[0].clone())

    model.module.requires_grad_(False)  # or the text beside a picture is on the path too: what is explained is the picture alone
    try:
        with backward_rule("gradient"), remove_hooks_after([model.entry.register_forward_pre_hook(begin, with_kwargs=True)]):
            logits = model.forward(tensors)
    finally:
        model.module.requires_grad_(True)
    recording, seed = Recording(model, tensors), torch.linspace(1, 2, logits.numel()).view_as(logits).to(logits)
    torch.testing.assert_close(logits, recording.logits)
    for rule in ("gradient", "libra", "attnlrp-epsilon", "cp-lrp-gamma"):
        with backward_rule(rule) as block:
            (signal,) = torch.autograd.grad(logits, start, seed, retain_graph=True)
        theirs = recording.cached_backward(RULES[rule], seed)
        torch.testing.assert_close(signal, theirs.block_inputs[0], **CLOSE, msg=rule)
        assert block.unruled == set(theirs.unruled)


def vit() -> nn.Module:
    return FAMILIES["vit"].build().double()


def pixels() -> Tensor:
    return inputs("vit")["pixel_values"].requires_grad_()


def test_a_penalty_on_libras_gradient_trains() -> None:
    """The derivative of the penalty with respect to every parameter against finite differences, then steps that make it smaller."""
    model, x = vit(), pixels()

    def penalty() -> Tensor:
        with backward_rule("libra"):
            logits = model(x)
            (signal,) = torch.autograd.grad(logits[:, 1].sum(), x, create_graph=True)
        return (x * signal).sum((1, 2, 3)).square().mean() + F.cross_entropy(logits, torch.tensor([0, 1]))

    slopes = torch.autograd.grad(penalty(), list(model.parameters()), allow_unused=True)
    generator = torch.Generator().manual_seed(0)
    directions = [torch.randn(p.shape, generator=generator, dtype=p.dtype) for p in model.parameters()]
    expected = sum((s * d).sum() for s, d in zip(slopes, directions, strict=True) if s is not None)
    ends = []
    for sign in (1, -2, 1):  # there, to the other side, and back
        with torch.no_grad():
            for parameter, direction in zip(model.parameters(), directions, strict=True):
                parameter.add_(direction, alpha=sign * 1e-6)
        ends.append(penalty().detach())
    torch.testing.assert_close(expected, (ends[0] - ends[1]) / 2e-6, rtol=1e-5, atol=1e-7)

    optimiser, before = torch.optim.SGD(model.parameters(), 0.02), penalty().item()
    for _ in range(5):
        optimiser.zero_grad()
        penalty().backward()
        optimiser.step()
    assert penalty().item() < 0.9 * before


def test_one_pass_serves_several_rules_and_is_ordinary_after_all_blocks() -> None:
    model, x = vit(), pixels()

    def signal() -> Tensor:
        return torch.autograd.grad(logits[:, 1].sum(), x, retain_graph=True)[0]

    with backward_rule("libra"):
        logits = model(x)
        libra = signal()
        with backward_rule(Rule(attention="half", norm="constant", activation="gate", product="half")):
            attnlrp = signal()
        torch.testing.assert_close(signal(), libra, rtol=0, atol=0)
    ordinary = signal()
    torch.testing.assert_close(ordinary, torch.autograd.grad(model(x)[:, 1].sum(), x)[0])
    with backward_rule("attnlrp"):
        torch.testing.assert_close(signal(), attnlrp, rtol=0, atol=0)
    assert min(float((a - b).abs().max()) for a, b in ((libra, attnlrp), (libra, ordinary), (attnlrp, ordinary))) > 1e-4


def test_a_block_that_raises_leaves_nothing_behind() -> None:
    model, x = vit(), pixels()
    made = list[Tensor]()

    def fail() -> None:
        with backward_rule("libra"), backward_rule("attnlrp"):
            made.append(model(x))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not own_code().blocks
    assert not torch.overrides._get_current_function_mode_stack()
    torch.testing.assert_close(torch.autograd.grad(made[0].sum(), x)[0], torch.autograd.grad(model(x).sum(), x)[0])


def test_nothing_of_a_pass_is_kept() -> None:
    model, x = vit(), pixels()
    with backward_rule("libra"):
        for _ in range(2):
            (signal,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        del signal
        gc.collect()
        own = own_code()
        assert set(own.nodes._by_tensor) <= {id(x)}
        assert not len(own.saved._alive)


def test_a_derivative_that_would_be_none_is_refused() -> None:
    model, x = vit(), pixels()
    with backward_rule("libra"):
        (signal,) = torch.autograd.grad(model(x)[:, 1].sum(), x, create_graph=True)
        with pytest.raises(ExplainerError, match="differentiate it after the block"):
            torch.autograd.grad(signal.sum(), x, retain_graph=True)
        with backward_rule("gradient"):
            inside = torch.autograd.grad(signal.square().sum(), x, retain_graph=True)[0]
    torch.testing.assert_close(torch.autograd.grad(signal.square().sum(), x)[0], inside)


@pytest.mark.parametrize(
    ("rule", "said"),
    [("deep_taylor", "carries relevance.*lrp:deep_taylor"), ("librra", "There is no rule 'librra': send one of")],
)
def test_what_is_no_gradient_rule_is_refused(rule: str, said: str) -> None:
    with pytest.raises(ExplainerError, match=said), backward_rule(rule):
        pass


def test_what_a_rule_cannot_follow_is_refused() -> None:
    model, x = nn.Sequential(nn.Linear(3, 3), nn.GELU()).double(), torch.ones(2, 3, dtype=torch.float64, requires_grad=True)
    with backward_rule("libra"):
        for reentrant in (True, False):
            with pytest.raises(ExplainerError, match="checkpointing"):
                checkpoint(model, x, use_reentrant=reentrant).sum()
        with pytest.raises(ExplainerError, match="in a block of backward_rule"):
            explainers.explain(wrapped("vit"), inputs("vit", 1), methods=["fullgrad_plus:libra"])


def test_functions_without_a_rule_are_named() -> None:
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return 2 * x

        @staticmethod
        def backward(ctx: Any, *signals: Tensor) -> Tensor:
            return 2 * signals[0]

    x = torch.ones(2, 3, requires_grad=True)
    with backward_rule("libra") as block:
        torch.autograd.grad(torch.logsumexp(Twice.apply(x), -1).sum(), x)
    assert block.unruled == {"logsumexp", "Twice (an autograd function)"}


def test_a_model_in_training_mode_keeps_its_dropout() -> None:
    """Value and gradient are those of the same draws: of attention in one step, of nn.MultiheadAttention, and of plain layers."""

    class Layers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = nn.MultiheadAttention(4, 2, dropout=0.5, batch_first=True)
            self.norm, self.drop = nn.LayerNorm(4), nn.Dropout(0.5)

        def forward(self, x: Tensor) -> Tensor:
            x = self.drop(x) + self.attention(x, x, x, need_weights=False)[0]
            return self.norm(x + F.scaled_dot_product_attention(x, x, x, dropout_p=0.5)).sum(1)

    torch.manual_seed(0)
    model, x = Layers().double().train(), torch.randn(2, 5, 4, dtype=torch.float64, requires_grad=True)
    torch.manual_seed(1)
    plain = torch.autograd.grad(value := model(x), x, torch.ones_like(value).cumsum(-1))[0]
    torch.manual_seed(1)
    with backward_rule("gradient"):
        ours = model(x)
    torch.testing.assert_close(ours, value)
    torch.testing.assert_close(torch.autograd.grad(ours, x, torch.ones_like(ours).cumsum(-1), retain_graph=True)[0], plain)
    with backward_rule("libra"):
        held = torch.autograd.grad(ours, x, torch.ones_like(ours).cumsum(-1))[0]
    assert model.training
    assert float((held - plain).abs().max()) > 1e-3


def test_autocast_and_constants_are_as_ever() -> None:
    """bfloat16 of autocast, of weights too, once and again; what is computed under no_grad gets no signal."""
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Conv1d(4, 4, 1), nn.GELU(), nn.LayerNorm(6), nn.Linear(6, 3)), torch.randn(2, 4, 6, requires_grad=True)

    def signals(lower: bool) -> tuple[Tensor, ...]:
        with backward_rule("libra"):
            with torch.autocast("cpu", torch.bfloat16, enabled=lower):
                value = model(x)
                assert value.dtype == (torch.bfloat16 if lower else torch.float32)
                with torch.no_grad():
                    constant = model(x)
                value = value * constant
            signal, *of_weights = torch.autograd.grad(value.sum(), [x, *model.parameters()], create_graph=True)
        return (signal, *of_weights, *torch.autograd.grad(signal.square().sum(), [x, model[0].weight]))

    for lower, full in zip(signals(True), signals(False), strict=True):
        assert lower.dtype == torch.float32
        torch.testing.assert_close(lower, full, rtol=0.05, atol=0.05 * full.abs().max().item())


def test_a_rule_of_another_thread_is_not_ours() -> None:
    model, x = vit(), pixels()
    ordinary = torch.autograd.grad(model(x).sum(), x)[0]
    found: list[Tensor] = []
    with backward_rule("libra"):
        thread = threading.Thread(target=lambda: found.append(torch.autograd.grad(model(x).sum(), x)[0]))
        thread.start()
        thread.join()
    torch.testing.assert_close(found[0], ordinary)


def test_a_softmax_over_classes_and_one_of_attention() -> None:
    """The first is no attention: it is differentiated, and the weights of the second are held all the same."""
    x = torch.randn(2, 3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    with backward_rule("libra"):
        attended = (x @ x.mT).softmax(-1) @ x
        probability = attended.mean(1).softmax(-1)[:, 0].sum()
        (signal,) = torch.autograd.grad(probability, x)
    held = (x @ x.mT).softmax(-1).detach() @ x
    torch.testing.assert_close(signal, torch.autograd.grad(held.mean(1).softmax(-1)[:, 0].sum(), x)[0])
