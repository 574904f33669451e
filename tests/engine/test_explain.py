"""The public face: what explain takes, what it gives, what it refuses."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

import explainers
from explainers import Cancelled, Contrast, ExplainerError, Model, Probability, explain
from explainers.methods import METHODS
from explainers.models import catalogue
from explainers.report import FOR, render_overlay
from explainers.result import Attribution, Explanation
from tests.engine.models import inputs, wrapped
from tests.engine.toys import toy
from tests.families import FAMILIES
from tests.vocabularies import wordpiece

LABELS = ["Zebra", "elephant", "Spoon", "fork", "dog"]
TEXT = "Not a bad movie, the plot is well-made."


@cache
def image_model(name: str = "vit") -> Model:
    return explainers.wrap(FAMILIES[name].build(), labels=LABELS)


@cache
def text_model() -> Model:
    return explainers.wrap(FAMILIES["bert"].build(), labels=["negative", "neutral", "positive"], tokenizer=wordpiece())


@cache
def clip_model() -> Model:
    return explainers.wrap(FAMILIES["hf-clip"].build().double(), tokenizer=wordpiece(16))


def picture(seed: int = 0, size: tuple[int, int] = (50, 40)) -> Image.Image:
    noise = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    return Image.fromarray(noise)


@pytest.mark.parametrize(("unsure", "notes"), [(1.0, 1), (0.0, 0)])
def test_a_small_model_that_is_unsure_names_one_that_knows_more(unsure: float, notes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = catalogue.Entry("small", "image", "", "", True, "", knows_more="timm/large")
    monkeypatch.setattr(catalogue, "CATALOGUE", [entry])
    monkeypatch.setattr(catalogue, "UNSURE", unsure)
    found = explain(replace(image_model(), name="small"), picture(), methods="rollout")
    assert len(found.notes) == notes
    assert all(f"{float(found.probabilities.max()):.0%}. timm/large knows" in note for note in found.notes)
    assert explain(image_model(), picture(), methods="rollout").notes == []


# --- inputs ---------------------------------------------------------------------------------------------------------


def test_one_image_many_images_a_path_and_tensors_agree(tmp_path: Path) -> None:
    model, spec = image_model(), "fullgrad_plus:libra"
    one = explain(model, picture(), methods=spec)
    assert isinstance(one, Explanation)
    picture().save(tmp_path / "one.png")
    from_path = explain(model, tmp_path / "one.png", methods=spec)
    several = explain(model, [picture(), picture(1)], methods=spec)
    assert isinstance(several, list)
    assert [type(e) for e in several] == [Explanation, Explanation]
    assert isinstance(explain(model, [picture()], methods=spec), list)
    tensors = model.tensors(picture())
    from_tensors = explain(model, tensors, methods=spec)
    for other in (from_path, several[0], from_tensors):
        torch.testing.assert_close(other[spec].scores, one[spec].scores, rtol=1e-4, atol=1e-6)
    assert len(explain(model, model.tensors([picture(), picture(1)]), methods=spec)) == 2


@pytest.mark.parametrize("side", ["image", "text"])
def test_the_tensors_of_each_image_of_a_batch_are_what_the_model_was_given(side: Any) -> None:
    model = clip_model()
    asked: list[Any] = ["a bad movie", "the plot"]
    for one in explain(model, [picture(), picture(1)], target=asked, methods="rollout", side=side):
        logits = model.seen_from(side).forward(one.tensors)
        torch.testing.assert_close((logits.T if side == "text" else logits)[0].float(), one.logits)


def test_the_tensors_of_each_text_of_a_batch_are_what_the_model_was_given() -> None:
    for one in explain(text_model(), [TEXT, "a bad movie"], methods="rollout"):
        torch.testing.assert_close(text_model().forward(one.tensors)[0], one.logits, rtol=1e-4, atol=1e-5)


def test_the_shape_of_an_attribution_of_an_image() -> None:
    result = explain(image_model(), picture(), target="Zebra", methods=["rollout", "input_x_gradient:libra"])
    one = result["rollout"]
    assert one.scores.dtype == torch.float32
    assert one.scores.device.type == "cpu"
    assert one.scores.shape == one.content.shape == (13,)
    assert one.content.dtype == torch.bool
    assert one.content.tolist() == [False] + [True] * 12
    assert one.patches == (4, 3)
    assert (one.method, one.readout, one.rule, one.signed, one.class_specific) == ("rollout", "rollout", None, False, False)
    other = result["input_x_gradient:libra"]
    assert (other.readout, other.rule, other.signed, other.class_specific, other.target) == (
        "input_x_gradient",
        "libra",
        True,
        True,
        "Zebra",
    )
    low, high = other.range
    assert low == float(other.scores[other.content].min())
    assert high == float(other.scores[other.content].max())
    assert other.seconds >= 0
    with pytest.raises(ExplainerError, match="patches"):
        _ = other.tokens
    with pytest.raises(ExplainerError, match="patches"):
        other.words()
    assert result.methods == ["rollout", "input_x_gradient:libra"]
    assert [m.method for m in result.maps] == result.methods
    assert result.logits.shape == result.probabilities.shape == (5,)
    torch.testing.assert_close(result.probabilities, result.logits.softmax(-1))


def test_texts_their_tokens_and_words() -> None:
    specs = ["input_x_gradient:libra", "transformer_attribution"]
    result = explain(text_model(), TEXT, methods=specs)
    for one in result.maps:
        assert len(one.tokens) == len(one.scores) == len(one.content)
        assert [t.special for t in one.tokens] == [not c for c in one.content.tolist()]
        assert one.patches is None
        words = one.words()
        assert [w.text for w in words][:4] == ["Not", "a", "bad", "movie"]
        assert "well-made" in [w.text for w in words]
        for word in words:
            assert TEXT[word.start : word.end] == word.text
            pieces = [float(one.scores[i]) for i in word.tokens]
            assert word.score == pytest.approx(sum(pieces) if one.signed else max(pieces), rel=1e-6, abs=1e-9)
    assert any(len(w.tokens) > 1 for w in result[specs[0]].words())


def test_a_batch_of_texts_gives_what_each_gives_alone() -> None:
    """Padding never gets a score."""
    texts, specs = ["a good film", TEXT], ["fullgrad_plus:libra", "transformer_attribution", "gradcam_attention", "attcat"]
    for text, together in zip(texts, explain(text_model(), texts, target="positive", methods=specs), strict=True):
        alone = explain(text_model(), text, target="positive", methods=specs)
        for spec in specs:
            a, b = together[spec], alone[spec]
            assert len(a.tokens) == len(a.scores) == len(a.content), spec
            assert [t.text for t in a.tokens] == [t.text for t in b.tokens]
            torch.testing.assert_close(a.scores, b.scores, rtol=1e-3, atol=1e-5 * float(b.scores.abs().max()))
            assert [w.text for w in a.words()] == [w.text for w in b.words()]


def test_a_long_text_is_cut_and_said_so() -> None:
    result = explain(text_model(), "a good film " * 20, methods="random")
    assert any("left out" in note for note in result.notes)
    assert result.to_json()["notes"] == result.notes


@pytest.mark.parametrize("text", ["", "   \n"])
def test_an_empty_text_is_refused(text: str) -> None:
    with pytest.raises(ExplainerError, match="empty"):
        explain(text_model(), text)


def test_prompts() -> None:
    specs = ["fullgrad_plus:libra", "generic_attention", "input_x_gradient"]
    result = explain(clip_model(), picture(), target=["a bad film", "a good movie"], methods=specs)
    assert [t.prompt for t in result.targets] == ["a bad film", "a good movie"]
    assert result.labels == ["a bad film", "a good movie"]
    assert result.logits.shape == (2,)
    alone = explain(clip_model(), picture(), target="a good movie", methods=specs)
    for spec in specs:
        a, b = result[spec, "a good movie"].scores, alone[spec].scores
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-5 * float(b.abs().max()))
    assert result["generic_attention", 1].target == "a good movie"
    contrast = explain(clip_model(), picture(), target=Contrast("a bad film", "a good movie"), methods="input_x_gradient")
    gap = result["input_x_gradient", 0].scores - result["input_x_gradient", 1].scores
    size = float(result["input_x_gradient", 0].scores.abs().max())
    torch.testing.assert_close(contrast["input_x_gradient"].scores, gap, rtol=1e-3, atol=1e-5 * size)
    several = explain(clip_model(), [picture(), picture(1)], target=["a bad film", "a good movie"], methods=specs)
    torch.testing.assert_close(several[0][specs[0]].scores, result[specs[0]].scores, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("target", [None, 0, "", "  ", ["a film", 3], Contrast("a film", 1), Probability()])
def test_what_is_no_prompt_is_refused(target: Any) -> None:
    with pytest.raises(ExplainerError, match="prompt"):
        explain(clip_model(), picture(), target=target, methods="random")


# --- targets --------------------------------------------------------------------------------------------------------


def test_targets_by_label_index_and_default() -> None:
    model = image_model()
    top = explain(model, picture(), methods="random")
    best = int(top.logits.argmax())
    assert top.target.index == best
    assert top.target.label == LABELS[best]
    assert top.target.logit == pytest.approx(float(top.logits[best]))
    assert top.target.probability == pytest.approx(float(top.probabilities[best]))
    for target in (3, "fork", "FORK", -2):
        result = explain(model, picture(), target=target, methods="input_x_gradient")
        assert (result.target.index, result.target.label) == (3, "fork")
        assert result["input_x_gradient"].target == "fork"
    ranked = top.top(3)
    assert [t.index for t in ranked] == top.logits.argsort(descending=True)[:3].tolist()
    assert len(top.top()) == 5


def test_a_batch_without_target_explains_each_samples_own_top_class() -> None:
    model = image_model()
    results = explain(model, [picture(i) for i in range(6)], methods="input_x_gradient")
    for i, result in enumerate(results):
        best = LABELS[int(result.logits.argmax())]
        assert result.target.label == best
        alone = explain(model, picture(i), target=best, methods="input_x_gradient")["input_x_gradient"].scores
        torch.testing.assert_close(result["input_x_gradient"].scores, alone, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (5, "5 classes, 0 to 4"),
        (-6, "5 classes"),
        ("zebras", "did you mean Zebra"),
        ("giraffe-like quadruped", "the model knows Zebra"),
        (True, "no target"),
        (1.0, "no target"),
        ([], "empty"),
        ([0, False], "no target"),
        (Contrast("Zebra", "zebra"), "itself"),
        (Contrast("Zebra", "okapi"), "no class"),
        (Probability(9), "9 does not exist"),
    ],
)
def test_wrong_targets(target: Any, message: str) -> None:
    with pytest.raises(ExplainerError, match=message):
        explain(image_model(), picture(), target=target, methods="random")


def test_a_contrast_is_the_difference_of_two_maps() -> None:
    model, spec = image_model(), "fullgrad_plus:libra"
    two = explain(model, picture(), target=["Zebra", "dog"], methods=spec)
    one = explain(model, picture(), target=Contrast("Zebra", "dog"), methods=spec)
    torch.testing.assert_close(one[spec].scores, two[spec, "Zebra"].scores - two[spec, "dog"].scores, rtol=1e-3, atol=1e-5)
    assert one.target.logit == pytest.approx(two.targets[0].logit - two.targets[1].logit, rel=1e-4)
    assert one.target.index is None
    assert one.target.probability is None
    assert "Zebra" in one.target.label
    assert "dog" in one.target.label
    assert two.completeness("libra") < 1e-4
    assert one.completeness("libra") < 1e-4


def test_a_probability_is_the_softmax_chain() -> None:
    model, spec = image_model(), "input_x_gradient"
    logits = explain(model, picture(), target=list(range(5)), methods=spec)
    maps = torch.stack([logits[spec, i].scores for i in range(5)])
    p = logits.probabilities
    expected = p[2] * (maps[2] - (p[:, None] * maps).sum(0))
    result = explain(model, picture(), target=Probability("Spoon"), methods=spec)
    torch.testing.assert_close(result[spec].scores, expected, rtol=1e-3, atol=1e-6)
    assert explain(model, picture(), target=Probability(), methods=spec).target.index == int(p.argmax())
    with pytest.raises(ExplainerError, match="not from a probability"):
        explain(model, picture(), target=Probability("Spoon"), methods="transformer_attribution")


def test_several_targets_share_one_forward_pass_and_are_addressed_by_label_or_place(monkeypatch: pytest.MonkeyPatch) -> None:
    model = image_model()
    calls: list[int] = []
    handle = model.module.register_forward_hook(lambda *_: calls.append(1))
    try:
        result = explain(model, picture(), target=["Zebra", 3], methods=["rollout", "hirescam", "fullgrad:libra"])
    finally:
        handle.remove()
    assert len(calls) == 1
    assert [(m.method, m.target) for m in result.maps] == [
        (spec, label) for label in ("Zebra", "fork") for spec in ("rollout", "hirescam", "fullgrad:libra")
    ]
    assert result["hirescam"] is result["hirescam", "Zebra"]
    assert result["hirescam", 1] is result["hirescam", "fork"]
    assert torch.equal(result["rollout", 0].scores, result["rollout", 1].scores)


def test_a_map_that_was_not_asked_for_is_a_key_error_that_says_what_there_is() -> None:
    result = explain(image_model(), picture(), target="dog", methods=["rollout", "random"])
    with pytest.raises(KeyError, match="rollout, random") as caught:
        result["gradcam"]
    assert "dog" in str(caught.value)
    with pytest.raises(KeyError, match="Zebra"):
        result["rollout", "Zebra"]


# --- methods --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        ([], "empty"),
        ("roll_out", "did you mean rollout"),
        ("qqqq", "there are raw_attention"),
        ("rollout:libra", "no backward signal"),
        ("hirescam:nonsense", "no rule 'nonsense'"),
        ("transformer_attribution:libra", "makes no sense"),
        ("hirescam:deep_taylor", "makes no sense|choose one of"),
        ("rollout?start=1", "no option 'start'"),
        ("rollout?start_layer=x", "whole number"),
        ("rollout?start_layer=1.5", "whole number"),
        ("rollout?start_layer=999", "whole number from -2 to 1"),
        ("transformer_attribution?start_layer=-3", "whole number from -2 to 1"),
        ("legrad?layers=3", "whole number from 1 to 2"),
        ("rollout?start_layer=0&start_layer=1", "twice"),
        ("rollout?start_layer", "write options as"),
        ("attcat?published_code=perhaps", "true or false"),
        ("integrated_gradients?steps=0", "whole number from 2 to 1000"),
        ("integrated_gradients?steps=nan", "whole number"),
        ("", "no method"),
        (":libra", "no method"),
        ("hirescam:", "no method"),
    ],
)
def test_wrong_specs(methods: Any, message: str) -> None:
    with pytest.raises(ExplainerError, match=message):
        explain(image_model(), picture(), methods=methods)


def test_specs_are_taken_once_and_trimmed() -> None:
    result = explain(image_model(), picture(), methods=["rollout", " rollout ", "random"])
    assert result.methods == ["rollout", "random"]
    assert len(result.maps) == 2


@pytest.mark.parametrize("model", [image_model, text_model], ids=["image", "text"])
def test_without_methods_the_usual_ones_run(model: Any) -> None:
    found = explain(model(), picture() if model is image_model else TEXT)
    assert found.methods == explainers.default_methods(model())
    assert {"rollout", "transformer_attribution", "fullgrad_plus:libra"} <= set(found.methods)
    assert len(found.maps) == len(found.methods)
    for one in found.maps:
        assert bool(one.scores.isfinite().all())
        assert one.title
        assert one.by


@pytest.mark.parametrize("name", ["siglip", "eva02"])
def test_methods_of_the_classification_token_are_refused_where_there_is_none(name: str) -> None:
    model = image_model(name)
    for spec in ("raw_attention", "rollout", "transformer_attribution", "generic_attention"):
        with pytest.raises(ExplainerError, match="no classification token"):
            explain(model, picture(), methods=["random", spec])
    reasons = {v.spec: v.reason for v in explainers.variants(model)}
    assert "classification token" in str(reasons["rollout"])
    assert reasons["attcat"] is None
    assert reasons["fullgrad_plus:libra"] is None
    assert not {"rollout", "raw_attention"} & set(explainers.default_methods(model))
    assert explain(model, picture(), methods=["attcat", "fullgrad_plus:libra"]).maps


def test_methods_of_attention_are_refused_for_a_mixer() -> None:
    model = image_model("mixer")
    for spec in ("rollout", "attcat"):
        with pytest.raises(ExplainerError, match="attention"):
            explain(model, picture(), methods=spec)
    runs = [v.spec for v in explainers.variants(model) if v.reason is None]
    assert {"hirescam", "fullgrad:libra", "lrp:deep_taylor", "random"} <= set(runs)


def test_variants_without_a_model_have_no_reasons_and_unique_specs() -> None:
    listed = explainers.variants()
    assert all(v.reason is None for v in listed)
    assert len({v.spec for v in listed}) == len(listed)
    assert {v.readout for v in listed} == set(METHODS)


# --- along the way --------------------------------------------------------------------------------------------------


class Watcher:
    def __init__(self) -> None:
        self.seen: list[str] = []

    def on_prediction(self, explanation: Explanation) -> None:
        assert explanation.maps == []
        assert explanation.targets
        assert explanation.top()
        self.seen.append("prediction")

    def on_map(self, explanation: Explanation, attribution: Attribution) -> None:
        assert explanation.maps[-1] is attribution
        self.seen.append(f"{attribution.method} {attribution.target}")


def test_the_observer_hears_the_prediction_first_and_each_map_in_order() -> None:
    watcher = Watcher()
    explain(image_model(), picture(), target=["dog", "fork"], methods=["random", "rollout"], observer=watcher)
    assert watcher.seen == ["prediction", "random dog", "rollout dog", "random fork", "rollout fork"]


@pytest.mark.parametrize("after", [0, 1, 3])
def test_cancelling_stops_at_the_next_question(after: int) -> None:
    watcher, asked = Watcher(), []

    def cancelled() -> bool:
        asked.append(1)
        return len(asked) > after

    with pytest.raises(Cancelled):
        explain(image_model(), picture(), methods=["random", "rollout", "hirescam", "attcat"], observer=watcher, cancelled=cancelled)
    assert len(asked) == after + 1
    assert len(watcher.seen) == max(0, after)


def test_cancelling_is_asked_inside_a_dear_method() -> None:
    asked: list[int] = []

    def cancelled() -> bool:
        asked.append(1)
        return len(asked) > 3

    with pytest.raises(Cancelled):
        explain(image_model(), picture(), methods="integrated_gradients?steps=200", cancelled=cancelled)


@pytest.mark.parametrize("name", ["vit", "siglip", "bert", "mixer"])
def test_completeness(name: str) -> None:
    model = text_model() if name == "bert" else image_model(name)
    shown: Any = TEXT if name == "bert" else picture()
    result = explain(model, shown, target=1, methods=["fullgrad:libra", "fullgrad", "input_x_gradient:libra"])
    scale = float(result.logits.abs().max())
    assert result.completeness("libra") < 1e-4 * scale
    assert result.completeness("gradient") > 1e-3 * scale
    error = result["fullgrad:libra"].completeness_error
    assert error is not None
    assert error < 1e-4 * scale
    plain = result["fullgrad"].completeness_error
    assert plain == pytest.approx(result.completeness("gradient"), rel=1e-2)
    own = result["input_x_gradient:libra"].completeness_error
    assert own == pytest.approx(abs(result.target.logit - float(result["input_x_gradient:libra"].scores.sum())), rel=1e-3)
    for rule in ("deep_taylor", "lrp", "nonsense"):
        with pytest.raises(ExplainerError, match="carry gradients"):
            result.completeness(rule)


def test_completeness_of_one_of_a_padded_batch() -> None:
    for result in explain(text_model(), ["a good film", TEXT], methods="random"):
        assert result.completeness("libra") < 1e-4 * float(result.logits.abs().max())


def test_numbers_that_are_not_finite_are_refused() -> None:
    model = toy(lambda x: torch.cat([x.flatten(1), (x * 1e300 * 1e300).flatten(1)], 1))
    x = torch.ones(2, 3, 4, dtype=torch.float64)
    with pytest.raises(ExplainerError, match="not finite"):
        explain(model, {"x": x}, target=20, methods="input_x_gradient")


def test_the_versions_and_the_digest_that_numbers_depend_on() -> None:
    result = explain(image_model(), picture(), methods="random")
    assert {"python", "torch", "timm", "transformers", "vitrine"} <= set(result.versions)
    assert result.weights_digest == image_model().weights_digest
    assert len(result.weights_digest) == 64
    other = explainers.wrap(FAMILIES["vit"].build(seed=1))
    assert other.weights_digest != image_model().weights_digest


# --- as JSON (design.md) --------------------------------------------------------------------------------------------


def test_json_of_an_image() -> None:
    specs = ["fullgrad:libra", "rollout"]
    result = explain(image_model(), picture(size=(50, 40)), target=["dog", Contrast("dog", "fork")], methods=specs)
    data = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert {"model", "weights_digest", "versions", "input", "targets", "top", "maps", "notes"} <= set(data)
    assert data["input"]["kind"] == "image"
    assert (data["input"]["width"], data["input"]["height"]) == (50, 40)
    x0, y0, x1, y1 = data["input"]["crop"]
    assert 0 <= x0 < x1 <= 50
    assert 0 <= y0 < y1 <= 40
    assert data["input"]["seen"] == [24, 32]
    assert data["targets"][0] == {
        "label": "dog",
        "index": 4,
        "logit": pytest.approx(float(result.logits[4])),
        "probability": pytest.approx(float(result.probabilities[4])),
        "read": "logit",
    }
    contrast = data["targets"][1]
    difference = float(result.logits[4] - result.logits[3])
    assert contrast == {"label": "dog − fork", "logit": pytest.approx(difference), "read": "logit", "of": "dog", "against": "fork"}
    assert "read" not in data["top"][0]
    assert len(data["top"]) == 5
    assert len(data["maps"]) == 4
    for shown, one in zip(data["maps"], result.maps, strict=True):
        assert {
            "method",
            "readout",
            "rule",
            "title",
            "target",
            "scores",
            "grid",
            "range",
            "signed",
            "class_specific",
            "seconds",
            "notes",
        } <= set(shown)
        assert shown["grid"] == [4, 3]
        assert shown["scores"] == pytest.approx(one.scores[one.content].tolist())
        assert shown["range"] == pytest.approx([min(shown["scores"]), max(shown["scores"])])
        assert ("completeness_error" in shown) == (shown["method"] == "fullgrad:libra")
    assert data["maps"][1]["rule"] is None


def test_json_of_a_text() -> None:
    result = explain(text_model(), TEXT, methods=["attcat:libra"])
    data = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert data["input"]["kind"] == "text"
    assert data["input"]["text"] == TEXT
    tokens = data["input"]["tokens"]
    assert all(set(t) == {"text", "start", "end", "special"} for t in tokens)
    assert tokens[0]["special"]
    assert tokens[-1]["special"]
    assert all(set(w) == {"text", "start", "end", "tokens"} for w in data["input"]["words"])
    (shown,) = data["maps"]
    assert len(shown["scores"]) == len(tokens)
    assert "grid" not in shown


def test_json_of_prompts() -> None:
    data = json.loads(
        json.dumps(explain(clip_model(), picture(), target=["a film", "a movie"], methods="random").to_json(), allow_nan=False)
    )
    assert [t["prompt"] for t in data["targets"]] == ["a film", "a movie"]
    assert len(data["top"]) == 2


# --- pictures -------------------------------------------------------------------------------------------------------


def test_overlay_of_an_image_shows_the_crop_and_evidence_where_it_is() -> None:
    result = explain(image_model(), picture(size=(60, 80)), methods="fullgrad_plus:libra")
    drawn = render_overlay(result, result.maps[0], size=160)
    assert drawn.mode == "RGB"
    assert max(drawn.size) == 160
    x0, y0, x1, y1 = result.input.crop
    assert drawn.width / drawn.height == pytest.approx((x1 - x0) / (y1 - y0), abs=0.02)
    # a made-up map with one strong patch: the picture is coloured there and grey far from it
    scores = torch.zeros(13)
    scores[1] = 1.0
    made = Attribution(**{**vars(result.maps[0]), "scores": scores, "signed": True})
    pixels = np.asarray(render_overlay(result, made, size=160), np.int16)
    corner, far = pixels[5, 5], pixels[-5, -5]
    assert abs(corner - np.array(FOR)).max() < 60
    assert far.max() - far.min() <= 1
    flat = Attribution(**{**vars(result.maps[0]), "scores": torch.zeros(13)})
    render_overlay(result, flat, size=32)


def test_overlay_of_a_text_and_of_tensors() -> None:
    result = explain(text_model(), TEXT, methods="attcat")
    drawn = render_overlay(result, result.maps[0], size=300)
    assert drawn.width == 300
    assert len(np.unique(np.asarray(drawn).reshape(-1, 3), axis=0)) > 20
    model = image_model()
    unseen = explain(model, model.tensors(picture()), methods="random")
    with pytest.raises(ExplainerError, match="tensors were explained"):
        render_overlay(unseen, unseen.maps[0])


# --- the promise ----------------------------------------------------------------------------------------------------


class Small(nn.Module):
    """A Transformer of a user's own."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, 8, 8, 8)
        self.blocks = nn.Sequential(*(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True) for _ in range(2)))
        self.head = nn.Linear(8, 5)

    def forward(self, pixel_values: Tensor) -> Tensor:
        x = self.patch(pixel_values).flatten(2).transpose(1, 2)
        return self.head(self.blocks(x).mean(1))


def test_a_users_own_module_under_every_rule_that_a_method_knows() -> None:
    torch.manual_seed(0)
    from explainers.models.images import Preprocessing

    model = explainers.wrap(Small().eval(), kind="image", labels=LABELS, preprocess=Preprocessing(resize=(32, 32), fit="squash"))
    runs = [v.spec for v in explainers.variants(model) if v.reason is None and not v.dear]
    result = explain(model, picture(), target="dog", methods=runs)
    assert result.completeness("libra") < 1e-5
    assert len(result.maps) == len(runs)


def test_explaining_leaves_the_model_as_it_was() -> None:
    model = wrapped("bert")
    before = {name: value.clone() for name, value in model.module.state_dict().items()}
    explain(model, inputs("bert"), target=0, methods=["transformer_attribution", "integrated_gradients?steps=2", "fullgrad:libra"])
    assert all(p.grad is None for p in model.module.parameters())
    assert all(torch.equal(before[name], value) for name, value in model.module.state_dict().items())
