"""Start, end and span of an answer: values equal to the model's own, full accounts, deletion that leaves words in place."""

from __future__ import annotations

import pytest
import torch

import explainers
from explainers import TextPair
from explainers.errors import ExplainerError
from explainers.models.model import Model
from explainers.models.tasks.question_answering import MOST_TOKENS, best_span
from tests.support.vocabularies import wordpiece

# isort: split
from transformers import BertConfig, BertForQuestionAnswering

PAIR = TextPair("good film?", "the good movie, not the bad film")
CONTEXT = slice(5, 13)  # [CLS] good film ? [SEP] before it


@pytest.fixture(scope="module")
def model() -> Model:
    torch.manual_seed(0)
    tokenizer = wordpiece(40)
    size = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64, "max_position_embeddings": 40}
    return explainers.wrap(BertForQuestionAnswering(BertConfig(vocab_size=len(tokenizer), **size)).eval(), tokenizer=tokenizer)


@pytest.mark.parametrize("side", ["start", "end"])
def test_the_tokens_of_the_context_are_the_classes(model: Model, side: str) -> None:
    result = explainers.explain(model, PAIR, "movie", ["fullgrad:libra"], at=side)
    with torch.no_grad():
        own = model.module(**result.tensors)[f"{side}_logits"][0, CONTEXT]
    torch.testing.assert_close(result.logits, own)
    assert list(result.labels) == ["the", "good", "movie", ",", "not", "the#2", "bad", "film"]
    assert result.target.probability == pytest.approx(float(own.softmax(-1)[2]), abs=1e-6)
    assert result.completeness("libra") < 1e-6


@pytest.mark.parametrize(("at", "first", "last"), [("tokens:6-7", 6, 7), ("good movie", 6, 7), ("film", 12, 12), ("answer", None, None)])
def test_a_span_is_the_sum_of_its_two_logits(model: Model, at: str, first: int | None, last: int | None) -> None:
    result = explainers.explain(model, PAIR, methods=["fullgrad:libra"], at=at)
    with torch.no_grad():
        own = model.module(**result.tensors)
    if first is None:
        pairs = [(own.start_logits[0, i] + own.end_logits[0, j], i, j) for i in range(5, 13) for j in range(i, 13)]
        _, first, last = max(pairs)
    assert last is not None
    assert result.place.tokens == (first, last)
    assert result.target.logit == pytest.approx(float(own.start_logits[0, first] + own.end_logits[0, last]), abs=1e-6)
    assert result.target.probability is None
    assert result.target.label == result.place.label
    assert result.completeness("libra") < 1e-6


def test_the_answer_is_meant_where_nothing_is_named(model: Model) -> None:
    result = explainers.explain(model, PAIR, methods="random")
    assert [place.at for place in result.places] == ["answer", "start", "end"]
    assert result.to_json()["at"] == "answer"
    with torch.no_grad():
        own = model.module(**result.tensors)
    says_no = own.start_logits[0, 0] + own.end_logits[0, 0] > result.logits[0]
    assert any("no answer" in note for note in result.notes) == bool(says_no)


@pytest.mark.parametrize(("at", "explains"), [("start", "probability"), ("answer", "value")])
def test_words_are_masked_and_stay_where_they_are(model: Model, at: str, explains: str) -> None:
    result = explainers.explain(model, PAIR, methods=["attcat:libra", "random"], at=at)
    test = explainers.deletion_test(model, result, fractions=(0.0, 1.0))
    assert (test.how, test.explains) == ("masked", explains)
    masked = result.tensors["input_ids"].clone()
    content = torch.tensor([not token.special for token in result.input.tokens])
    masked[0, content] = wordpiece().mask_token_id
    with torch.no_grad():
        gone = model.module(**{**result.tensors, "input_ids": masked})
    place = result.place.tokens
    number = (
        gone.start_logits[0, CONTEXT].softmax(-1)[place[0] - CONTEXT.start]
        if at == "start"
        else gone.start_logits[0, place[0]] + gone.end_logits[0, place[1]]
    )
    assert test.curves[0].values[explains][-1] == pytest.approx(float(number), abs=1e-5)


def test_the_best_span_is_short_and_goes_forwards() -> None:
    start, end = torch.zeros(40), torch.zeros(40)
    start[30], end[2], end[39], start[5] = 5.0, 5.0, 1.0, 4.9
    assert best_span(start, end) == (30, 39)
    end[5 + MOST_TOKENS] = 9.0  # too far from 5
    first, last = best_span(start, end)
    assert (last, last - first < MOST_TOKENS) == (5 + MOST_TOKENS, True)
    assert first != 5


@pytest.mark.parametrize(
    ("given", "at", "message"),
    [
        ("one text", None, "send both, TextPair"),
        (PAIR, "good film?", "names no place"),
        (PAIR, "token:1", "names no place"),
        (PAIR, "London", "Send start, end, answer"),
    ],
)
def test_what_is_no_place_of_the_context(model: Model, given: object, at: str | None, message: str) -> None:
    with pytest.raises(ExplainerError, match=message):
        explainers.explain(model, given, methods="random", at=at)
