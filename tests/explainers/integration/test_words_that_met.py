"""Texts whose words come together before the blocks: a note says how much of a token is its own word, or the model is refused."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import explainers
from tests.support.vocabularies import wordpiece

TOKENIZER = wordpiece(24)
WIDTH = len(TOKENIZER) + len(TOKENIZER) % 2


class Neighbours(nn.Module):
    """Each token is ``own`` times its word and ``other`` times the words on both sides of it, the text closed to a ring. Words are unit
    vectors at right angles.
    """

    def __init__(self, own: float, other: float) -> None:
        super().__init__()
        self.own, self.other = own, other
        self.words = nn.Embedding.from_pretrained(torch.eye(WIDTH)[: len(TOKENIZER)])
        self.blocks = nn.ModuleList([nn.TransformerEncoderLayer(WIDTH, 2, 24, 0.0, batch_first=True) for _ in range(2)])
        self.head = nn.Linear(WIDTH, 3)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        x = self.words(input_ids)
        x = self.own * x + self.other * (x.roll(1, 1) + x.roll(-1, 1))
        for block in self.blocks:
            x = block(x, src_key_padding_mask=attention_mask == 0)
        out: Tensor = self.head(x[:, 0])
        return out


def opened(own: float, other: float) -> explainers.Model:
    torch.manual_seed(0)
    return explainers.wrap(Neighbours(own, other).eval(), kind="text", tokenizer=TOKENIZER)


@pytest.mark.parametrize(("own", "other"), [(2.0, 1.0), (3.0, -1.0)])
def test_a_note_says_how_much_of_a_token_is_its_own_word(own: float, other: float) -> None:
    """A change of a word moves its token by ``own`` times it, and both neighbours by ``other`` times it: squares, as of pictures."""
    share = own**2 / (own**2 + 2 * other**2)
    result = explainers.explain(opened(own, other), "not a good film", 1, ["input_x_gradient", "rollout", "occlusion"])
    notes = {each.method: " ".join(each.notes) for each in result.maps}
    for spec in ("input_x_gradient", "rollout"):
        assert f"{100 * share:.0f} % is its own word" in notes[spec]
    assert "own word" not in notes["occlusion"]


def test_nothing_is_said_of_tokens_that_are_their_words() -> None:
    result = explainers.explain(opened(1.0, 0.0), "not a good film", 1, ["input_x_gradient", "rollout"])
    assert not any("own word" in note for each in result.maps for note in each.notes)


def test_tokens_that_are_mostly_other_words_are_refused_with_the_true_reason() -> None:
    with pytest.raises(explainers.ExplainerError, match=r"changes 3 of the \d+ tokens .*tokens come together before the blocks"):
        opened(1.0, 3.0)
