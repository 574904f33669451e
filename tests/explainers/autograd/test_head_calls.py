"""What the head says of another block's output: as if the model had been run again with it, or not at all."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import explainers
from explainers.autograd.recording import Recording
from explainers.autograd.rules import RULES
from tests.explainers.support.toys import record, toy
from tests.explainers.support.wrapped import inputs, wrapped

X, W = torch.randn(2, 5, 4), torch.randn(4, 3)


def doubled(x: Tensor) -> Tensor:
    return x.mean(1, keepdim=True).expand_as(x) * 2


class Backward(torch.autograd.Function):
    """A function that no recording sees into."""

    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:
        return x.tanh()

    @staticmethod
    def backward(ctx: object, *signals: Tensor) -> Tensor:
        return -signals[0]


def written(x: Tensor) -> Tensor:
    y = x.mean(1) @ W
    y += 1
    return y


def written_out(x: Tensor) -> Tensor:
    return torch.mul(x[:, 0], x[:, 1], out=torch.empty(2, 4))


def without_gradient(x: Tensor) -> Tensor:
    with torch.no_grad():
        weights = x.softmax(1)
    return (x * weights).sum(1)


@pytest.mark.parametrize(
    "head",
    [
        lambda x: F.layer_norm(x[:, 0], (4,)) @ W,
        lambda x: x[torch.arange(2), x.sum(-1).argmax(-1)] @ W,
        lambda x: torch.cat([part * (i + 1) for i, part in enumerate(x.unbind(1))], -1),
        lambda x: torch.stack([x.max(1).values, x.detach().mean(1) * x[:, 1]]).sum(0),
        lambda x: F.scaled_dot_product_attention(x[:, None, :1], x[:, None], x[:, None])[:, 0, 0] @ W,
    ],
    ids=["one token", "the largest token", "several from one call", "detached numbers", "attention"],
)
def test_logits_and_signals_are_those_of_a_recording_rebuild(head: Callable[[Tensor], Tensor]) -> None:
    recording, again = record(head, X), Recording(toy(head), {"x": X}, exit_block=0, exit_through=doubled)
    before, nodes = recording.backward(RULES["gradient"], torch.ones_like(recording.logits)).block_inputs[0], len(recording.nodes.ran)
    logits = recording.logits_from(0, doubled)
    assert logits is not None
    assert torch.equal(logits, again.logits)
    for rule in ("gradient", "libra", "attnlrp"):
        ours = recording.backward(RULES[rule], torch.ones_like(logits), logits=logits).block_inputs[0]
        torch.testing.assert_close(ours, again.backward(RULES[rule], torch.ones_like(logits)).block_inputs[0])
    assert len(recording.nodes.ran) == nodes  # of itself the recording says what it said
    assert torch.equal(recording.backward(RULES["gradient"], torch.ones_like(recording.logits)).block_inputs[0], before)


@pytest.mark.parametrize("name", ["vit", "bert", "cait", "gpt2"])
def test_blocks_of_a_model_are_put_into_its_head(name: str) -> None:
    model, given = wrapped(name), inputs(name)
    recording = Recording(model, given)
    logits, again = recording.logits_from(0), Recording(model, given, exit_block=0)
    assert logits is not None
    assert torch.equal(logits, again.logits)
    assert not torch.equal(logits, recording.logits)
    start = torch.linspace(1, 2, logits.numel()).view_as(logits)
    ours, expected = (each.backward(RULES["gradient"], start, logits=of) for each, of in ((recording, logits), (again, None)))
    torch.testing.assert_close(ours.block_inputs[0], expected.block_inputs[0])


@pytest.mark.parametrize(
    "head",
    [
        written,
        written_out,
        without_gradient,
        lambda x: Backward.apply(x).mean(1),
        lambda x: torch.vmap(lambda row: row.mean(0) * 3)(x) @ W,
        lambda x: x.mean(1) * float(x.detach().sum()),
        lambda x: x[:, 0] if bool(x.detach().sum() > 0) else x[:, 1],
    ],
    ids=["written into", "out=", "without gradient", "a backward of its own", "vmap", "a number", "a decision"],
)
def test_calls_that_cannot_be_made_again_are_not(head: Callable[[Tensor], Tensor]) -> None:
    assert record(head, X).logits_from(0) is None


def test_legrad_is_the_same_where_the_model_is_recorded_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    model, given = wrapped("vit"), inputs("vit", 1)
    made: list[Recording] = []
    start = Recording.__init__

    def counted(self: Recording, *args: object, **how: object) -> None:
        made.append(self)
        start(self, *args, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(Recording, "__init__", counted)
    once = explainers.explain(model, given, 1, ["legrad"])["legrad"].scores
    assert len(made) == 1
    monkeypatch.setattr(Recording, "logits_from", lambda *_: None)
    again = explainers.explain(model, given, 1, ["legrad"])["legrad"].scores
    assert len(made) == 4
    assert torch.equal(once, again)
