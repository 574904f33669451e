"""Tokens that are sums of several embedding layers: scores are of the sum, and a note says so where words are looked up several times."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import explainers
from tests.explainers.support.attention_forms import WIDTH, built, plain_blocks
from tests.support.vocabularies import wordpiece

WORDS = 300
IDS = torch.tensor([[3, 5, 7, 4, 9, 6]])


class Text(nn.Module):
    """A classifier of texts whose tokens are sums of ``parts``."""

    def __init__(self, parts: str) -> None:
        super().__init__()
        self.parts = parts.split(" + ")
        self.word, self.twin, self.hashed = (nn.Embedding(WORDS, WIDTH) for _ in range(3))
        self.position, self.kind = nn.Embedding(40, WIDTH), nn.Embedding(2, WIDTH)
        self.blocks, self.norm, self.head = nn.ModuleList(plain_blocks()), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3)

    def embed(self, ids: Tensor) -> Tensor:
        places = torch.arange(ids.shape[1]).expand_as(ids)
        parts = {
            "word": lambda: self.word(ids),
            "twin": lambda: self.twin.weight[ids],
            "hashed": lambda: self.hashed(ids * 7 % WORDS),
            "position": lambda: self.position(places),
            "kind": lambda: self.kind(torch.zeros_like(ids)),
        }
        return sum((parts[name]() for name in self.parts), torch.zeros(()))

    def from_embedded(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        out: Tensor = self.head(self.norm(x)[:, 0])
        return out

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        return self.from_embedded(self.embed(input_ids))


@pytest.mark.parametrize(
    ("parts", "tables"),
    [
        ("word + position + kind", ""),
        ("word + position", ""),
        ("word + twin + position", "2 tables (word, twin)"),
        ("word + hashed + position + kind", "2 tables (word, hashed)"),
        ("word + twin + hashed", "3 tables (word, twin, hashed)"),
    ],
)
def test_scores_are_of_the_sum_and_a_note_names_several_tables_of_words(parts: str, tables: str) -> None:
    module = built(lambda: Text(parts))
    assert isinstance(module, Text)
    x = module.embed(IDS).detach().requires_grad_()
    (gradient,) = torch.autograd.grad(module.from_embedded(x)[0, 1], x)
    result = explainers.explain(explainers.wrap(module, kind="text", tokenizer=wordpiece()), {"input_ids": IDS}, 1, ["input_x_gradient"])
    first = result[0] if isinstance(result, list) else result
    torch.testing.assert_close(first["input_x_gradient"].scores.double(), (x * gradient).sum(-1)[0].detach(), rtol=1e-4, atol=1e-6)
    notes = [note for note in first.notes if "tables" in note]
    assert len(notes) == bool(tables)
    assert all(f"looks each token up in {tables}" in note for note in notes)
