"""What a model can't know: the scores, the lines, and where an explanation says so."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from explainers import Contrast, ExplainerError, Model, Probability, explain
from explainers.models.abstention import MEASURES, Abstention, Evidence, abstention
from explainers.models.companion_files.calibration import ABSTENTION_KINDS, SCORES, AbstentionThreshold, Calibration
from explainers.models.companion_files.prompt_words import PromptKind, PromptReading
from explainers.models.inputs.types import TextInput, Token, Word
from tests.explainers.support.explained import TEXT, clip_model, image_model, picture, text_model

LOGITS = torch.tensor([2.0, 1.0, -1.0])
UNKNOWN = 9


def calibration(kind: str, score: str, line: float, below: bool = True, temperature: float = 1.0) -> Calibration:
    return Calibration(temperature, (AbstentionThreshold(kind, score, line, below, "On ten made-up pictures."),))


def calibrated(model: Model, *settings: Any, **named: Any) -> Model:
    return replace(model, calibration=calibration(*settings, **named))


def text(*words: tuple[str, int]) -> TextInput:
    """Words of so many pieces each, after a special token."""
    tokens, made, place = [Token("[CLS]", 0, 0, True)], [], 0
    for word, pieces in words:
        made.append(Word(word, place, place + len(word), tuple(range(len(tokens), len(tokens) + pieces))))
        tokens += [Token(word, place, place + len(word), False)] * pieces
        place += len(word) + 1
    return TextInput(" ".join(word for word, _ in words), tuple(tokens), tuple(made))


def evidence(**named: Any) -> Evidence:
    return Evidence(**{"logits": LOGITS, "labels": ("yes", "Neutral", "no"), **named})


def test_every_score_that_a_line_may_name_is_computed() -> None:
    assert set(MEASURES) == set(SCORES)


@pytest.mark.parametrize(
    ("score", "value"),
    [
        ("max_probability", math.e**1 / (math.e**1 + math.e**0.5 + math.e**-0.5)),
        ("max_logit", 2.0),
        ("prominence", (2 - 2 / 3) / math.sqrt(14 / 9) + 0.2),  # of 2, 1 and -1: the mean is 2/3, the variance 14/9
        ("energy", 2 * math.log(math.e**1 + math.e**0.5 + math.e**-0.5)),
        ("neutral_probability", math.e**0.5 / (math.e**1 + math.e**0.5 + math.e**-0.5)),
        ("probability_gap", (math.e**1 - math.e**0.5) / (math.e**1 + math.e**0.5 + math.e**-0.5)),
    ],
)
def test_scores_of_logits_at_a_temperature_of_two(score: str, value: float) -> None:
    assert MEASURES[score](evidence(calibration=Calibration(2.0))) == pytest.approx(value, rel=1e-5)


def test_a_lapse_makes_probabilities_less_sure_and_leaves_logits_and_their_energy() -> None:
    lapsing, plain = evidence(calibration=Calibration(2.0, lapse=0.3)), evidence(calibration=Calibration(2.0))
    assert MEASURES["max_probability"](lapsing) == pytest.approx(0.7 * MEASURES["max_probability"](plain) + 0.1, rel=1e-5)
    assert MEASURES["probability_gap"](lapsing) == pytest.approx(0.7 * MEASURES["probability_gap"](plain), rel=1e-5)
    for score in ("max_logit", "energy"):
        assert MEASURES[score](lapsing) == MEASURES[score](plain)


def test_scores_of_words() -> None:
    read = text(("what", 1), ("ein", 1), ("Wunderwerk", 4), ("!", 1))
    ids = [1, 5, UNKNOWN, 5, 5, UNKNOWN, 5, 6]
    assert MEASURES["share_unknown"](evidence(text=read, ids=ids, unknown_id=UNKNOWN)) == 0.5  # of four words, two
    assert MEASURES["share_unknown"](evidence(text=read, ids=ids, unknown_id=None)) == 0
    assert MEASURES["share_unknown"](evidence(text=text(), ids=[1], unknown_id=UNKNOWN)) == 1
    assert MEASURES["word_familiarity"](evidence(prompt=PromptReading("thing", "wug", 0.2))) == 0.2
    assert MEASURES["cosine"](evidence(cosine=0.3)) == 0.3
    assert MEASURES["patch_cosine"](evidence(patch_cosine=0.2)) == 0.2
    directions = {"opinion_evidence": torch.tensor([2.0, -1.0, 0.5])}
    assert MEASURES["opinion_evidence"](evidence(features=torch.tensor([3.0, 1.0]), directions=directions)) == 5.5


@pytest.mark.parametrize(
    ("score", "told", "message"),
    [
        ("neutral_probability", {"labels": ("a", "b", "c")}, "a class called neutral"),
        ("cosine", {}, "compare images with prompts"),
        ("patch_cosine", {}, "patch by patch"),
        ("word_familiarity", {}, "prompt_words.safetensors"),
        ("opinion_evidence", {}, "the tokens that they end with"),
        ("opinion_evidence", {"features": torch.ones(2)}, "a direction of that name"),
        ("opinion_evidence", {"features": torch.ones(2), "directions": {"opinion_evidence": torch.ones(2)}}, "send 3 numbers"),
        ("share_unknown", {}, "reads none"),
        ("max_logit", {"logits": None}, "made from logits"),
    ],
)
def test_a_score_that_a_model_cannot_have_says_why(score: str, told: dict[str, Any], message: str) -> None:
    with pytest.raises(ExplainerError, match=message):
        MEASURES[score](evidence(**told))


def test_the_first_line_crossed_is_the_one_that_is_told() -> None:
    lines = (
        AbstentionThreshold("unreadable_language", "share_unknown", 0.4, False, "m"),
        AbstentionThreshold("no_opinion", "max_probability", 0.9, True, "m"),
        AbstentionThreshold("something_else", "max_logit", 5.0, True, "m"),
    )
    heard = {"text": text(("good", 1), ("film", 1)), "unknown_id": UNKNOWN}
    found = abstention(evidence(calibration=Calibration(1.0, lines), ids=[1, 5, 5], **heard), "reviews")
    assert found is not None
    assert (found.kind, found.says, found.line) == ("no_opinion", "no opinion", 0.9)
    assert found.score == pytest.approx(float(LOGITS.softmax(0)[0]))
    on_the_line = (replace(lines[0], value=0.5),)
    assert abstention(evidence(calibration=Calibration(1.0, on_the_line), ids=[1, 5, UNKNOWN], **heard), "reviews") is None
    german = abstention(evidence(calibration=Calibration(1.0, lines), ids=[1, 5, UNKNOWN], **heard), "reviews")
    assert german is not None
    assert german.kind == "unreadable_language"


def test_a_line_for_a_kind_of_prompts_is_about_these_alone() -> None:
    lines = (
        AbstentionThreshold("untaught", "cosine", 1.01, True, "On ten photos the cosines are alike.", "colour"),
        AbstentionThreshold("not_in_picture", "cosine", 0.1, True, "m", "thing"),
        AbstentionThreshold("not_in_picture", "cosine", 0.3, True, "m", "scene"),
        AbstentionThreshold("perhaps_in_picture", "cosine", 0.2, True, "m", "thing"),
    )

    def kind(asked: PromptKind, cosine: float) -> str | None:
        reading = PromptReading(asked, "", 1.0)
        found = abstention(evidence(calibration=Calibration(1.0, lines), cosine=cosine, prompt=reading), "“it”")
        return found and found.kind

    assert [kind("thing", cosine) for cosine in (0.05, 0.15, 0.25)] == ["not_in_picture", "perhaps_in_picture", None]
    assert [kind("scene", cosine) for cosine in (0.25, 0.35)] == ["not_in_picture", None]
    assert kind("colour", 0.9) == "untaught"
    assert abstention(evidence(calibration=Calibration(1.0, lines), cosine=0.05), "“it”") is None  # what it asks for is not known


@pytest.mark.parametrize(
    ("words", "untaught", "kind"),
    [
        ((("a", 1), ("cat", 1)), (), None),
        ((("qwertz", 3),), ("qwertz",), "untaught"),
        ((("a", 1), ("giraffe", 3)), ("giraffe",), "untaught"),
        ((("a", 1), ("smartphone", 1)), ("smartphone",), None),  # the tokenizer has a piece for it
        ((("a", 1), ("close-up", 3)), ("close-up",), None),  # "close", "-", "up"
        ((("eine", 2), ("Katze", 2)), ("eine", "katze"), "unreadable_language"),
        ((("un", 1), ("chat", 2)), ("un", "chat"), "unreadable_language"),
        ((("\u732b", 1),), ("\u732b",), "unreadable_language"),
        ((("a", 1), ("film", 1), ("con", 1), ("artist", 1)), ("con",), None),  # one foreign word among English ones
        ((("a", 1), ("red", 1), ("wug", 2)), ("wug",), "untaught"),
    ],
)
def test_a_prompt_of_untaught_words_is_not_read(words: tuple[tuple[str, int], ...], untaught: tuple[str, ...], kind: str | None) -> None:
    reading = PromptReading("thing", untaught[0] if untaught else "", 0.5, untaught)
    found = abstention(evidence(prompt=reading, text=text(*words)), "“it”")
    assert (found and found.kind) == kind
    if kind == "untaught":
        assert found is not None
        assert found.says == "nothing that the model was taught to see"  # the text encoder may well know the word
        assert found.detail == f"The model learned from no picture named “{untaught[-1]}”, so its map of “it” may mean nothing."
    assert abstention(evidence(text=text(*words)), "“it”") is None  # the training words are not known


@pytest.mark.parametrize(
    ("kind", "stays"), [("something_else", True), ("perhaps_in_picture", True), ("no_opinion", False), ("not_in_picture", False)]
)
def test_a_doubt_stands_beside_the_answer_and_the_others_in_its_place(kind: str, stays: bool) -> None:
    said = Abstention(kind, ABSTENTION_KINDS[kind], "", 0.1, 0.2).qualify("cocker spaniel")
    assert said == (f"cocker spaniel? {ABSTENTION_KINDS[kind]}" if stays else ABSTENTION_KINDS[kind])


@pytest.mark.parametrize("kind", sorted(set(ABSTENTION_KINDS) - {"untaught"}))
def test_each_kind_has_a_sentence_with_the_score_and_the_line(kind: str) -> None:
    found = abstention(evidence(calibration=calibration(kind, "max_probability", 0.9)), "the model")
    assert found is not None
    assert found.detail.endswith("the largest probability is 70.5%, below the threshold of 90.0%).")
    assert found.to_json() == {"kind": kind, "says": ABSTENTION_KINDS[kind], "detail": found.detail, "score": found.score, "line": 0.9}


# --- in explanations ------------------------------------------------------------------------------------------------


def test_a_model_without_a_calibration_never_abstains() -> None:
    result = explain(image_model(), picture(), methods="random")
    assert result.abstention is None
    assert "abstention" not in result.to_json()
    torch.testing.assert_close(result.probabilities, result.logits.softmax(-1))


@pytest.mark.parametrize(("line", "abstains"), [(0.0, False), (1.1, True)])
def test_a_classifier_abstains_below_its_line(line: float, abstains: bool) -> None:
    model = calibrated(image_model(), "something_else", "max_probability", line)
    results = explain(model, [picture(0), picture(1)], methods="random")
    for result in results:
        assert (result.abstention is not None) == abstains
        assert ("abstention" in result.to_json()) == abstains
        if result.abstention is not None:
            assert result.abstention.score == pytest.approx(float(result.probabilities.max()))
            assert result.to_json()["abstention"]["says"] == "it may be something that the model does not know"
            assert all(target.abstention is None for target in result.targets)


@pytest.mark.parametrize("lapse", [0.0, 0.2])
def test_the_calibration_changes_probabilities_and_leaves_logits_and_maps(lapse: float) -> None:
    plain, warm = image_model(), replace(image_model(), calibration=Calibration(3.0, lapse=lapse))
    spec = "input_x_gradient"
    before, after = (explain(model, picture(), target=["Zebra", Probability("dog")], methods=spec) for model in (plain, warm))
    torch.testing.assert_close(after.logits, before.logits)
    torch.testing.assert_close(after.probabilities, (1 - lapse) * (before.logits / 3).softmax(-1) + lapse / 5)
    torch.testing.assert_close(after[spec, "Zebra"].scores, before[spec, "Zebra"].scores)
    every = explain(plain, picture(), target=list(range(5)), methods=spec)
    p = (before.logits / 3).softmax(-1)
    mean = sum(p[i] * every[spec, i].scores for i in range(5))
    scores = (1 - lapse) * p[4] * (every[spec, 4].scores - mean) / 3
    torch.testing.assert_close(after[spec, "p(dog)"].scores, scores, rtol=1e-3, atol=1e-6)


def test_a_text_model_judges_words_and_opinions_one_text_at_a_time() -> None:
    model = text_model()
    unknown = "".join(chr(0x4E00 + i) for i in range(12))
    reader = calibrated(model, "unreadable_language", "share_unknown", 0.5, below=False)
    strange = explain(reader, [TEXT, f"{unknown} {unknown}"], methods="random")
    assert [one.abstention is not None for one in strange] == [False, True]
    assert strange[1].abstention is not None
    assert strange[1].abstention.score == 1
    neutral = explain(calibrated(model, "no_opinion", "neutral_probability", 0.0, below=False), TEXT, methods="random")
    assert neutral.abstention is not None
    assert neutral.abstention.score == pytest.approx(float(neutral.probabilities[1]))


def test_what_is_not_in_the_vocabulary_is_said_and_a_text_of_nothing_else_has_no_answer() -> None:
    model = calibrated(text_model(), "no_opinion", "neutral_probability", 1.1, below=False)
    part, whole, plain = explain(model, [f"{TEXT} \u4e00 \u4e01", "\u4e00", TEXT], methods="random")
    assert "The model cannot read “\u4e00”, “\u4e01”: not in its vocabulary." in part.notes
    assert part.abstention is None
    assert whole.abstention is not None
    assert (whole.abstention.kind, whole.abstention.score) == ("unreadable_words", 1.0)
    assert not [note for note in plain.notes if "vocabulary" in note]
    (many,) = explain(model, [" ".join(chr(0x4E00 + i) for i in range(9))], methods="random")
    assert any(note.endswith("“\u4e04” and 4 more: not in its vocabulary.") for note in many.notes)


@pytest.mark.parametrize("side", ["image", "text"])
def test_a_clip_model_judges_each_prompt(side: Any) -> None:
    model = clip_model()
    prompts = ["a bad movie", "the plot"]
    plain = explain(model, picture(), target=prompts, methods="random", side=side)
    scale = model.details["logit_scale"]
    cosines = [target.logit / scale for target in plain.targets]
    line = sum(cosines) / 2  # between the two
    result = explain(calibrated(model, "not_in_picture", "cosine", line), picture(), target=prompts, methods="random", side=side)
    assert result.abstention is None
    low = cosines.index(min(cosines))
    told = result.targets[low].abstention
    assert told is not None
    assert result.targets[1 - low].abstention is None
    assert told.score == pytest.approx(cosines[low], rel=1e-4)
    assert told.detail.startswith(f"The model did not find “{prompts[low]}” in this picture; it may still be there (")
    document = result.to_json()
    assert [("abstention" in target) for target in document["targets"]] == [i == low for i in range(2)]


@pytest.mark.parametrize("side", ["image", "text"])
def test_a_prompt_is_judged_by_the_patches_that_are_most_like_it(side: Any) -> None:
    model = clip_model()
    prompts = ["a bad movie", "the plot"]
    maps = explain(model, picture(), target=prompts, methods="maskclip").maps
    nearest = [float(one.scores[one.content].topk(max(1, round(int(one.content.sum()) / 10))).values.mean()) for one in maps]
    low = nearest.index(min(nearest))
    line = AbstentionThreshold("not_in_picture", "patch_cosine", sum(nearest) / 2, True, "On nothing.", misses="It misses people.")
    judged = replace(model, calibration=Calibration(1.0, (line,)))
    targets = explain(judged, picture(), target=prompts, methods="random", side=side).targets
    told = targets[low].abstention
    assert targets[1 - low].abstention is None
    assert told is not None
    assert told.score == pytest.approx(nearest[low], rel=1e-4)
    assert told.detail.endswith(". It misses people.")


def test_a_contrast_of_prompts_is_judged_by_both() -> None:
    model = calibrated(clip_model(), "unreadable_words", "share_unknown", 0.4, below=False)
    strange = "".join(chr(0x4E00 + i) for i in range(5))
    fine, wrong = explain(model, picture(), target=[Contrast("movie", "plot"), Contrast("movie", strange)], methods="random").targets
    assert fine.abstention is None
    assert wrong.abstention is not None
    assert wrong.abstention.says == "words I don't read"
