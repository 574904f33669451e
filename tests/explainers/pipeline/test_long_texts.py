"""Texts longer than their model, against windows cut and averaged by hand."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch

import explainers
from explainers.models.model import Model
from explainers.records.result import Attribution, Explanation
from tests.explainers.support.long_texts import TEXT, model_of, windows
from tests.families import CLASS, SEPARATOR
from tests.support.vocabularies import byte_level, sentencepiece, wordpiece

ROOM = 18  # word pieces in a window of 20 tokens
METHODS = ["fullgrad_plus:libra", "rollout", "transformer_attribution", "integrated_gradients?steps=3", "random"]
TOKENIZERS = {"wordpiece": wordpiece(), "byte level": byte_level(), "sentencepiece": sentencepiece()}


def by_hand(explanation: Explanation) -> list[tuple[range, dict[str, torch.Tensor]]]:
    """For each window that the explanation names, its word pieces among those of the text, and its tensors made here."""
    ids = wordpiece()(TEXT, add_special_tokens=False, verbose=False)["input_ids"]
    rows = []
    for window in explanation.windows:
        first, last = window.tokens
        pieces = range(first - 1, last)  # [CLS] is token 0
        own = torch.tensor([[CLASS, *ids[pieces.start : pieces.stop], SEPARATOR]])
        rows.append((pieces, {"input_ids": own, "attention_mask": torch.ones_like(own)}))
    return rows


@pytest.fixture(scope="module")
def model() -> Model:
    return model_of()


@pytest.fixture(scope="module")
def result(model: Model) -> Explanation:
    found: Explanation = explainers.explain(model, TEXT, methods=METHODS)
    return found


def test_the_answer_is_the_mean_of_the_windows_logits(model: Model, result: Explanation) -> None:
    rows = by_hand(result)
    assert len(rows) >= 3
    with torch.no_grad():
        logits = torch.stack([model.module.eval()(**tensors).logits[0] for _, tensors in rows])
    torch.testing.assert_close(result.logits, logits.mean(0), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(result.probabilities, logits.mean(0).softmax(-1), rtol=1e-5, atol=1e-6)
    assert result.target.index == int(logits.mean(0).argmax())
    for window, own in zip(result.windows, logits, strict=True):
        assert window.label == result.labels[int(own.argmax())]
        assert window.probability == pytest.approx(float(own.softmax(-1).max()), rel=1e-4)
        assert window.logits == pytest.approx([float(own[result.target.index])], rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS[:-1])
def test_scores_are_averaged_where_windows_overlap(model: Model, result: Explanation, method: str) -> None:
    pieces = sum(not token.special for token in result.input.tokens)  # type: ignore[union-attr]
    total, count = np.zeros(pieces), np.zeros(pieces)
    for indices, tensors in by_hand(result):
        alone = explainers.explain(model, tensors, target=result.target.index, methods=method)
        total[indices.start : indices.stop] += alone[method].scores[1:-1].numpy()
        count[indices.start : indices.stop] += 1
    assert set(count) == {1, 2}
    scores = result[method].scores.numpy()
    np.testing.assert_allclose(scores[1:-1], total / count, rtol=2e-3, atol=2e-4 * float(np.abs(scores).max()))
    assert len(scores) == len(result[method].tokens) == pieces + 2
    assert result[method].content.tolist() == [False, *[True] * pieces, False]
    assert "".join(word.text for word in result[method].words()) == TEXT.replace(" ", "")


def test_the_explanation_says_where_the_windows_lie(result: Explanation) -> None:
    told = result.to_json()
    assert [window["tokens"] for window in told["windows"]] == [list(window.tokens) for window in result.windows]
    tokens = told["input"]["tokens"]
    for window in told["windows"]:
        first, last = window["tokens"]
        assert (window["start"], window["end"]) == (tokens[first]["start"], tokens[last]["end"])
        assert last - first < ROOM
    assert "20 tokens" in told["notes"][0]
    assert f"{len(told['windows'])} overlapping windows" in told["notes"][0]
    assert result[METHODS[0]].adds_up_to is None
    assert result[METHODS[0]].completeness_error is None
    assert result.completeness("libra") < 1e-4


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@pytest.mark.parametrize("words", [1, 2, 9, 40])
def test_windows_cover_the_text_in_order_and_overlap(tokenizer: str, words: int) -> None:
    text = "not a bad movie 😀, the plot is well-made! " * 3 + "good film " * words
    found = windows(model_of("bert", TOKENIZERS[tokenizer]), text)
    whole = TOKENIZERS[tokenizer](text, verbose=False)["input_ids"]
    assert list(found.ids) == whole
    ids, mask = found.prepared.tensors["input_ids"], found.prepared.tensors["attention_mask"].bool()
    assert ids.shape[1] <= 20
    for row, seen, indices, record in zip(ids, mask, found.indices, found.prepared.inputs, strict=True):
        assert row[seen].tolist() == [whole[index] for index in indices]
        assert indices[0] == 0
        assert indices[-1] == len(whole) - 1
        assert list(indices[1:-1]) == list(range(indices[1], indices[-2] + 1))
        assert [record.tokens[i] for i, real in enumerate(seen.tolist()) if real] == [found.whole.tokens[i] for i in indices]  # type: ignore[union-attr]
    inner = [(indices[1], indices[-2]) for indices in found.indices]
    assert inner[0][0] == 1
    assert inner[-1][1] == len(whole) - 2
    for (start, stop), (first, last) in pairwise(inner):
        assert start < first <= stop + 1
        assert stop < last


def test_windows_are_cut_between_words() -> None:
    model = model_of("bert", wordpiece(20))
    text = "good films movies not bad, " * 12
    found = windows(model, text)
    starts = {word.tokens[0] for word in found.whole.words}
    assert {indices[1] for indices in found.indices} <= starts


@pytest.mark.parametrize("side", ["right", "left"])
def test_a_causal_model_reads_the_end_of_every_window(side: str) -> None:
    tokenizer = wordpiece()
    tokenizer.padding_side = side
    model = model_of("gpt2", tokenizer)
    result = explainers.explain(model, TEXT, methods="rollout")
    with torch.no_grad():
        logits = torch.stack([model.forward(tensors)[0] for _, tensors in by_hand(result)])
    torch.testing.assert_close(result.logits, logits.mean(0), rtol=1e-4, atol=1e-5)


def test_targets_are_those_of_the_whole_text(model: Model) -> None:
    targets = [None, "for", explainers.Contrast("for", "against"), explainers.Probability()]
    result = explainers.explain(model, TEXT, target=targets, methods="input_x_gradient")
    labels = [target.label for target in result.targets]
    assert labels == [result.top(1)[0].label, "for", "for − against", f"p({result.top(1)[0].label})"]
    assert {one.target for one in result.maps} == set(labels)
    for place, target in enumerate(result.targets[:3]):
        assert target.logit == pytest.approx(
            sum(window.logits[place] for window in result.windows) / len(result.windows), rel=1e-4, abs=1e-6
        )


def test_long_and_short_texts_in_one_list(model: Model) -> None:
    long, short = explainers.explain(model, [TEXT, "a good film"], methods="rollout")
    assert long.windows
    assert not short.windows
    assert "windows" not in short.to_json()
    assert explainers.explain(model, "a good film", methods="rollout")["rollout"].scores.tolist() == short["rollout"].scores.tolist()


def test_observers_see_one_explanation_and_each_map_once(model: Model) -> None:
    seen: list[str] = []

    class Watcher:
        def on_prediction(self, explanation: Explanation) -> None:
            assert explanation.windows
            assert explanation.maps == []
            seen.append("prediction")

        def on_map(self, explanation: Explanation, attribution: Attribution) -> None:
            assert explanation.maps[-1] is attribution
            seen.append(attribution.method)

    explainers.explain(model, TEXT, methods=METHODS, observer=Watcher())
    assert seen == ["prediction", *METHODS]


def test_cut_reads_what_fits_and_says_so(model: Model) -> None:
    result = explainers.explain(model, TEXT, methods="rollout", long_texts="cut")
    assert not result.windows
    assert len(result.input.tokens) <= 20
    assert "left out" in result.notes[0]
    with pytest.raises(explainers.ExplainerError, match="windows, cut"):
        explainers.explain(model, TEXT, long_texts="short")  # type: ignore[arg-type]


def test_nothing_is_windowed_where_a_text_fits_exactly(model: Model) -> None:
    assert model.windows("good " * ROOM) is None
    found = windows(model, "good " * (ROOM + 1))
    assert len(found) == 2


def test_few_windows_are_recorded_at_once(model: Model, result: Explanation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("explainers.pipeline.long_texts.TOKENS_AT_ONCE", 40)
    again = explainers.explain(model, TEXT, methods=METHODS)
    for spec in METHODS:
        torch.testing.assert_close(again[spec].scores, result[spec].scores, rtol=1e-3, atol=1e-4 * float(result[spec].scores.abs().max()))


@pytest.mark.parametrize("at_once", [20, 40, 2048])
def test_a_class_named_beside_the_top_one_has_its_map_twice(model: Model, monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    monkeypatch.setattr("explainers.pipeline.long_texts.TOKENS_AT_ONCE", at_once)
    specs = ["input_x_gradient:libra", "rollout"]
    top = explainers.explain(model, TEXT, methods=specs)
    label = top.target.label
    result = explainers.explain(model, TEXT, target=[None, label], methods=specs)
    assert [(attribution.method, attribution.target) for attribution in result.maps] == [(spec, label) for spec in specs] * 2
    for attribution in result.maps:
        expected = top[attribution.method].scores
        torch.testing.assert_close(attribution.scores, expected, rtol=1e-3, atol=1e-4 * float(expected.abs().max()))


def test_a_class_that_is_named_twice_is_refused(model: Model) -> None:
    with pytest.raises(explainers.ExplainerError, match="'for' is named twice"):
        explainers.explain(model, TEXT, target=["for", 1], methods="rollout")


def test_it_stops_when_told(model: Model) -> None:
    with pytest.raises(explainers.Cancelled):
        explainers.explain(model, TEXT, methods="rollout", cancelled=lambda: True)
