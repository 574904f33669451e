"""What an encoder-decoder writes: equal to its own greedy answer, each written word explained by the source and the words before it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import explainers
from explainers.errors import ExplainerError
from explainers.models.inputs.types import ANSWER, TEMPLATE
from explainers.models.model import Model
from explainers.models.structure.two_rows import DECODER_TOKENS
from tests.support.encoder_decoders import WRITERS, WRITTEN, encoder_decoder, tokenizer

TEXT = "a good film, not a bad movie"


@pytest.fixture(scope="module", params=WRITERS)
def model(request: Any) -> Model:
    return explainers.wrap(encoder_decoder(request.param), tokenizer=tokenizer(), device="cpu")


def source_length(result: Any) -> int:
    return int((result.tensors[DECODER_TOKENS] == 0).sum())


def test_the_answer_is_what_the_model_writes(model: Model) -> None:
    result = explainers.explain(model, TEXT, methods="input_x_gradient")
    module: Any = model.module
    source = model.tensors(TEXT)
    written = torch.tensor([[module.config.decoder_start_token_id]])
    with torch.no_grad():
        for _ in range(WRITTEN):
            logits = module(**source, decoder_input_ids=written, use_cache=False).logits
            written = torch.cat([written, logits[:, -1:].argmax(-1)], 1)
    assert result.tensors["input_ids"].tolist() == torch.cat([source["input_ids"], written], 1).tolist()
    assert result.input.answer == tokenizer().decode(written[0, 1:])
    start = source_length(result)
    parts = [token.part for token in result.input.tokens]
    assert parts == [0] * start + [TEMPLATE] + [ANSWER] * WRITTEN
    assert result.place.tokens == (start + 1, start + WRITTEN)
    shares = logits[0].double().log_softmax(-1)
    expected = shares.gather(-1, written[0, 1:, None]).sum().exp()
    assert result.places[0].score == pytest.approx(float(expected), rel=1e-4)


def test_a_written_word_is_explained_by_both_rows(model: Model) -> None:
    whole = explainers.explain(model, TEXT, methods="random")
    words = [place for place in whole.places if place.at.startswith("word:")]
    assert len(words) > 2
    place = words[2]
    result = explainers.explain(model, TEXT, methods="fullgrad:libra", at=place.at)
    own = [word for word in result.input.words if word.part == ANSWER]
    assert [word.text for word in own] == [tokenizer().decode(result.tensors["input_ids"][0, list(word.tokens)]) for word in own]
    assert [word.text for word in own] == [each.label.partition("#")[0] for each in words[:2]]
    assert [word.text for word in result.input.words if word.part == 0] == ["a", "good", "film", ",", "not", "a", "bad", "movie"]
    first = place.tokens[0]
    attribution = result["fullgrad:libra"]
    assert not bool(attribution.scores[first:].any())
    assert bool(attribution.scores[first - 1] != 0)
    assert attribution.content.tolist() == [
        i < first and token.part != TEMPLATE and token.text not in ("[CLS]", "[SEP]") for i, token in enumerate(result.input.tokens)
    ]
    scored = attribution.words()
    assert [word.part for word in scored] == [0] * 8 + [ANSWER] * len(own)
    special = sum(float(attribution.scores[i]) for i, token in enumerate(result.input.tokens) if token.special)
    assert sum(word.score for word in scored) + special == pytest.approx(result.target.logit, rel=1e-4, abs=1e-4)
    assert any("of the source and of what the model wrote before" in note for note in result.notes)


@pytest.mark.parametrize("text", ["film", " ".join([TEXT] * 3)])
def test_relevance_is_measured_on_a_text_of_another_length(text: str) -> None:
    """The rounding of relevance is measured on a made-up source of 12 tokens; that of the text is shorter, or longer."""
    model = explainers.wrap(encoder_decoder("T5ForConditionalGeneration"), tokenizer=tokenizer(), device="cpu")
    result = explainers.explain(model, text, methods="lrp", at="answer")
    assert result.target.logit == pytest.approx(float(explainers.explain(model, text, methods="random").target.logit))
    assert bool(result["lrp"].scores.isfinite().all())
    assert bool(result["lrp"].scores.any())


def test_words_of_both_rows_are_removed_and_the_explained_word_stays(model: Model) -> None:
    whole = explainers.explain(model, TEXT, methods="random")
    place = [each for each in whole.places if each.at.startswith("word:")][2]
    result = explainers.explain(model, TEXT, methods=["input_x_gradient", "random"], at=place.at)
    test = explainers.deletion_test(model, result, fractions=(0.0, 1.0))
    kept = [i for i, token in enumerate(result.input.tokens) if token.special]
    source = source_length(result)
    ids = result.tensors["input_ids"][0]
    with torch.no_grad():
        logits = model.module(  # type: ignore[operator]
            input_ids=ids[[i for i in kept if i < source]][None], decoder_input_ids=ids[[i for i in kept if i >= source]][None]
        ).logits[0]
    first, last = place.tokens
    if first == last:
        assert test.explains == "probability"
        expected = float(logits[0].softmax(-1)[ids[first]])
        assert test.curves[0].values["probability"][-1] == pytest.approx(expected, rel=1e-3, abs=1e-6)
    occlusion = explainers.explain(model, TEXT, methods="occlusion", at=place.at)["occlusion"]
    masked = ids.clone()
    masked[2] = tokenizer().mask_token_id
    with torch.no_grad():
        before, after = (
            sum(
                float(model.module(input_ids=each[None, :source], decoder_input_ids=each[None, source:]).logits[0, i - 1 - source, ids[i]])  # type: ignore[operator]
                for i in range(first, last + 1)
            )
            for each in (ids, masked)
        )
    assert float(occlusion.scores[2]) == pytest.approx(before - after, rel=1e-3, abs=1e-4)


def test_a_table_has_the_words_of_both_rows(model: Model) -> None:
    table = explainers.answer_table(model, TEXT, "input_x_gradient")
    count = len(table.rows)
    assert table.columns[:8] == ("a", "good", "film", ",", "not", "a", "bad", "movie")
    assert table.columns[8:] == tuple(f"→ {row}" for row in table.rows[:-1])
    written = table.scores[:, 8:]
    assert not bool(written.triu().any())  # no word counts for those before it
    assert bool((written.tril(-1) != 0).any(1)[1:].all())
    single = explainers.explain(model, TEXT, methods="input_x_gradient", at=table.places[2])
    if single.place.tokens[0] == single.place.tokens[1]:  # one token is asked against the vocabulary, by the same logit
        scores = [word.score for word in single["input_x_gradient"].words()]
        torch.testing.assert_close(table.scores[2, : len(scores)], torch.tensor(scores), rtol=1e-3, atol=1e-4)
    assert count == written.shape[1] + 1


def test_tensors_of_an_explanation_are_a_source_again(model: Model) -> None:
    result = explainers.explain(model, TEXT, methods="random")
    again = explainers.explain(model, result.tensors, methods="random")
    assert again.tensors["input_ids"].tolist() == result.tensors["input_ids"].tolist()


def test_several_texts_are_answered_one_by_one(model: Model) -> None:
    results = explainers.explain(model, [TEXT, "a bad film"], methods="input_x_gradient")
    assert [result.input.text for result in results] == [TEXT, "a bad film"]
    batch = model.prepare_input([TEXT, "a bad film"])
    with pytest.raises(ExplainerError, match="One text is answered at a time"):
        model.task.complete(batch, model.module)  # type: ignore[union-attr]


def test_an_answer_that_the_pass_does_not_find_likeliest_is_said(model: Model) -> None:
    prepared = model.prepare(TEXT)
    assert not any("not the likeliest" in note for note in model.at(None, prepared).reading.notes)  # type: ignore[union-attr]
    ids = prepared.tensors["input_ids"].clone()
    ids[0, -1] = 5 + (ids[0, -1] - 4) % 16
    other = replace(prepared, tensors={**prepared.tensors, "input_ids": ids})
    assert any("1 of the 5 tokens" in note for note in model.at(None, other).reading.notes)  # type: ignore[union-attr]


def test_a_forced_language_is_no_word() -> None:
    module = encoder_decoder("BartForConditionalGeneration")
    module.generation_config.forced_bos_token_id = 7
    model = explainers.wrap(module, tokenizer=tokenizer(), device="cpu")
    result = explainers.explain(model, TEXT, methods="input_x_gradient")
    start = source_length(result)
    assert result.tensors["input_ids"][0, start : start + 2].tolist() == [3, 7]
    assert [token.part for token in result.input.tokens[start:]] == [TEMPLATE] * 2 + [ANSWER] * (WRITTEN - 1)
    assert result.place.tokens == (start + 2, start + WRITTEN)


@pytest.mark.parametrize("name", ["T5ForConditionalGeneration", "BartForSequenceClassification"])
def test_a_folder_opens_and_passes_its_checks(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    module = encoder_decoder(name)
    module.save_pretrained(tmp_path)
    tokenizer().save_pretrained(tmp_path)
    model = explainers.open(tmp_path, device="cpu", check="all")
    assert model.report is not None
    assert [check.name for check in model.report.checks if check.state == "failed"] == []
    result = explainers.explain(model, TEXT, methods="input_x_gradient")
    direct = explainers.explain(explainers.wrap(module, tokenizer=tokenizer(), device="cpu"), TEXT, methods="input_x_gradient")
    torch.testing.assert_close(result.maps[0].scores, direct.maps[0].scores)


def test_writers_whose_layers_are_not_found_are_refused() -> None:
    module = encoder_decoder("ProphetNetForConditionalGeneration")
    with pytest.raises(ExplainerError, match="layers were not found"):
        explainers.wrap(module, tokenizer=tokenizer(), device="cpu")
