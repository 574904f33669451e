"""The tokens that a head reads, found when a model is opened: of a text the one that it singles out, and what it reads next to that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import explainers
from explainers.models.layout import Layout, OtherTokens
from explainers.models.structure import head_reading
from tests.explainers.support.attention_forms import PREPROCESS, WIDTH, Attention, Block, Vit, built, of_module, pixels, plain_blocks

WORDS = 7
Read = Callable[[Tensor], Tensor]


class Reader(nn.Module):
    """A classifier of texts whose head reads the tokens in one of several ways."""

    def __init__(self, read: Read) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(50, WIDTH), nn.Embedding(WORDS, WIDTH)
        self.blocks, self.read, self.head = nn.ModuleList(Block(lambda: Attention(of_module)) for _ in range(2)), read, nn.Linear(WIDTH, 3)

    def forward(self, input_ids: Tensor) -> Tensor:
        x = self.words(input_ids) + self.places.weight[: input_ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.read(x))  # type: ignore[no-any-return]


def layout_of_text(read: Read) -> tuple[explainers.Model, Layout]:
    torch.manual_seed(0)
    model = explainers.wrap(Reader(read), kind="text")
    return model, model.layout_of({})


class EarlyExit(Reader):
    """A classifier that runs its last block and does not read it."""

    def forward(self, input_ids: Tensor) -> Tensor:
        x = self.blocks[0](self.words(input_ids) + self.places.weight[: input_ids.shape[1]])
        self.blocks[1](x)
        return self.head(self.read(x))  # type: ignore[no-any-return]


def test_a_last_block_that_is_not_read_is_named_and_can_be_left_out() -> None:
    torch.manual_seed(0)
    module = EarlyExit(lambda x: x.mean(1))
    with pytest.raises(explainers.ExplainerError, match=r"does not depend on what the last of the blocks gives.*pass blocks="):
        explainers.wrap(module, kind="text")
    assert len(explainers.wrap(module, kind="text", blocks=[module.blocks[0]]).blocks) == 1


def test_last_blocks_that_run_without_gradients_and_are_not_read_are_named_for_that() -> None:
    class Aside(Reader):
        def forward(self, input_ids: Tensor) -> Tensor:
            x = self.blocks[0](self.words(input_ids) + self.places.weight[: input_ids.shape[1]])
            with torch.no_grad():
                self.blocks[1](x)
            return self.head(self.read(x))  # type: ignore[no-any-return]

    torch.manual_seed(0)
    with pytest.raises(explainers.ExplainerError, match="does not depend on what the last of the blocks gives"):
        explainers.wrap(Aside(lambda x: x.mean(1)), kind="text")


@pytest.mark.parametrize(
    ("read", "class_token", "others"),
    [
        (lambda x: x[:, 0], 0, OtherTokens()),
        (lambda x: x[:, -1], -1, OtherTokens()),
        (lambda x: x[:, 0] + x.mean(1), 0, OtherTokens(rest="all")),
        (lambda x: x[:, -1] + x.mean(1), -1, OtherTokens(rest="all")),
        (lambda x: x[:, 0] + x[:, -1], 0, OtherTokens(rest="some")),
        (lambda x: x[:, -1] + x[:, 1:-1].mean(1), -1, OtherTokens(rest="some")),
        (lambda x: x.mean(1), None, OtherTokens()),
        (lambda x: (x * torch.arange(1, 1 + x.shape[1])[:, None]).sum(1), None, OtherTokens()),
        (lambda x: x[:, 0] + x[:, 1:].std(1), 0, OtherTokens(rest="all")),
    ],
)
def test_a_head_of_texts_reads_one_token_or_others_too_or_pools(read: Read, class_token: int | None, others: OtherTokens) -> None:
    _, layout = layout_of_text(read)
    assert (layout.class_token, layout.other_tokens) == (class_token, others)


def test_maps_of_a_text_whose_head_reads_the_last_word_and_others_say_so() -> None:
    model, _ = layout_of_text(lambda x: x[:, -1] + x.mean(1))
    specs = ["raw_attention", "rollout", "generic_attention", "input_x_gradient"]
    result = explainers.explain(model, {"input_ids": torch.tensor([[3, 4, 5, 6]])}, 1, specs)
    first = result[0] if isinstance(result, list) else result
    for spec in specs:
        said = " ".join(first[spec].notes)
        assert ("such as the last word, alone. The head of this model also reads all of the other tokens" in said) == (spec != specs[-1])


def passes_behind(head: Read, count: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> Layout:
    """Open a model of pictures with this head, and count the passes that ask what its head reads."""
    ask = head_reading._gradient_at_last_block

    def asked(*given: Any) -> tuple[Tensor, bool]:
        count["passes"] = count.get("passes", 0) + 1
        return ask(*given)

    monkeypatch.setattr(head_reading, "_gradient_at_last_block", asked)

    class Headed(Vit):
        def forward(self, x: Tensor) -> Tensor:
            x = self.embed(self.patch(x))
            x = torch.cat([self.cls.expand(len(x), -1, -1), x], 1) + self.pos
            for block in self.blocks:
                x = block(x)
            return self.head(head(self.norm(x)))  # type: ignore[no-any-return]

    model = explainers.wrap(built(lambda: Headed(plain_blocks)), kind="image", preprocess=PREPROCESS)
    return model.layout_of({"pixel_values": pixels()})


def strongest(x: Tensor) -> Tensor:
    return x[torch.arange(len(x)), x.norm(dim=-1).argmax(1)]


def chosen_by_the_first(x: Tensor) -> Tensor:
    return x[:, int(x[0, 0].sum() > 1e9)]


class Hidden(torch.autograd.Function):
    """Picks the strongest token in code that no watch sees."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.place, ctx.shape = int(x.norm(dim=-1)[0].argmax()), x.shape
        return x[:, ctx.place].clone()

    @staticmethod
    def backward(ctx: Any, *signals: Tensor) -> Tensor:
        back = signals[0].new_zeros(ctx.shape)
        back[:, ctx.place] = signals[0]
        return back


def hidden(x: Tensor) -> Tensor:
    return Hidden.apply(x)  # type: ignore[no-any-return, no-untyped-call]


@pytest.mark.parametrize(
    ("head", "passes"),
    [
        (lambda x: x[:, 0], 1),
        (lambda x: x[:, 0, :], 1),
        (lambda x: x.select(1, 0), 1),
        (lambda x: x[:, :1].mean(1), 1),
        (lambda x: x[:, :1].squeeze(1).contiguous(), 1),
        (lambda x: x.mT[..., 0], 2),
        (strongest, 2),
        (chosen_by_the_first, 2),
        (hidden, 2),
    ],
)
def test_a_second_pass_is_made_where_the_head_may_choose_its_token(head: Read, passes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    count: dict[str, int] = {}
    layout = passes_behind(head, count, monkeypatch)
    assert count["passes"] == passes
    assert layout.class_token == (-1 if head in (strongest, hidden) else 0)
