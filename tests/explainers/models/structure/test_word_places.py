"""Texts are opened where each token is a word, and else refused for the reason that holds; tasks of modules of one's own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import explainers
from explainers import ExplainerError
from tests.explainers.support.own_texts import Words
from tests.support.vocabularies import wordpiece

TEXT = "a good film is not bad"


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


class ChannelsFirst(Words):
    """Its blocks take (batch, width, tokens)."""

    def forward(self, input_ids: Tensor) -> Tensor:
        x = self.embed(input_ids).mT
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.head(x[:, :, 0])
        return logits


class Transposed(nn.Module):
    """A layer that takes (batch, width, tokens)."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        given: Tensor = self.layer(x.mT).mT
        return given


def test_rows_that_are_made_of_several_words_are_refused_for_that_reason() -> None:
    with pytest.raises(ExplainerError, match=r"each of the \d+ tokens that .* is made of several of the \d+ of the text"):
        opened(Halved())


def test_rows_that_are_channels_are_refused_for_that_reason() -> None:
    module = ChannelsFirst()
    module.blocks = nn.ModuleList(Transposed(block) for block in module.blocks)
    with pytest.raises(ExplainerError, match="take channels before tokens"):
        opened(module)


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
