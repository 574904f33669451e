"""Ways around the blocks, found in every kind of block: a later block, or the head, takes what an earlier block took or gave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from torch import Tensor, nn

import explainers
from explainers.autograd.attention_trial import trial
from explainers.autograd.recording import Recording
from explainers.models.structure.block_kinds import Branches, InnerTokens
from tests.explainers.support.attention_forms import CLASSES, PREPROCESS, WIDTH, Attention, Block, Mlp, built, of_module, pixels

SIDE, DEPTH = 4, 4
SHORTCUT = "by a way around the blocks between"
WAYS = {"none": False, "from the first block to the head": True, "around two blocks": True}


def block() -> Block:
    return Block(lambda: Attention(of_module))


class Laid(nn.Module):
    """A block of tokens that lie in another way than in a row; ``row`` and ``back`` are how."""

    def __init__(self, row: Callable[[Tensor], Tensor], back: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.block, self.row, self.back = block(), row, back

    def forward(self, x: Tensor) -> Tensor:
        return self.back(self.block(self.row(x)))


class Inner(nn.Module):
    """A block of patches and of four tokens inside each."""

    def __init__(self) -> None:
        super().__init__()
        self.block, self.mlp, self.up = block(), Mlp(), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, inner: Tensor, outer: Tensor) -> tuple[Tensor, Tensor]:
        inner = inner + self.mlp(inner)
        outer = outer + self.up(inner.flatten(1)).unflatten(0, (len(outer), -1))
        return inner, self.block(outer)


class Pair(nn.Module):
    """A block of two branches, with patches of two sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.fine, self.coarse = block(), nn.Sequential(block())

    def forward(self, xs: list[Tensor]) -> list[Tensor]:
        fine, coarse = self.fine(xs[0]), self.coarse(xs[1])
        return [fine + coarse.mean(1, keepdim=True), coarse]


@dataclass(frozen=True)
class Kind:
    """``first`` makes what blocks take of tokens (B, S, D), and ``rows`` turns the last of it back into these."""

    block: Callable[[], nn.Module]
    first: Callable[[Tensor], tuple[Tensor, ...]]
    rows: Callable[[Tensor], Tensor]
    is_found: Callable[[Any], bool]


class Trunk(nn.Module):
    """Blocks of one kind, with a ``way`` around some of them."""

    def __init__(self, kind: Kind, way: str) -> None:
        super().__init__()
        self.blocks, self.way, self.behind = nn.ModuleList(kind.block() for _ in range(DEPTH)), way, nn.Identity()

    def forward(self, *xs: Tensor) -> Tensor:
        states = [xs]
        for number, block in enumerate(self.blocks):
            xs = states[-1]
            if self.way == "around two blocks" and number == 3:
                xs = tuple(a + b for a, b in zip(xs, states[1], strict=True))
            states.append(given_by(block, xs))
        last = self.behind(states[-1][-1])
        if self.way == "from the first block to the head":
            last = last + states[1][-1]
        return last


class Net(nn.Module):
    def __init__(self, kind: Kind, way: str) -> None:
        super().__init__()
        self.patch, self.trunk, self.kind, self.head = nn.Conv2d(3, WIDTH, 8, 8), Trunk(kind, way), kind, nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.kind.first(self.patch(x).flatten(2).mT)
        return self.head(self.kind.rows(self.trunk(*tokens)).mean(1))  # type: ignore[no-any-return]


def given_by(block: nn.Module, xs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    if isinstance(block, nn.ModuleList):  # a loop adds the residual
        (x,) = xs
        for part in block:
            x = x + part(x)
        return (x,)
    given = block(list(xs)) if isinstance(block, Pair) else block(*xs)
    return (given,) if isinstance(given, Tensor) else tuple(given)


def turned(x: Tensor) -> Tensor:
    return x.transpose(0, 1)


def as_map(x: Tensor) -> Tensor:
    return x.unflatten(1, (SIDE, SIDE))


def as_channels(x: Tensor) -> Tensor:
    return x.mT.unflatten(2, (SIDE, SIDE))


def of_channels(x: Tensor) -> Tensor:
    return x.flatten(2).mT


def in_two_sizes(x: Tensor) -> tuple[Tensor, Tensor]:
    return x, nn.functional.avg_pool2d(as_channels(x), 2).flatten(2).mT


def same(x: Tensor) -> Tensor:
    return x


KINDS = {
    "row": Kind(block, lambda x: (x,), same, lambda kind: kind.is_row and not kind.in_loop),
    "tokens first": Kind(lambda: Laid(turned, turned), lambda x: (turned(x),), turned, lambda kind: kind.tokens_first),
    "map, width last": Kind(
        lambda: Laid(lambda x: x.flatten(1, 2), as_map), lambda x: (as_map(x),), lambda x: x.flatten(1, 2), lambda kind: kind.channels == 3
    ),
    "map, width first": Kind(
        lambda: Laid(of_channels, as_channels), lambda x: (as_channels(x),), of_channels, lambda kind: kind.channels == 1
    ),
    "loop": Kind(
        lambda: nn.ModuleList([nn.Sequential(nn.LayerNorm(WIDTH), Attention(of_module)), Mlp()]),
        lambda x: (x,),
        same,
        lambda kind: kind.in_loop,
    ),
    "inner tokens": Kind(Inner, lambda x: (x.flatten(0, 1)[:, None].repeat(1, 4, 1), x), same, lambda kind: isinstance(kind, InnerTokens)),
    "branches": Kind(Pair, in_two_sizes, same, lambda kind: isinstance(kind, Branches)),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_ways_around_blocks_of_every_kind_are_found(kind: str, way: str) -> None:
    model = explainers.wrap(built(lambda: Net(KINDS[kind], way)), kind="image", preprocess=PREPROCESS)
    assert KINDS[kind].is_found(model.block_kind)
    recording = trial(model, Recording)
    assert recording.structure.found_plan().has_shortcuts == WAYS[way]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "branches"])
def test_maps_of_attention_in_blocks_of_every_kind_say_so(kind: str) -> None:
    model = explainers.wrap(built(lambda: Net(KINDS[kind], "around two blocks")), kind="image", preprocess=PREPROCESS)
    result = explainers.explain(model, {"pixel_values": pixels()}, 1, ["rollout?row=mean"])
    first = result[0] if isinstance(result, list) else result
    assert SHORTCUT in " ".join(first["rollout?row=mean"].notes)


def test_what_a_loop_adds_around_one_block_alone_is_that_blocks_residual() -> None:
    class Twice(Trunk):
        def forward(self, *xs: Tensor) -> Tensor:
            for block in self.blocks:
                xs = (given_by(block, xs)[0] + xs[0],)
            return self.behind(xs[0])  # type: ignore[no-any-return]

    def net() -> Net:
        made = Net(KINDS["loop"], "none")
        made.trunk = Twice(KINDS["loop"], "none")
        return made

    recording = trial(explainers.wrap(built(net), kind="image", preprocess=PREPROCESS), Recording)
    assert not recording.structure.found_plan().has_shortcuts
