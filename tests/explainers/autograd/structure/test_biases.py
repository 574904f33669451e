"""FullGrad's bias terms where an axis of hidden units or channels is as long as that of tokens, and where a class token joins the tokens
after the blocks: against torch's own gradient at each bias.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import explainers
from tests.explainers.support.attention_forms import PREPROCESS, built, pixels

PATCHES = 16
#: A tensor (B, ...), and the bias terms (patches,) that come of the gradient at it.
Kept = list[tuple[Tensor, Callable[[Tensor], Tensor]]]


def keep(kept: Kept | None, output: Tensor, terms: Callable[[Tensor], Tensor]) -> Tensor:
    if kept is not None:
        output.retain_grad()
        kept.append((output, terms))
    return output


def by_row(layer: nn.Module, kept: Kept | None, x: Tensor, before: int = 0) -> Tensor:
    """``layer`` of x (B, before + patches, ...), whose bias acts at each row."""
    return keep(
        kept, layer(x), lambda g: (g[0, before:] @ layer.bias)[-PATCHES:] if g.shape[1] >= PATCHES else torch.zeros(PATCHES).double()
    )


class TokenMlp(nn.Module):
    def __init__(self, hidden: int, how: str) -> None:
        super().__init__()
        self.a, self.b, self.how = nn.Linear(PATCHES, hidden), nn.Linear(hidden, PATCHES), how

    def forward(self, x: Tensor, kept: Kept | None = None) -> Tensor:
        if self.how == "transposed":
            y = self.b(F.gelu(self.a(x.mT))).mT
        elif self.how == "convolutions":
            y = F.conv1d(F.gelu(F.conv1d(x, self.a.weight[..., None], self.a.bias)), self.b.weight[..., None], self.b.bias)
        else:
            y = self.b.weight @ F.gelu(self.a.weight @ x + self.a.bias[:, None]) + self.b.bias[:, None]
        return keep(kept, y.clone(), lambda g: g[0].sum(-1) * self.b.bias)


class ConvolvedTokens(nn.Module):
    """A linear layer over channels between two convolutions along the tokens: its rows are of tokens, though several come to each."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.a, self.b = (nn.Conv1d(width, width, 3, padding=1, groups=width, bias=False) for _ in range(2))
        self.between = nn.Linear(width, width)

    def forward(self, x: Tensor, kept: Kept | None = None) -> Tensor:
        return self.b(by_row(self.between, kept, self.a(x.mT).mT).mT).mT


class MixerBlock(nn.Module):
    def __init__(self, width: int, mixing: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.n1, self.n2, self.mixing = nn.LayerNorm(width), nn.LayerNorm(width), mixing()
        self.a, self.b = nn.Linear(width, 20), nn.Linear(20, width)

    def forward(self, x: Tensor, kept: Kept | None = None) -> Tensor:
        x = x + self.mixing(by_row(self.n1, kept, x), kept)
        return x + by_row(self.b, kept, F.gelu(by_row(self.a, kept, by_row(self.n2, kept, x))))


class Mixer(nn.Module):
    def __init__(self, width: int, mixing: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.patch, self.norm = nn.Conv2d(3, width, 8, 8), nn.LayerNorm(width)
        self.blocks = nn.ModuleList(MixerBlock(width, mixing) for _ in range(2))
        self.head = nn.Linear(width, 4, bias=False)

    def embed(self, x: Tensor) -> Tensor:
        return self.patch(x).flatten(2).mT

    def rest(self, x: Tensor, kept: Kept | None = None, inputs: list[Tensor] | None = None) -> Tensor:
        for block in self.blocks:
            x = block(noted(x, inputs), kept)
        return self.head(by_row(self.norm, kept, x).mean(1))

    def forward(self, x: Tensor) -> Tensor:
        return self.rest(self.embed(x))


def noted(x: Tensor, inputs: list[Tensor] | None) -> Tensor:
    if inputs is not None:
        x.retain_grad()
        inputs.append(x)
    return x


def check(module: nn.Module, x: Tensor) -> None:
    """FullGrad and FullGrad+ of each picture, by the terms that ``rest`` keeps."""
    model = explainers.wrap(module, kind="image", preprocess=PREPROCESS)
    results = explainers.explain(model, {"pixel_values": x}, 1, ["fullgrad", "fullgrad_plus"])
    for image, result in zip(x, results if isinstance(results, list) else [results], strict=True):
        kept, inputs = Kept(), list[Tensor]()
        first = module.embed(image[None]).detach().requires_grad_()  # type: ignore[operator]
        module.rest(first, kept, inputs)[0, 1].backward()  # type: ignore[operator]
        biases = sum((terms(output.grad) for output, terms in kept if output.grad is not None), torch.zeros(PATCHES).double()).detach()
        products = [(each * each.grad).sum(-1)[0].detach() for each in inputs if each.grad is not None]
        for spec, expected in (("fullgrad", products[0] + biases), ("fullgrad_plus", torch.stack(products).sum(0) + biases)):
            torch.testing.assert_close(result[spec].scores.double(), expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("how", ["transposed", "convolutions", "product"])
@pytest.mark.parametrize(("width", "hidden"), [(24, 20), (24, PATCHES), (PATCHES, 20), (PATCHES, PATCHES)])
def test_hidden_units_of_an_mlp_over_tokens_are_no_tokens(width: int, hidden: int, how: str) -> None:
    check(built(lambda: Mixer(width, lambda: TokenMlp(hidden, how))), pixels(2))


@pytest.mark.parametrize("width", [24, PATCHES])
def test_a_bias_between_two_convolutions_along_the_tokens_is_of_its_row(width: int) -> None:
    check(built(lambda: Mixer(width, lambda: ConvolvedTokens(width))), pixels(2))


class Attending(nn.Module):
    """A block of attention with one head; ``kept`` collects what its biases give, whose rows follow ``before`` others."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v, self.proj = (nn.Linear(width, width) for _ in range(4))
        self.a, self.b = nn.Linear(width, 20), nn.Linear(20, width)

    def forward(self, x: Tensor, kept: Kept | None = None, before: int = 0) -> Tensor:
        y = by_row(self.n1, kept, x, before)
        q, k, v = (by_row(layer, kept, y, before) for layer in (self.q, self.k, self.v))
        x = x + by_row(self.proj, kept, (q @ k.mT / 5).softmax(-1) @ v, before)
        return x + by_row(self.b, kept, F.gelu(by_row(self.a, kept, by_row(self.n2, kept, x, before), before)), before)


class ClassAttending(Attending):
    """A block of class attention as CaiT has it: the class token alone asks, over itself and the patches."""

    def forward(self, x: Tensor, token: Tensor, kept: Kept | None = None) -> Tensor:  # type: ignore[override]
        y = by_row(self.n1, kept, torch.cat([token, x], 1), 1)
        q, k, v = self.q(y[:, :1]), by_row(self.k, kept, y, 1), by_row(self.v, kept, y, 1)
        token = token + self.proj((q @ k.mT / 5).softmax(-1) @ v)
        return token + self.b(F.gelu(self.a(self.n2(token))))


class Late(nn.Module):
    """Blocks over patches, then tokens of its own that join them: in blocks of class attention, or in two more of the same blocks."""

    def __init__(self, width: int, joining: int, is_cait: bool) -> None:
        super().__init__()
        self.patch, self.token = nn.Conv2d(3, width, 8, 8), nn.Parameter(torch.randn(1, joining, width))
        self.blocks = nn.ModuleList(Attending(width) for _ in range(2 if is_cait else 4))
        self.class_blocks = nn.ModuleList(ClassAttending(width) for _ in range(2 if is_cait else 0))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 4, bias=False)

    def embed(self, x: Tensor) -> Tensor:
        return self.patch(x).flatten(2).mT

    def rest(self, x: Tensor, kept: Kept | None = None, inputs: list[Tensor] | None = None) -> Tensor:
        token, joining = self.token.expand(len(x), -1, -1), self.token.shape[1]
        for block in self.blocks[:2]:
            x = block(noted(x, inputs), kept)
        for block in self.class_blocks:
            token = block(x, token, kept)
        x = torch.cat([token, x], 1)
        for block in self.blocks[2:]:
            x = block(x, kept, joining)
        return self.head(by_row(self.norm, kept, x, joining)[:, 0])

    def forward(self, x: Tensor) -> Tensor:
        return self.rest(self.embed(x))


@pytest.mark.parametrize("width", [24, PATCHES])
@pytest.mark.parametrize(("joining", "is_cait"), [(1, True), (1, False), (2, False)])
def test_biases_after_a_class_token_has_joined_are_of_the_patches_where_they_act(joining: int, is_cait: bool, width: int) -> None:
    check(built(lambda: Late(width, joining, is_cait)), pixels(2))


def test_a_map_that_ends_where_a_class_token_joins_says_so() -> None:
    module = built(lambda: Late(24, 1, False))
    model = explainers.wrap(module, kind="image", preprocess=PREPROCESS)
    result = explainers.explain(
        model, {"pixel_values": pixels()}, 1, ["input_x_gradient", "fullgrad", "fullgrad_plus", "hirescam", "attcat"]
    )
    assert not isinstance(result, list)
    said = {each.method: any("2 of the blocks in the list run after" in note for note in each.notes) for each in result.maps}
    assert said == {"input_x_gradient": False, "fullgrad": False, "fullgrad_plus": True, "hirescam": True, "attcat": True}
    assert any("goes on with patches or words of the last block that is read here" in note for note in result["attcat"].notes)


def test_the_blocks_after_a_class_token_has_joined_can_be_read_instead() -> None:
    module = built(lambda: Late(24, 1, False))
    later = list(module.blocks[2:])  # type: ignore[arg-type,index]
    model = explainers.wrap(module, kind="image", preprocess=PREPROCESS, blocks=later)
    result = explainers.explain(model, {"pixel_values": pixels()}, 1, ["hirescam"])
    assert not isinstance(result, list)
    x = module.embed(pixels())  # type: ignore[operator]
    for block in (*module.blocks[:2], later[0]):  # type: ignore[index]
        x = block(x if block is not later[0] else torch.cat([module.token, x], 1)).detach()  # type: ignore[list-item]
    (gradient,) = torch.autograd.grad(module.head(module.norm(later[1](x.requires_grad_())))[0, 0, 1], x)  # type: ignore[operator]
    torch.testing.assert_close(
        result["hirescam"].scores[result["hirescam"].content].double(), (x * gradient).sum(-1)[0, 1:].detach(), rtol=1e-5, atol=1e-7
    )


def test_a_map_of_later_blocks_names_those_before() -> None:
    class JoinedEarly(Late):
        def rest(self, x: Tensor, kept: Kept | None = None, inputs: list[Tensor] | None = None) -> Tensor:
            x = torch.cat([self.token.expand(len(x), -1, -1), self.blocks[0](x)], 1)
            for block in self.blocks[1:]:
                x = block(x)
            return self.head(self.norm(x)[:, 0])

    model = explainers.wrap(built(lambda: JoinedEarly(24, 1, False)), kind="image", preprocess=PREPROCESS)
    result = explainers.explain(model, {"pixel_values": pixels()}, 1, ["input_x_gradient", "input_x_gradient?at=pixels"])
    assert not isinstance(result, list)
    assert [any("1 of the blocks in the list run before" in note for note in each.notes) for each in result.maps] == [True, False]
