"""Models of texts that read more rows of tokens than the text has: their own, the words a second time, or rows of several words."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import explainers
from explainers import ExplainerError
from explainers.models.token_sources import OWN, PADDING, SEVERAL, token_sources_of
from tests.support.vocabularies import wordpiece

WIDTH, HEADS, BLOCKS = 8, 2, 3
TOKENIZER = wordpiece()
TEXT = "not a good film"
CLASS = 1


class Block(nn.Module):
    """A block of a Transformer that keeps what it computed last: its tokens, the stream after attention, and the attention weights."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        z = self.norm1(x)
        q, k, v = (part(z).unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in (self.query, self.key, self.value))
        scores = (q @ k.mT / math.sqrt(WIDTH / HEADS)).masked_fill(~mask[:, None, None], -torch.inf)
        weights = scores.softmax(-1)
        middle = x + self.out((weights @ v).transpose(1, 2).flatten(2))
        y: Tensor = middle + self.down(F.gelu(self.up(self.norm2(middle))))
        self.seen = (x, middle, y, weights)
        return y


class Plain(nn.Module):
    """A classifier of texts whose head reads one row; subclasses change the rows."""

    row = 0

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(len(TOKENIZER), WIDTH), nn.Embedding(64, WIDTH)
        self.memory = nn.Parameter(torch.randn(1, 3, WIDTH))
        self.blocks = nn.ModuleList(Block() for _ in range(BLOCKS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4)

    def rows(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        return self.words(ids) + self.places(torch.arange(ids.shape[1])), mask

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        x, mask = self.rows(input_ids, attention_mask.bool())
        for block in self.blocks:
            x = block(x, mask)
        logits: Tensor = self.head(self.norm(x)[:, self.row])
        return logits


class Memory(Plain):
    def rows(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        x, _ = super().rows(ids, mask)
        return torch.cat([x, self.memory.expand(len(x), -1, -1)], 1), F.pad(mask, (0, 3), value=True)


class ReadMemory(Memory):
    row = -1


class Twice(Plain):
    def rows(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        return super().rows(torch.cat([ids, ids], 1), torch.cat([mask, mask], 1))


class SeenPadding(Plain):
    """Pads each text to 12 tokens, and does not mask them."""

    def rows(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        return super().rows(F.pad(ids, (0, 12 - ids.shape[1])), F.pad(mask, (0, 12 - mask.shape[1]), value=True))


class MaskedPadding(Plain):
    def rows(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        return super().rows(F.pad(ids, (0, 12 - ids.shape[1])), F.pad(mask, (0, 12 - mask.shape[1])))


class Pairs(Plain):
    """Appends a row for each two neighbours, the mean of theirs."""

    def rows(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        x, _ = super().rows(ids, mask)
        return torch.cat([x, (x[:, 1:] + x[:, :-1]) / 2], 1), torch.cat([mask, mask[:, 1:] & mask[:, :-1]], 1)


class InPlace(Plain):
    """Puts a row of its own in the place of the second token, "not"."""

    def rows(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        x, _ = super().rows(ids, mask)
        return torch.cat([x[:, :1], self.memory[:, :1].expand(len(x), -1, -1), x[:, 2:]], 1), mask


class OwnFirst(Plain):
    def rows(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        x, _ = super().rows(ids, mask)
        return torch.cat([self.memory[:, :1].expand(len(x), -1, -1), x], 1), F.pad(mask, (1, 0), value=True)


def made(kind: type[Plain]) -> Plain:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = kind().double().eval()
        for parameter in module.parameters():
            parameter.data += 0.3 * torch.randn_like(parameter)
    return module


def wrapped(module: nn.Module) -> explainers.Model:
    return explainers.wrap(module, kind="text", tokenizer=TOKENIZER)


@contextmanager
def outputs_kept(module: nn.Module) -> Iterator[list[tuple[Tensor, Tensor]]]:
    """Collect the output of each layer with a bias, and the bias."""
    kept: list[tuple[Tensor, Tensor]] = []

    def keep(layer: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> Tensor:
        output.retain_grad()
        assert isinstance(layer, nn.Linear | nn.LayerNorm)
        kept.append((output, layer.bias.detach()))
        return output

    handles = [layer.register_forward_hook(keep) for layer in module.modules() if isinstance(layer, nn.Linear | nn.LayerNorm)]
    yield kept
    for handle in handles:
        handle.remove()


def gradient_of(tensor: Tensor) -> Tensor:
    assert tensor.grad is not None
    return tensor.grad


def expected(module: Plain, text: str = TEXT) -> dict[str, Tensor]:
    """The maps of all rows (S,), by autograd and the formulas of the papers; real rows in ``"real"``."""
    given = TOKENIZER(text, return_tensors="pt")
    with outputs_kept(module) as kept:
        logits = module(given["input_ids"], given["attention_mask"])
    seen = [block.seen for block in module.blocks if isinstance(block, Block)]
    for tensors in seen:
        for tensor in tensors:
            tensor.retain_grad()
    logits[0, CLASS].backward()
    real = module.rows(given["input_ids"], given["attention_mask"].bool())[1][0]
    *x_times_g, _ = [(x.detach() * gradient_of(x))[0].sum(-1) for x in [each[0] for each in seen] + [seen[-1][2]]]
    bias = torch.zeros(len(real)).double()
    for output, layer_bias in kept[:-1]:
        bias += (gradient_of(output) * layer_bias)[0].sum(-1)
    bias[module.row] += kept[-1][1][CLASS]
    eye = torch.eye(len(real)).double()
    rollout, token_tm = eye, torch.diag(seen[0][0][0].detach().norm(dim=-1))

    def change(before: Tensor, after: Tensor) -> Tensor:
        cosine = F.cosine_similarity(before, after, dim=-1).masked_fill(~real, -torch.inf)
        weight: Tensor = after.norm(dim=-1) / before.norm(dim=-1) * cosine.softmax(0)
        return weight

    for tensors in seen:
        x, middle, y, weights = (each.detach()[0] for each in tensors)
        gradient = gradient_of(tensors[3])[0].clamp(min=0).mean(0)
        rollout = (weights.mean(0) + eye) / 2 @ rollout
        token_tm = (eye + weights.mean(0) * change(x, middle) * gradient) @ token_tm
        token_tm = (1 + change(middle, y))[:, None] * token_tm
    weights_of_queries = [each[3].detach()[0].mean(0)[real].mean(0) for each in seen]
    return {
        "real": real,
        "input_x_gradient:gradient": x_times_g[0],
        "fullgrad:gradient": x_times_g[0] + bias,
        "raw_attention": seen[-1][3].detach()[0].mean(0)[module.row],
        "rollout": rollout[module.row],
        "attcat:gradient": torch.stack([a * later for a, later in zip(weights_of_queries, x_times_g[1:], strict=False)]).sum(0),
        "token_tm:gradient": token_tm[module.row],
    }


SPECS = ["input_x_gradient:gradient", "fullgrad:gradient", "raw_attention", "rollout", "attcat:gradient", "token_tm:gradient"]
#: For each model the token whose row each further row is, for a text of n tokens; -1: none.
FURTHER: dict[type[Plain], Callable[[int], list[int]]] = {
    Memory: lambda n: [-1] * 3,
    ReadMemory: lambda n: [-1] * 3,
    Twice: lambda n: list(range(n)),
    SeenPadding: lambda n: [-1] * (12 - n),
    MaskedPadding: lambda n: [-1] * (12 - n),
    Pairs: lambda n: [-1] * (n - 1),
}


@pytest.mark.parametrize("kind", FURTHER)
def test_further_rows_are_counted_where_they_belong(kind: type[Plain]) -> None:
    module = made(kind)
    rows = expected(module)
    result = explainers.explain(wrapped(module), TEXT, target=CLASS, methods=[*SPECS, "fullgrad:libra"])
    tokens = len(result[SPECS[0]].scores)
    further = FURTHER[kind](tokens)
    for spec in SPECS:
        whole, own = rows[spec][:tokens].clone(), 0.0
        for value, token in zip(rows[spec][tokens:].tolist(), further, strict=True):
            if token >= 0:
                whole[token] += value
            else:
                own += value
        torch.testing.assert_close(result[spec].scores.double(), whole, atol=1e-6, rtol=1e-5)
        says = f"They hold {own:.3g} of the map, and the tokens of the text {float(whole.sum()):.3g}."
        assert any(says in note for note in result[spec].notes) == (kind not in (Twice, MaskedPadding)), result[spec].notes
    complete = result["fullgrad:libra"]
    held = [float(note.split("They hold ")[1].split(" of")[0]) for note in complete.notes if "They hold" in note]
    assert float(complete.scores.sum()) + sum(held) == pytest.approx(result.target.logit, abs=6e-3 * max([1.0, *map(abs, held)]))
    assert complete.completeness_error == pytest.approx(0, abs=1e-9)
    assert complete.adds_up_to is not None
    assert ("tokens that the model adds" in complete.adds_up_to) == bool(held)


def test_maps_of_padded_texts_are_those_of_each_alone() -> None:
    for kind in (Memory, Twice):
        model = wrapped(made(kind))
        together = explainers.explain(model, [TEXT, "film"], target=CLASS, methods=SPECS)
        for text, result in zip([TEXT, "film"], together, strict=True):
            alone = explainers.explain(model, text, target=CLASS, methods=SPECS)
            for spec in SPECS:
                torch.testing.assert_close(result[spec].scores, alone[spec].scores)


def test_the_sources_of_rows() -> None:
    ids = torch.tensor([[2, 7, 9, 11, 3]])
    given = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    kinds = {
        Memory: [OWN] * 3,
        Twice: list(range(5)),
        SeenPadding: [OWN] * 7,
        MaskedPadding: [PADDING] * 7,
        Pairs: [SEVERAL] * 4,
    }
    for kind, sources in kinds.items():
        found = token_sources_of(wrapped(made(kind)), given, 5 + len(sources), False)
        assert found is not None
        assert found.rows.tolist() == [*range(5), *sources]
    assert token_sources_of(wrapped(made(Plain)), given, 5, False) is None


def test_a_row_in_the_place_of_a_word_is_the_models_own() -> None:
    module = made(InPlace)
    rows = expected(module)
    result = explainers.explain(wrapped(module), TEXT, target=CLASS, methods=SPECS)
    for spec in SPECS:
        whole = rows[spec].clone()
        own, whole[1] = float(whole[1]), 0.0
        torch.testing.assert_close(result[spec].scores.double(), whole, atol=1e-6, rtol=1e-5)
        assert any(f"1 of its own, which no word changes. They hold {own:.3g} of" in note for note in result[spec].notes)


def test_heads_look_at_words_that_are_read_twice_with_both_tokens() -> None:
    module = made(Twice)
    rows = expected(module)["raw_attention"]
    maps = explainers.head_maps(explainers.Session(wrapped(module), TEXT, CLASS))
    shown = maps.blocks[BLOCKS - 1]
    assert shown is not None
    count = len(rows) // 2
    torch.testing.assert_close(shown.mean(0).double(), rows[:count] + rows[count:], atol=1e-6, rtol=1e-5)
    read = explainers.head_maps(explainers.Session(wrapped(made(ReadMemory)), TEXT, CLASS))
    expected_row = expected(made(ReadMemory))["raw_attention"]
    shown = read.blocks[BLOCKS - 1]
    assert shown is not None
    assert read.token is None  # a token of the model's own is read
    torch.testing.assert_close(shown.mean(0).double(), expected_row[: shown.shape[1]], atol=1e-6, rtol=1e-5)


def test_a_token_before_the_words_is_named_as_the_reason() -> None:
    with pytest.raises(ExplainerError, match="as the model puts a token of its own before those of the text"):
        wrapped(made(OwnFirst))
