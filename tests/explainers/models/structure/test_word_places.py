"""Which word each token that the blocks take is made of: a note where layers before them bring words together, a refusal where none is."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import explainers
from explainers import ExplainerError
from tests.support.vocabularies import wordpiece

WIDTH = 16
TEXT = "a good film is not bad"
NOTE = "Layers before the blocks of this model bring words together"


class Words(nn.Module):
    """A classifier of texts of one's own, whose blocks take what ``before`` makes of the embedded words."""

    def __init__(self, classes: int = 3) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words, self.places = nn.Embedding(60, WIDTH), nn.Embedding(40, WIDTH)
        layer: dict[str, Any] = {"dim_feedforward": 16, "batch_first": True, "dropout": 0.0, "norm_first": True}
        self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(WIDTH, 2, **layer) for _ in range(2))
        self.head = nn.Linear(WIDTH, classes)

    def embed(self, ids: Tensor) -> Tensor:
        embedded: Tensor = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        return embedded

    def before(self, x: Tensor) -> Tensor:
        return x

    def read(self, x: Tensor, ids: Tensor) -> Tensor:
        return x[:, 0]

    def forward(self, input_ids: Tensor) -> Tensor:
        x = self.before(self.embed(input_ids))
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.head(self.read(x, input_ids))
        return logits


class Convolved(Words):
    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(WIDTH, WIDTH, 3, padding=1)

    def before(self, x: Tensor) -> Tensor:
        mixed: Tensor = x + 0.5 * self.convolution(x.mT).mT
        return mixed


class Averaged(Words):
    def before(self, x: Tensor) -> Tensor:
        return x + x.cumsum(1) / torch.arange(1, x.shape[1] + 1)[:, None]


class Attending(Words):
    """Each row is a mixture of the other words, in the order of the text."""

    def before(self, x: Tensor) -> Tensor:
        return (-x @ x.mT).softmax(-1) @ x


class Halved(Words):
    def before(self, x: Tensor) -> Tensor:
        return F.avg_pool1d(x.mT, 2).mT


class EndOfText(Words):
    """Reads the row of the token that ends a text."""

    def read(self, x: Tensor, ids: Tensor) -> Tensor:
        return x[ids == wordpiece().sep_token_id]


class Labels(Words):
    """Labels each word."""

    def read(self, x: Tensor, ids: Tensor) -> Tensor:
        return x


def opened(module: nn.Module, **how: Any) -> explainers.Model:
    return explainers.open(module.eval(), kind="text", tokenizer=wordpiece(), check="none", **how)


def notes_of(module: nn.Module) -> tuple[str, ...]:
    result = explainers.explain(opened(module), TEXT, 1, ["input_x_gradient"])
    assert isinstance(result, explainers.Explanation)
    return tuple(note for note in result["input_x_gradient"].notes if NOTE in note)


def share_elsewhere(module: Words) -> float:
    """The mean share of what a word changes in rows of others, by derivatives of torch for a long text."""
    x = torch.randn(1, 6, WIDTH)
    jacobian = torch.autograd.functional.jacobian(lambda x: module.before(x)[0], x)[:, :, 0]
    squares = jacobian.square().sum((1, 3))  # (to, from)
    return float(1 - (squares.diagonal() / squares.sum(0)).mean())


@pytest.mark.parametrize("make", [Convolved, Averaged])
def test_words_that_are_brought_together_before_the_blocks_are_noted_with_how_much(make: type[Words]) -> None:
    module = make()
    (note,) = notes_of(module)
    stated = int(note.split("together: ")[1].split("%")[0]) / 100
    assert stated == pytest.approx(share_elsewhere(module), abs=0.15)  # of other words and another length


def test_a_model_that_embeds_each_word_alone_has_no_such_note() -> None:
    assert not notes_of(Words())
    assert opened(Words()).layout_of({}).mixed_words == 0


@pytest.mark.parametrize("make", [Attending, Halved])
def test_rows_that_are_no_words_are_refused_for_that_reason(make: type[Words]) -> None:
    with pytest.raises(ExplainerError, match=r"made of several of the .* of the text"):
        opened(make())


def test_a_head_that_reads_the_end_of_the_text_is_opened_by_a_text_that_ends() -> None:
    module = EndOfText()
    result = explainers.explain(opened(module), TEXT, 1, ["input_x_gradient"])
    assert isinstance(result, explainers.Explanation)
    with torch.no_grad():
        torch.testing.assert_close(result.logits, module(wordpiece()(TEXT, return_tensors="pt")["input_ids"])[0])


def test_labels_of_words_by_a_module_of_ones_own_are_explained_when_the_task_is_named() -> None:
    module = Labels()
    with pytest.raises(ExplainerError, match="pass task= to wrap: token-classification"):
        opened(module)
    with pytest.raises(ExplainerError, match=r"does not fit what Words gives: \(1, 3\)\. Logits \(samples, tokens, labels\) fit it"):
        explainers.wrap(Words().eval(), kind="text", tokenizer=wordpiece(), task="token-classification")
    model = explainers.wrap(module.eval(), kind="text", tokenizer=wordpiece(), task="token-classification")
    result = explainers.explain(model, TEXT, 2, ["input_x_gradient"], at="film")
    assert isinstance(result, explainers.Explanation)
    ids = wordpiece()(TEXT, return_tensors="pt")["input_ids"]
    x = module.embed(ids).detach().requires_grad_()
    hidden = x
    for block in module.blocks:
        hidden = block(hidden)
    place = 1 + TEXT.split().index("film")
    module.head(hidden)[0, place, 2].backward()
    assert x.grad is not None
    torch.testing.assert_close(result["input_x_gradient"].scores, (x * x.grad).sum(-1)[0].detach(), rtol=1e-4, atol=1e-6)
