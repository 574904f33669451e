"""What a map says of numbers that a model takes out of the gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention.flex_attention import flex_attention

import explainers
from explainers.autograd import detached_trial
from explainers.autograd.detached import UNSEEN_WRITE
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


Change = Callable[[Tensor], Tensor]


def with_gradients_off(make: Change, use: Callable[[Tensor, Tensor], Tensor], switch: Callable[[], Any] = torch.no_grad) -> Change:
    """A change that uses what is made of its input while gradients are off."""

    def change(x: Tensor) -> Tensor:
        with switch():
            made = make(x)
        return use(x, made)

    return change


def written_into_zeros(x: Tensor) -> Tensor:
    zeros = torch.zeros_like(x)
    zeros[:, 1] = x[:, 0]
    return zeros


def written_into_a_view_of_zeros(x: Tensor) -> Tensor:
    zeros = torch.zeros_like(x)
    zeros[:, 1].copy_(x[:, 0])
    return zeros


def with_a_row_written(x: Tensor) -> Tensor:
    y = x.clone()
    y[:, 1] = x.detach()[:, 0]
    return y


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, *signals: Tensor) -> Tensor:
        return signals[0] * 2


def written_while_off(write: Callable[[Tensor], Any]) -> Change:
    """A change that writes into numbers of its own while gradients are off."""

    def change(x: Tensor) -> Tensor:
        y = x * 1.5
        with torch.no_grad():
            write(y)
        return y

    return change


def written_into_data(x: Tensor) -> Tensor:
    y = x * 1.5
    y.data[:, 1:].add_(y.data[:, :1])
    return y


class DoubledInPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx: Any, *signals: Tensor) -> Tensor:
        return signals[0] * 2


#: Writes under no_grad into a view of a tensor on the path.
INTO_VIEWS: dict[str, Callable[[Tensor], Any]] = {
    "scaled": lambda y: y[:, 1:].mul_(y[:, :1].sigmoid()),
    "added": lambda y: y[:, 1:].add_(y[:, :1] * 0.3),
    "copied": lambda y: y[:, 1:2].copy_(y[:, 2:3] * 0.5),
    "selected": lambda y: y.select(1, 2).mul_(y.select(1, 0)),
    "bounded": lambda y: y[:, 1:].clamp_(-0.2, 0.2),
    "zeroed": lambda y: y[:, 1].zero_(),
}


@pytest.mark.parametrize("name", INTO_VIEWS)
def test_writes_into_views_while_gradients_are_off_are_followed(name: str) -> None:
    """The gradient is that of what the model computes, by differences, and not torch's, which knows nothing of such writes."""
    torch.manual_seed(0)
    module = Tokens(written_while_off(INTO_VIEWS[name])).double().eval()
    model = explainers.wrap(module, blocks="blocks")
    ids = torch.tensor([[1, 2, 3]])
    result = explainers.explain(model, {"input_ids": ids}, 0, ["input_x_gradient"])
    scores = result["input_x_gradient"].scores.double()
    with torch.no_grad():
        weights = module.embed.weight.clone()

        def answer(times: float, word: int) -> float:
            module.embed.weight[word] = weights[word] * times
            given = float(module(ids)[0, 0])
            module.embed.weight[word] = weights[word]
            return given

        slopes = [(answer(1 + 1e-5, word) - answer(1 - 1e-5, word)) / 2e-5 for word in (1, 2, 3)]
    torch.testing.assert_close(scores, torch.tensor(slopes, dtype=torch.float64), rtol=1e-4, atol=1e-6)
    assert not any(TAKEN_OUT in note for note in result["input_x_gradient"].notes)


@pytest.mark.parametrize(
    "change",
    [
        written_while_off(lambda y: y.mul_(y.mean())),
        written_while_off(lambda y: y.add_(y.mean(1, keepdim=True))),
        written_while_off(lambda y: y.clamp_(-0.2, 0.2)),
        written_into_data,
        written_while_off(lambda y: y.data[:, 1].mul_(3.0)),
        written_while_off(lambda y: y.detach().mul_(2.0)),
    ],
)
def test_writes_that_no_graph_knows_of_are_named(change: Change) -> None:
    (note,) = notes(change)
    assert UNSEEN_WRITE in note


def test_what_an_autograd_function_writes_has_a_gradient_of_its_own() -> None:
    assert not notes(lambda x: DoubledInPlace.apply(x * 1.5))


@pytest.mark.parametrize(
    ("change", "function"),
    [
        (with_gradients_off(lambda x: x * 2, lambda x, made: made), "no_grad"),
        (with_gradients_off(lambda x: x.mean(1, keepdim=True).sigmoid(), torch.mul), "no_grad"),
        (with_gradients_off(lambda x: x.std(-1, keepdim=True), torch.div), "no_grad"),
        (with_gradients_off(written_into_zeros, torch.mul), "no_grad"),
        (with_gradients_off(written_into_a_view_of_zeros, torch.mul), "no_grad"),
        (with_gradients_off(lambda x: x * 2, lambda x, made: made.clone(), torch.inference_mode), "inference_mode"),
        (with_a_row_written, "detach"),
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
        with_gradients_off(lambda x: x.amax(-1, keepdim=True), lambda x, made: (x - made).softmax(-1)),
        with_gradients_off(lambda x: x.mean(-1, keepdim=True), lambda x, made: nn.functional.layer_norm(x - made, (4,))),
        with_gradients_off(lambda x: x.sum(-1).argsort(1)[0], lambda x, made: x[:, made]),
        with_gradients_off(torch.ones_like, torch.mul),
        Doubled.apply,
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


def largest(x: Tensor) -> Tensor:
    return x.amax(-1, keepdim=True).detach()


def share(exponentials: Tensor) -> Tensor:
    return exponentials / exponentials.sum(-1, keepdim=True)


def in_two_halves(x: Tensor) -> Tensor:
    """A softmax as flash attention computes it: each half with a shift of its own, put together in the end."""
    parts = [(half.exp_(), m) for half, m in ((half - largest(half), largest(half)) for half in x.chunk(2, -1))]
    both = torch.maximum(parts[0][1], parts[1][1])
    scaled = torch.cat([exponentials * torch.exp(m - both) for exponentials, m in parts], -1)
    return scaled / scaled.sum(-1, keepdim=True)


#: Ways to take off, outside of the gradient, what is the same for a whole row.
SHIFTS: dict[str, Callable[[Tensor], Tensor]] = {
    "softmax": lambda x: (x - largest(x)).softmax(-1),
    "log-softmax": lambda x: (x - largest(x)).log_softmax(-1),
    "softmax written out": lambda x: share(torch.exp(x - largest(x))),
    "softmax written out, of the whole detached": lambda x: share(torch.exp(x - x.detach().amax(-1, keepdim=True))),
    "softmax written out, with the mean": lambda x: share(torch.exp2(x - x.detach().mean(-1, keepdim=True))),
    "softmax written out, with one number": lambda x: share(torch.exp(x - x.max().item())),
    "softmax written out, with data": lambda x: share(torch.exp(x - x.data.amax(-1, keepdim=True))),
    "softmax written out, by numpy": lambda x: share(torch.exp(x - torch.from_numpy(x.detach().numpy().max(-1, keepdims=True)))),
    "softmax in halves": in_two_halves,
    "logarithm of a sum": lambda x: x * (largest(x) + (x - largest(x)).exp().sum(-1, keepdim=True).log()),
    "layer norm": lambda x: nn.functional.layer_norm(x - x.mean(-1, keepdim=True).detach(), (4,)),
    "mean": lambda x: (x - largest(x)) - (x - largest(x)).mean(-1, keepdim=True),
}


@pytest.mark.parametrize("form", SHIFTS)
def test_a_shift_that_is_cancelled_is_none(form: str) -> None:
    assert notes(SHIFTS[form]) == []


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x - largest(x),
        lambda x: (x * largest(x)).softmax(-1),
        lambda x: (x - x.detach() / 2).softmax(-1),
        lambda x: torch.exp(x - largest(x)) / (1 + torch.exp(x - largest(x)).sum(-1, keepdim=True)),
        lambda x: share(torch.exp(x - largest(x))) * x.detach(),
        lambda x: nn.functional.layer_norm(x - x.detach() / 2, (4,)),
    ],
)
def test_other_numbers_around_a_softmax_or_a_norm_are_named(change: Callable[[Tensor], Tensor]) -> None:
    (note,) = notes(change)
    assert "(detach)" in note


def test_a_model_is_asked_once_whether_what_it_detaches_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    model, ids = explainers.wrap(Tokens(SHIFTS["softmax"]), blocks="blocks"), {"input_ids": torch.tensor([[1, 2, 3]])}
    recording = Recording(model, ids)
    assert (recording.nodes.detached, recording.detached) == ({"detach"}, frozenset())
    monkeypatch.setattr(detached_trial, "_changes_the_answer", lambda *given: pytest.fail("asked again"))
    assert Recording(model, ids).detached == frozenset()


def test_what_a_trial_input_does_not_show_counts() -> None:
    def only_of_short_texts(x: Tensor) -> Tensor:
        return x.detach() if x.shape[1] < 4 else x

    (note,) = notes(only_of_short_texts)
    assert "(detach)" in note


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
