"""A label for each token: values equal to the model's own, full accounts, and a deletion test that leaves words where they are."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import explainers
from explainers.models.model import Model
from tests.support.vocabularies import wordpiece

# isort: split
from transformers import BertConfig, BertForTokenClassification

TEXT = "the good movie's film, not bad"
NAMES = {0: "O", 1: "B-PER", 2: "B-LOC"}


@pytest.fixture(scope="module")
def model() -> Model:
    torch.manual_seed(0)
    tokenizer = wordpiece(30)
    size = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64, "max_position_embeddings": 32}
    config = BertConfig(vocab_size=len(tokenizer), num_labels=3, id2label=NAMES, **size)
    return explainers.wrap(BertForTokenClassification(config).eval(), tokenizer=tokenizer)


@pytest.mark.parametrize(("at", "pieces"), [("movie", [3]), ("token:2", [2]), ("film, not", [6, 7, 8])])
def test_the_numbers_are_the_models_own(model: Model, at: str, pieces: list[int]) -> None:
    result = explainers.explain(model, TEXT, "B-LOC", ["fullgrad:libra", "transformer_attribution"], at=at)
    with torch.no_grad():
        own = model.module(**result.tensors).logits[0]
    torch.testing.assert_close(result.logits, own[pieces].mean(0))
    assert result.target.logit == pytest.approx(float(own[pieces, 2].mean()), abs=1e-6)
    assert result.labels == list(NAMES.values())
    assert result.completeness("libra") < 1e-6
    module: Any = model.module

    def from_embedded(x: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = module.classifier(module.bert.encoder(x).last_hidden_state)
        return logits[0, pieces, 2].mean()

    with torch.no_grad():
        x = module.bert.embeddings(result.tensors["input_ids"])
    gradient = torch.autograd.functional.jacobian(from_embedded, x)
    plain = explainers.explain(model, TEXT, "B-LOC", "input_x_gradient", at=at)["input_x_gradient"]
    torch.testing.assert_close(plain.scores, (gradient * x).sum(-1)[0], rtol=1e-4, atol=1e-7)


def test_the_surest_named_word_is_meant_where_none_is(model: Model) -> None:
    result = explainers.explain(model, TEXT, methods="random")
    named = [place for place in result.places if place.says != "O"] or result.places
    assert result.place == max(named, key=lambda place: place.score or 0)
    assert result.to_json()["at"] == result.place.at  # type: ignore[union-attr]


def test_attention_is_read_from_the_word(model: Model) -> None:
    movie, bad = (explainers.explain(model, TEXT, methods="raw_attention", at=at)["raw_attention"] for at in ("movie", "bad"))
    eager = BertForTokenClassification(model.module.config).eval()
    eager.load_state_dict(model.module.state_dict())
    eager.set_attn_implementation("eager")
    with torch.no_grad():
        weights = eager(**model.tensors(TEXT), output_attentions=True).attentions[-1][0].mean(0)
    torch.testing.assert_close(movie.scores[1:-1], weights[3, 1:-1])
    torch.testing.assert_close(bad.scores[1:-1], weights[9, 1:-1])


@pytest.mark.parametrize(("at", "others"), [("movie", False), ("film, not", True)])
def test_maps_of_several_words_say_that_they_are_read_at_the_first_alone(model: Model, at: str, others: bool) -> None:
    for spec in ("raw_attention", "generic_attention"):
        notes = " ".join(explainers.explain(model, TEXT, "B-LOC", spec, at=at)[spec].notes)
        assert ("also reads some of the other tokens" in notes) == others


def test_words_are_masked_and_stay_where_they_are(model: Model) -> None:
    result = explainers.explain(model, TEXT, "B-PER", ["attcat:libra", "random"], at="movie")
    test = explainers.deletion_test(model, result, fractions=(0.0, 1.0))
    assert (test.how, test.explains) == ("masked", "probability")
    masked = result.tensors["input_ids"].clone()
    masked[0, 1:-1] = wordpiece().mask_token_id
    with torch.no_grad():
        gone = model.module(masked).logits[0, 3].softmax(-1)[1]
    assert test.curves[0].values["probability"][-1] == pytest.approx(float(gone), abs=1e-6)


def test_each_of_several_texts_has_places_of_its_own(model: Model) -> None:
    first, second = explainers.explain(model, [TEXT, "a bad film"], methods="random", at="film")
    assert (first.place.tokens, second.place.tokens) == ((6, 6), (3, 3))
