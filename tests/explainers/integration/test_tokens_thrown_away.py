"""Tokens that a model throws away between its blocks or inside them: what they held reaches no answer, and no map that is multiplied over
the blocks.

In block 1 one token looks at patch 9 alone; in block 2 the class token looks at that token and at patch 3. In between the token is thrown
away in many ways. Which patches reach the answer is found by changing each of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import explainers
from explainers.autograd.attention_trial import trial
from explainers.autograd.recording import Recording
from explainers.autograd.rules import RULES
from explainers.errors import ExplainerError
from tests.explainers.support.attention_forms import PREPROCESS

WIDTH, TOKENS, PATCHES = 16, 17, 16
LOOKED_AT, OTHER = 9, 3
MULTIPLIED = (
    *("rollout", "attention_flow", "generic_attention", "transformer_attribution", "transformer_attribution_without_gradient"),
    *("token_tm", "globenc", "alti"),
)
Change = Callable[[Any, Tensor], Tensor]


def bias(*looks: tuple[int, tuple[int, ...]]) -> Tensor:
    """Scores that let each token look at itself alone, and those in ``looks`` at others alone."""
    scores = torch.full((TOKENS, TOKENS), -60.0).fill_diagonal_(0.0)
    for query, keys in looks:
        scores[query] = -60.0
        scores[query, list(keys)] = 0.0
    return scores


class Block(nn.Module):
    """Attention with fixed scores; ``changes`` are made at its start, of its values, of what attention gives, of its residual, at its
    end.
    """

    def __init__(self, scores: Tensor, changes: dict[str, Change]) -> None:
        super().__init__()
        self.norm, self.out, self.fresh = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.Parameter(torch.randn(1, 1, WIDTH))
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.changes, self.kept = changes, torch.empty(0)
        self.register_buffer("scores", scores)

    def heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (2, -1)).transpose(1, 2)

    def change(self, where: str, x: Tensor) -> Tensor:
        return self.changes[where](self, x) if where in self.changes else x

    def forward(self, x: Tensor) -> Tensor:
        x = self.change("start", x)
        h = self.norm(x)
        query, key, value = self.heads(self.query(h)), self.heads(self.key(h)), self.heads(self.change("values", self.value(h)))
        weights = (query @ key.mT * 0.01 + self.scores).softmax(-1)
        self.kept = weights.detach()
        given = self.out((weights @ value).transpose(1, 2).flatten(2))
        return self.change("end", self.change("residual", x) + self.change("given", given))


class Net(nn.Module):
    def __init__(self, token: int, first: dict[str, Change], second: dict[str, Change], between: Change | None) -> None:
        super().__init__()
        self.patch, self.cls, self.between = nn.Conv2d(3, WIDTH, 8, 8), nn.Parameter(torch.randn(1, 1, WIDTH)), between
        self.pos, self.fresh = nn.Parameter(torch.randn(1, TOKENS, WIDTH) * 0.3), nn.Parameter(torch.randn(1, 1, WIDTH))
        self.blocks = nn.ModuleList([Block(bias((token, (LOOKED_AT + 1,))), first), Block(bias((0, (*{0, token}, OTHER + 1))), second)])
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cat([self.cls.expand(len(x), -1, -1), self.patch(x).flatten(2).mT], 1) + self.pos
        x = self.blocks[0](x)
        x = self.blocks[1](x if self.between is None else self.between(self, x))
        return self.head(self.norm(x)[:, 0])  # type: ignore[no-any-return]


def in_its_place(token: int) -> Change:
    return lambda module, x: torch.cat([x[:, :token], module.fresh.expand(len(x), -1, -1), x[:, token + 1 :]], 1)


def zero(token: int) -> Change:
    return lambda module, x: x * (torch.arange(x.shape[1]) != token)[:, None]


def where(token: int) -> Change:
    return lambda module, x: torch.where((torch.arange(x.shape[1]) != token)[:, None], x, module.fresh)


def filled(token: int) -> Change:
    return lambda module, x: x.masked_fill((torch.arange(x.shape[1]) == token)[:, None], 0.7)


def written(token: int) -> Change:
    def write(module: Any, x: Tensor) -> Tensor:
        x = x.clone()
        x[:, token] = module.fresh[:, 0]
        return x

    return write


def copied(token: int) -> Change:
    return lambda module, x: x.index_copy(1, torch.tensor([token]), module.fresh.expand(len(x), -1, -1))


@dataclass
class Form:
    """Changes of a model, and the links of the token that they cut: ``residual``, ``attended`` and ``weighed`` name a block each."""

    first: dict[str, Callable[[int], Change]] = field(default_factory=dict)
    second: dict[str, Callable[[int], Change]] = field(default_factory=dict)
    between: Callable[[int], Change] | None = None
    residual: int | None = None
    attended: int | None = None
    weighed: int | None = None
    passed: bool = True

    def net(self, token: int) -> Net:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            first, second = ({place: make(token) for place, make in changes.items()} for changes in (self.first, self.second))
            return Net(token, first, second, None if self.between is None else self.between(token)).double().eval()


FORMS = {
    "nothing": Form(),
    "replaced between": Form(between=in_its_place, passed=False),
    "zero between": Form(between=zero, passed=False),
    "where between": Form(between=where, passed=False),
    "filled between": Form(between=filled, passed=False),
    "written between": Form(between=written, passed=False),
    "copied between": Form(between=copied, passed=False),
    "replaced at the start of a block": Form(second={"start": in_its_place}, residual=1, weighed=1),
    "replaced at the end of a block": Form(first={"end": in_its_place}, passed=False),
    "filled at the end of a block": Form(first={"end": filled}, passed=False),
    "what attention gives it is zero": Form(first={"given": zero}, attended=0),
    "its values are others": Form(second={"values": in_its_place}, weighed=1),
    "its values are zero": Form(second={"values": zero}, weighed=1),
    "no residual": Form(first={"residual": zero}, residual=0),
}


def picture(batch: int = 1) -> Tensor:
    return torch.randn(batch, 3, 32, 32, generator=torch.Generator().manual_seed(5), dtype=torch.float64)


def reaching(net: nn.Module, x: Tensor) -> set[int]:
    """The patches of which a change changes the answer."""
    found = set()
    with torch.no_grad():
        for patch in range(PATCHES):
            changed, (row, column) = x.clone(), divmod(patch, 4)
            changed[..., row * 8 : row * 8 + 8, column * 8 : column * 8 + 8] += torch.linspace(-1, 1, 8)
            if bool((net(changed) - net(x)).abs().max() > 1e-12):
                found.add(patch)
    return found


def rollout_by_hand(form: Form, net: Net, x: Tensor, token: int) -> Tensor:
    """The class token's row of rollout, of one picture."""
    with torch.no_grad():
        net(x)
    joint = torch.eye(TOKENS, dtype=torch.float64)
    for number, block in enumerate(net.blocks):
        assert isinstance(block, Block)
        weights, identity = block.kept[0].mean(0).clone(), torch.eye(TOKENS, dtype=torch.float64)
        if form.attended == number:
            weights[token] = 0
        if form.weighed == number:
            weights[:, token] = 0
        if form.residual == number:
            identity[token] = 0
        joint = (weights + identity) / 2 @ joint
        if number == 0 and not form.passed:
            joint[token] = 0
    return joint[0]


def explained(net: nn.Module, x: Tensor, *specs: str) -> Any:
    model = explainers.wrap(net, kind="image", preprocess=PREPROCESS)
    result = explainers.explain(model, {"pixel_values": x}, 1, list(specs))
    return result[0] if isinstance(result, list) else result


def of_patches(result: Any, spec: str) -> Tensor:
    scores: Tensor = result[spec].scores[result[spec].content].double()
    return scores


CASES = [(name, token) for name in FORMS for token in (0, 5)]


@pytest.mark.parametrize(("name", "token"), CASES)
def test_multiplied_maps_end_where_a_token_is_thrown_away(name: str, token: int) -> None:
    form, x = FORMS[name], picture()
    net = form.net(token)
    reach = reaching(net, x)
    expected = rollout_by_hand(form, net, x, token)
    specs = [spec for spec in MULTIPLIED if spec not in ("globenc", "alti") or form.residual is form.weighed is None]
    result = explained(net, x, *specs)
    torch.testing.assert_close(of_patches(result, "rollout"), expected[1:], rtol=1e-5, atol=1e-9)
    for spec in specs:
        scores = of_patches(result, spec).abs()
        assert set((scores > 1e-12).nonzero().flatten().tolist()) <= reach, spec
    assert (LOOKED_AT in reach) == (name in ("nothing", "no residual") or (form.weighed == 1 and form.residual is None))


@pytest.mark.parametrize(("name", "token"), CASES)
def test_maps_that_read_tokens_by_their_places_say_what_stands_there(name: str, token: int) -> None:
    form = FORMS[name]
    is_replaced = not form.passed or form.residual is not None or form.weighed is not None
    result = explained(form.net(token), picture(), "raw_attention", "fullgrad_plus:libra", "hirescam", "input_x_gradient", "rollout")
    for spec in ("raw_attention", "fullgrad_plus:libra", "hirescam"):
        assert ("in the places of some patches" in " ".join(result[spec].notes)) == (is_replaced and token > 0), spec
    for spec in ("input_x_gradient", "rollout"):
        assert "in the places of" not in " ".join(result[spec].notes)


@pytest.mark.parametrize("name", ["replaced at the start of a block", "its values are others", "no residual"])
def test_single_tokens_are_not_propagated_through_blocks_that_replace_some(name: str) -> None:
    for spec in ("globenc", "alti"):
        with pytest.raises(ExplainerError, match="in the places of some of their own"):
            explained(FORMS[name].net(5), picture(), spec)


def test_a_token_that_each_picture_chooses_is_followed() -> None:
    def shortest(token: int) -> Change:
        def hide(module: Any, x: Tensor) -> Tensor:
            shortest_patches = 1 + x[:, 1:].norm(dim=-1).argsort(1)[:, :6]
            return x * torch.ones(x.shape[:2], dtype=x.dtype).scatter(1, shortest_patches, 0.0)[..., None]

        return hide

    net, x = Form(between=shortest).net(5), picture(4)
    together = explainers.explain(explainers.wrap(net, kind="image", preprocess=PREPROCESS), {"pixel_values": x}, 1, ["rollout"])
    assert isinstance(together, list)
    for sample, result in enumerate(together):
        scores = of_patches(result, "rollout")
        assert set((scores > 1e-9).nonzero().flatten().tolist()) <= reaching(net, x[sample : sample + 1])


class GivenAgain(Net):
    """Tokens after a normalisation that takes the embedded ones; ``again`` puts some of an earlier block's into a later one."""

    def __init__(self, again: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__(5, {}, {}, None)
        self.before, self.again = nn.LayerNorm(WIDTH), again
        self.blocks.append(Block(bias(), {}))

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cat([self.cls.expand(len(x), -1, -1), self.patch(x).flatten(2).mT], 1) + self.pos
        first = self.before(x)
        x = self.blocks[0](first)
        x = self.blocks[2](self.blocks[1](self.again(x, first)))
        return self.head(self.norm(x)[:, 0])  # type: ignore[no-any-return]


def test_what_is_given_again_is_refused_by_what_multiplies_maps_and_other_maps_go_on() -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = GivenAgain(lambda x, first: torch.cat([x[:, :5], first[:, 5:6], x[:, 6:]], 1)).double().eval()
    for spec in ("rollout", "attention_flow", "generic_attention", "transformer_attribution", "token_tm", "globenc", "alti"):
        with pytest.raises(ExplainerError, match="comes from the input by another way"):
            explained(net, picture(), spec)
    assert bool(explained(net, picture(), "raw_attention")["raw_attention"].scores.any())


def test_a_token_taken_out_of_the_gradient_is_not_taken_for_thrown_away() -> None:
    def detached(token: int) -> Change:
        return lambda module, x: torch.cat([x[:, :token], x[:, token : token + 1].detach(), x[:, token + 1 :]], 1)

    with pytest.raises(ExplainerError, match=r"\(detach\)"):
        explained(Form(between=detached).net(5), picture(), "rollout")


def test_nothing_is_thrown_away_in_a_usual_model() -> None:
    recording = trial(explainers.wrap(Form().net(5), kind="image", preprocess=PREPROCESS), Recording)
    plan = recording.structure.found_plan()
    assert (plan.cuts_tokens, plan.replaces_inside, plan.no_product) == (False, False, None)


class Renewed(Net):
    """The class token of the embedding before each block."""

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cat([self.cls.expand(len(x), -1, -1), self.patch(x).flatten(2).mT], 1) + self.pos
        first = x[:, :1]
        for block in self.blocks:
            x = block(torch.cat([first, x[:, 1:]], 1))
        return self.head(self.norm(x)[:, 0])  # type: ignore[no-any-return]


def test_the_account_is_whole_from_the_pixels_as_from_the_tokens_where_a_class_token_is_given_again() -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = Renewed(0, {}, {}, None).double().eval()
    model = explainers.wrap(net, kind="image", preprocess=PREPROCESS)
    start = torch.tensor([[0.0, 1.0, 0.0]], dtype=torch.float64)
    signals = [Recording(model, {"pixel_values": picture()}, pixels=pixels).backward(RULES["libra"], start) for pixels in (True, False)]
    for each in signals:
        assert each.missing is not None
        assert not bool(each.missing.any())
    torch.testing.assert_close(signals[0].bias, signals[1].bias)
    torch.testing.assert_close(signals[0].block_inputs[0], signals[1].block_inputs[0])
    report = explainers.open(net, kind="image", preprocess=explainers.Preprocessing((32, 32), fit="squash")).report
    assert report is not None
    assert {check.name: check.state for check in report.checks}["completeness"] == "passed"
