"""What a trial pass says of attention that the blocks that are read do not have, or make of what earlier ones computed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import explainers
from explainers.autograd.recording import Recording
from explainers.models.layout import OtherTokens
from tests.explainers.support.attention_forms import (
    CLASSES,
    PREPROCESS,
    WIDTH,
    Attention,
    Block,
    Vit,
    built,
    of_module,
    pixels,
    plain_blocks,
)

SPECS = ("raw_attention", "rollout", "generic_attention")


class Outside(Vit):
    """Self-attention of its own with a residual, before, between or after the blocks; or of the class token alone."""

    def __init__(self, where: str) -> None:
        super().__init__(plain_blocks)
        self.where, self.own, self.own_norm = where, Attention(of_module), nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x).flatten(2).mT
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], 1) + self.pos

        def own(x: Tensor) -> Tensor:
            return x + self.own(self.own_norm(x))

        x = own(x) if self.where == "before" else x
        x = self.blocks[0](x)
        x = own(x) if self.where == "between" else x
        x = self.blocks[1](x)
        x = own(x) if self.where == "behind" else x
        if self.where == "class token":
            weights = (x[:, :1] @ self.own_norm(x).mT).softmax(-1)
            x = x[:, :1] + weights @ x
        return self.head(self.norm(x)[:, 0])


class ClassQuery(Block):
    """The last of the list, which computes the class token alone where it is told to."""

    def __init__(self, alone: bool) -> None:
        super().__init__(lambda: Attention(of_module))
        self.alone = alone

    def forward(self, x: Tensor) -> Tensor:
        if not self.alone:
            return super().forward(x)
        h = self.n1(x)
        x = x[:, :1] + F.scaled_dot_product_attention(h[:, None, :1], h[:, None], h[:, None])[:, 0]
        return x + self.mlp(self.n2(x))


class MapHead(Vit):
    """A head that pools with a query of its own, as SigLIP's."""

    def __init__(self) -> None:
        super().__init__(plain_blocks)
        self.pool, self.probe = nn.MultiheadAttention(WIDTH, 2, batch_first=True), nn.Parameter(torch.randn(1, 1, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x).flatten(2).mT + self.pos[:, 1:]
        for block in self.blocks:
            x = block(x)
        return self.head(self.pool(self.probe.expand(len(x), -1, -1), x, x)[0][:, 0])


def notes_of(vit: nn.Module, *specs: str, prefix: int | None = None) -> dict[str, str]:
    model = explainers.wrap(vit, kind="image", preprocess=PREPROCESS, prefix=prefix)
    result = explainers.explain(model, {"pixel_values": pixels()}, 1, list(specs))
    first = result[0] if isinstance(result, list) else result
    return {spec: " ".join((*first[spec].notes, *first.notes)) for spec in specs}


OUTSIDE: dict[str, tuple[Callable[[], Vit], str]] = {
    "before": (lambda: Outside("before"), "before"),
    "between": (lambda: Outside("between"), "between"),
    "behind": (lambda: Outside("behind"), "behind"),
    "the class token alone": (lambda: Outside("class token"), "behind"),
    "the last block, of the class token alone": (lambda: Vit(lambda: [ClassQuery(False), ClassQuery(False), ClassQuery(True)]), "behind"),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_maps_say_that_they_leave_out_attention_outside_of_the_blocks(name: str) -> None:
    make, where = OUTSIDE[name]
    notes = notes_of(built(make), *SPECS, "input_x_gradient", prefix=1 if name == "before" else None)
    for spec in SPECS:
        assert f"attention {where} the blocks that are read here" in notes[spec]
    assert "that are read here" not in notes["input_x_gradient"]


def test_maps_say_nothing_where_all_attention_is_read() -> None:
    assert "that are read here" not in notes_of(built(lambda: Vit(plain_blocks)), "rollout")["rollout"]
    assert "that are read here" not in notes_of(built(MapHead), "rollout?row=mean")["rollout?row=mean"]


class OtherHead(Vit):
    """A head that reads the class token, and the mean of the patches, a second token, or an earlier layer; or a skip around a block."""

    def __init__(self, reads: str) -> None:
        super().__init__(lambda: [*plain_blocks(), *plain_blocks()])
        self.reads = reads
        if reads == "token":
            self.cls, self.pos = nn.Parameter(torch.randn(1, 2, WIDTH)), nn.Parameter(torch.randn(1, self.pos.shape[1] + 1, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x).flatten(2).mT
        layers = [torch.cat([self.cls.expand(len(x), -1, -1), x], 1) + self.pos]
        for block in self.blocks:
            skipped = layers[1] if self.reads == "skip" and len(layers) == 3 else 0.0
            layers.append(block(layers[-1] + skipped))
        last = layers[-1]
        others = {
            "patches": last[:, 1:].mean(1),
            "one patch": 2 * last[:, 3],
            "spread": last[:, 1:].std(1),
            "token": 2 * last[:, 1],
            "layers": layers[2][:, 0],
        }
        return self.head(last[:, 0] + others.get(self.reads, 0.0))


@pytest.mark.parametrize(
    ("reads", "said"),
    [
        ("patches", "also reads all of the other tokens"),
        ("one patch", "also reads some of the other tokens"),
        ("spread", "also reads all of the other tokens"),
        ("layers", "by a way around"),
        ("skip", "by a way around"),
        ("nothing", ""),
    ],
)
def test_maps_say_what_of_the_way_to_the_head_they_leave_out(reads: str, said: str) -> None:
    for note in notes_of(built(lambda: OtherHead(reads)), *SPECS, prefix=1).values():
        assert said in note
        assert ("also reads" in note, "by a way around" in note) == ("also reads" in said, "by a way around" in said)


def test_maps_name_a_second_class_token() -> None:
    for note in notes_of(built(lambda: OtherHead("token")), *SPECS, prefix=2).values():
        assert "also reads 1 other token in front, whose" in note


def test_other_tokens_are_found_when_a_model_is_opened_and_not_for_each_map(monkeypatch: pytest.MonkeyPatch) -> None:
    model = explainers.wrap(built(lambda: OtherHead("patches")), kind="image", preprocess=PREPROCESS, prefix=1)
    assert model.layout_of({"pixel_values": pixels()}).other_tokens == OtherTokens(rest="all")
    explainers.explain(model, {"pixel_values": pixels()}, 1, ["rollout"])  # finds how attention is read
    monkeypatch.setattr(Recording, "pull", lambda *given: pytest.fail("a signal was sent back for a map that reads attention alone"))
    result = explainers.explain(model, {"pixel_values": pixels()}, 1, ["rollout"])
    first = result[0] if isinstance(result, list) else result
    assert any("also reads all" in note for note in first["rollout"].notes)


def test_a_map_from_the_mean_of_all_tokens_says_nothing_of_those_that_the_head_reads() -> None:
    assert "also reads" not in notes_of(built(lambda: OtherHead("patches")), "rollout?row=mean", prefix=1)["rollout?row=mean"]


class Handing(nn.Module):
    """A block that hands its values to the next, of whose values they make up the share ``handed``."""

    def __init__(self, handed: float) -> None:
        super().__init__()
        self.handed = handed
        self.norm, self.qkv, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, values: Tensor | None = None) -> tuple[Tensor, Tensor]:
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        v = v if values is None else (1 - self.handed) * v + self.handed * values if self.handed < 1 else values
        return x + self.out(F.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None])[:, 0]), v


class WithHanding(Vit):
    def __init__(self, handed: float) -> None:
        super().__init__(lambda: [Handing(handed), Handing(handed)])
        self.hands, self.head = handed > 0, nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x).flatten(2).mT
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], 1) + self.pos
        x, values = self.blocks[0](x)
        x, _ = self.blocks[1](x, values if self.hands else None)
        return self.head(self.norm(x)[:, 0])


@pytest.mark.parametrize("handed", [1.0, 0.5, 0.0])
def test_maps_say_that_values_are_those_of_an_earlier_block(handed: float) -> None:
    notes = notes_of(built(lambda: WithHanding(handed)), "rollout")
    assert ("values that an earlier block made" in notes["rollout"]) == (handed > 0)
