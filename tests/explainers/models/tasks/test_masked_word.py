"""The word at a mask: values equal to the model's own, word against word, and nothing that sends a vocabulary."""

from __future__ import annotations

import json

import pytest
import torch

import explainers
from explainers.errors import ExplainerError
from explainers.models.model import Model
from explainers.records.targets import Classes, parse_target, resolve
from tests.support.vocabularies import wordpiece

# isort: split
from transformers import BertConfig, BertForMaskedLM

TEXT = "the [MASK] film, not the [MASK]"
FIRST, SECOND = 2, 7


@pytest.fixture(scope="module")
def model() -> Model:
    torch.manual_seed(0)
    tokenizer = wordpiece(40)
    size = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64, "max_position_embeddings": 40}
    return explainers.wrap(BertForMaskedLM(BertConfig(vocab_size=len(tokenizer) + 2, **size)).eval(), tokenizer=tokenizer)


@pytest.mark.parametrize(("at", "token"), [("mask", FIRST), ("mask#1", FIRST), ("mask#2", SECOND), ("token:7", SECOND)])
def test_the_vocabulary_is_the_classes(model: Model, at: str, token: int) -> None:
    result = explainers.explain(model, TEXT, ["movie", explainers.Contrast("good", "bad")], "fullgrad:libra", at=at)
    with torch.no_grad():
        own = model.module(**result.tensors).logits[0, token]
    torch.testing.assert_close(result.logits, own)
    ids = wordpiece().convert_tokens_to_ids(["movie", "good", "bad"])
    assert result.targets[0].index == ids[0]
    assert result.targets[0].probability == pytest.approx(float(own.softmax(-1)[ids[0]]), abs=1e-6)
    assert result.targets[1].logit == pytest.approx(float(own[ids[1]] - own[ids[2]]), abs=1e-6)
    assert result.completeness("libra", 0) < 1e-6
    assert result.completeness("libra", 1) < 1e-6
    assert list(result.labels[-3:]) == [wordpiece().convert_ids_to_tokens(len(wordpiece()) - 1), "token 60", "token 61"]


def test_the_surest_mask_is_meant_and_no_vocabulary_is_sent(model: Model) -> None:
    result = explainers.explain(model, TEXT, methods="random")
    assert result.place == max(result.places, key=lambda place: place.score or 0)
    assert not model.labels
    assert model.details["classes"] is None
    assert len(json.dumps(result.to_json()["top"])) < 1000


def test_a_word_is_masked_by_the_deletion_test_and_the_mask_stays(model: Model) -> None:
    result = explainers.explain(model, TEXT, "movie", ["attcat:libra", "random"], at="mask#2")
    test = explainers.deletion_test(model, result, fractions=(0.0, 1.0))
    assert (test.how, test.explains) == ("masked", "probability")
    masked = result.tensors["input_ids"].clone()
    masked[0, 1:-1] = wordpiece().mask_token_id
    with torch.no_grad():
        gone = model.module(**{**result.tensors, "input_ids": masked}).logits[0, SECOND].softmax(-1)
    assert test.curves[0].values["probability"][-1] == pytest.approx(float(gone[result.target.index]), abs=1e-6)


def test_a_number_is_a_word_where_the_vocabulary_has_it_else_an_index(model: Model) -> None:
    result = explainers.explain(model, TEXT, [parse_target("7", model.labels)], "random", at="mask")
    assert result.target.index == 7
    logits = result.logits
    labels = [*result.labels]
    labels[9] = "7"
    assert int(resolve("7", Classes(labels), logits[None]).indices[0]) == 9


@pytest.mark.parametrize(
    ("text", "target", "at", "message"),
    [
        ("the film", None, None, r"Put \[MASK\] where"),
        (TEXT, None, "mask#3", "names no place"),
        (TEXT, None, "token:3", "Masks of this text: token:2, token:7"),
        (TEXT, "moviee", "mask", "did you mean movie"),
    ],
)
def test_what_is_no_mask(model: Model, text: str, target: str | None, at: str | None, message: str) -> None:
    with pytest.raises(ExplainerError, match=message):
        explainers.explain(model, text, target, "random", at=at)
