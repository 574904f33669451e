"""Two texts that a classifier reads together: premise and hypothesis, question and answer."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest
import torch

import explainers
from explainers import ExplainerError, TextPair, explain
from explainers.models.inputs.texts import TextReader
from explainers.models.inputs.types import TextInput
from explainers.models.model import Model
from explainers.rendering.overlays import render_overlay
from tests.families import CLASS, FAMILIES, SEPARATOR
from tests.support.vocabularies import byte_level, sentencepiece, wordpiece

PAIR = TextPair("I don't see the film", "a well-made movie .")
SHORT = TextPair("film", "not bad")


@cache
def bert() -> Model:
    tokenizer = wordpiece(24)
    tokenizer.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]  # as BERT's own
    module = FAMILIES["bert"].build().double()
    module.bert.embeddings.position_embeddings = torch.nn.Embedding(24, 24).double()
    module.config.max_position_embeddings = 24
    return explainers.wrap(module, tokenizer=tokenizer)


def record_of(model: Model, inputs: Any, row: int = 0) -> TextInput:
    record = model.prepare(inputs).inputs[row]
    assert isinstance(record, TextInput)
    return record


def test_words_say_which_text_they_belong_to_and_point_into_it() -> None:
    prepared = bert().prepare([PAIR, SHORT])
    for record, pair in zip(prepared.inputs, (PAIR, SHORT), strict=True):
        assert isinstance(record, TextInput)
        assert (record.text, record.pair) == (pair.first, pair.second)
        texts = (pair.first, pair.second)
        for part, text in enumerate(texts):
            assert [word.text for word in record.words if word.part == part] == text.split()
        for piece in (*record.words, *(token for token in record.tokens if not token.special)):
            assert texts[piece.part][piece.start : piece.end] == piece.text
        assert [record.tokens[i].part for word in record.words for i in word.tokens] == [w.part for w in record.words for _ in w.tokens]
    types, ids = prepared.tensors["token_type_ids"][1].tolist(), prepared.tensors["input_ids"][1].tolist()
    assert types[:6] == [0, 0, 0, 1, 1, 1]
    assert (ids[0], ids[2], ids[5]) == (CLASS, SEPARATOR, SEPARATOR)


@pytest.mark.parametrize("make", [wordpiece, byte_level, sentencepiece])
def test_every_kind_of_tokenizer_keeps_the_texts_apart(make: Any) -> None:
    prepared = TextReader(make(None), None).read_pairs([PAIR], torch.device("cpu"))
    (record,) = prepared.inputs
    assert isinstance(record, TextInput)
    assert [(w.text, w.part) for w in record.words if w.text != "."] == [
        *((word, 0) for word in PAIR.first.split()),
        *((word, 1) for word in PAIR.second.split()[:-1]),
    ]


def test_token_types_reach_the_model() -> None:
    tensors = bert().tensors(PAIR)
    with torch.no_grad():
        as_one = bert().forward({**tensors, "token_type_ids": torch.zeros_like(tensors["token_type_ids"])})
        assert not torch.allclose(bert().forward(tensors), as_one)


def test_scores_of_both_texts_alone_padded_and_as_tensors() -> None:
    specs = ["input_x_gradient:libra", "fullgrad_plus:libra", "transformer_attribution", "rollout", "gradcam_attention"]
    together = explain(bert(), [PAIR, SHORT], target=1, methods=specs)
    for pair, result in zip((PAIR, SHORT), together, strict=True):
        alone, again = (explain(bert(), inputs, target=1, methods=specs) for inputs in (pair, bert().tensors(pair)))
        assert result.completeness("libra") < 1e-10
        for spec in specs:
            a, b = result[spec], alone[spec]
            torch.testing.assert_close(a.scores, b.scores, rtol=1e-4, atol=1e-6 * float(b.scores.abs().max()))
            assert torch.equal(again[spec].scores, b.scores)
            assert [(w.tokens, w.part) for w in again[spec].words()] == [(w.tokens, w.part) for w in b.words()]
    hidden = [word for word in together[0][specs[0]].words() if word.part == 1]
    assert [word.text for word in hidden] == PAIR.second.split()


def test_json_and_picture_of_a_pair() -> None:
    result = explain(bert(), PAIR, methods="input_x_gradient")
    told = json.loads(json.dumps(result.to_json()["input"], allow_nan=False))
    assert (told["text"], told["text_pair"]) == (PAIR.first, PAIR.second)
    assert [word["part"] for word in told["words"]] == [0] * 5 + [1] * 4
    assert len(told["tokens"]) == len(result.maps[0].scores)
    single = explain(bert(), PAIR.first, methods="input_x_gradient")
    assert "text_pair" not in single.to_json()["input"]
    assert "part" not in single.to_json()["input"]["words"][0]
    heights = [render_overlay(one, one.maps[0], size=400).height for one in (single, result)]
    assert heights[1] > heights[0]


def test_the_longer_text_is_cut_first_and_it_is_said_how_many_words_are_left_out() -> None:
    prepared = bert().prepare(TextPair("bad " * 30, "good film"))
    record = record_of(bert(), TextPair("bad " * 30, "good film"))
    assert prepared.tensors["input_ids"].shape == (1, 24)
    assert [word.text for word in record.words if word.part == 1] == ["good", "film"]
    assert prepared.notes == (("The model takes 24 tokens, so the last 11 words of 30 of the first text left out.",),)
    assert bert().prepare(PAIR).notes == ((),)


def test_what_is_no_pair_is_refused() -> None:
    with pytest.raises(ExplainerError, match="send them apart"):
        bert().prepare([PAIR, "a film"])
    with pytest.raises(ExplainerError, match="empty"):
        bert().prepare(TextPair("a film", " "))
    with pytest.raises(ExplainerError, match="takes the text itself"):
        bert().prepare(TextPair("a film", 3))  # type: ignore[arg-type]
    with pytest.raises(ExplainerError, match="no words"):
        bert().prepare(TextPair("a film", "\u200b"))


def test_a_tokenizer_that_gives_no_types_is_asked_for_none() -> None:
    """As transformers' pipeline does, whose answer it has."""
    import transformers

    tokenizer = wordpiece(24)
    assert "token_type_ids" not in tokenizer.model_input_names
    module = FAMILIES["bert"].build()
    model = explainers.wrap(module, tokenizer=tokenizer)
    pair = TextPair("film", "not bad")
    assert "token_type_ids" not in model.tensors(pair)
    pipeline: Any = transformers.pipeline("text-classification", model=module, tokenizer=tokenizer)
    rows = pipeline({"text": pair.first, "text_pair": pair.second}, top_k=None)
    theirs = sorted(row["score"] for row in rows)
    result = explain(model, pair, methods="saliency")
    assert sorted(one.probability for one in result.top(len(theirs))) == pytest.approx(theirs, abs=1e-6)
    assert any("model_input_names" in note for note in result.notes)
