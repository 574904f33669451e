"""The sentence over the plates: what the model answered, how sure it is, and what it cannot know."""

from __future__ import annotations

from typing import Any

from explainers.models.companion_files.calibration import ABSTENTION_KINDS
from tests.support.node import compute, compute_all

SAY = "async (info) => (await script('workbench/overview.js')).answerLine(info)"
ASKING = "async ([info, isPrompt]) => (await script('core/targets.js')).askingLine(info, isPrompt)"
WITHHELD = "async (abstention) => (await script('workbench/overview.js')).isWithheld(abstention)"
UNKNOWN = {"kind": "no_opinion", "says": "no opinion", "detail": "It is neither.", "score": 0.1, "line": 0.2}


def say(info: dict[str, Any]) -> str:
    """What the page says of an answer."""
    sentence: str = compute(SAY, info)
    return sentence


def info(*top: tuple[str, float], explained: str | None = None, **more: Any) -> dict[str, Any]:
    rows = [{"label": label, "probability": probability} for label, probability in top]
    return {"top": rows, "targets": [{"label": explained or top[0][0], "probability": 0.5}], **more}


def test_the_sentence_says_how_sure_the_model_is() -> None:
    assert say(info(("cat", 0.97), ("dog", 0.02))).startswith("The model says “cat” and is sure of it: 97.0")
    said = say(info(("positive", 0.7), ("negative", 0.3)))
    assert said == "The model says “positive”, 70.0\u2009%; next comes “negative” with 30.0\u2009%."
    # what reads the same is not said to come after
    said = say(info(("cat", 0.33334), ("dog", 0.33331)))
    assert said == "The model is not sure: it says “cat”, 33.3\u2009%; “dog” is as likely."


def test_what_the_model_cannot_know_is_said_in_the_answer() -> None:
    said = say(info(("cat", 0.12), ("dog", 0.1), abstention=UNKNOWN))
    assert said == "The model says “no opinion”. It is neither. Its nearest guess is “cat”, 12.0\u2009%."
    assert compute(ASKING, [info(("cat", 0.12), abstention=UNKNOWN), False]) == "What speaks for its nearest guess,"
    kinds = [UNKNOWN, {**UNKNOWN, "kind": "something_else"}, None]
    assert compute_all(WITHHELD, kinds) == [True, False, False]  # where it is, the classes beside it are guesses
    doubt = {
        **UNKNOWN,
        "kind": "something_else",
        "says": ABSTENTION_KINDS["something_else"],
        "detail": "It is close to 40% (the score is 0.4).",
    }
    assert say(info(("cat", 0.95), ("dog", 0.02), abstention=doubt)) == ("“cat”, 95.0\u2009%? It is close to 40\u2009%.")
    assert compute(ASKING, [info(("cat", 0.95), abstention=doubt), False]) == "What made it say"  # its answer stays
    assert compute(ASKING, [info(("cat", 0.9)), False]) == "What made it say"
    for more in ({}, {"abstention": UNKNOWN}, {"abstention": doubt}):
        assert compute(ASKING, [info(("cat", 0.9), ("dog", 0.1), explained="dog", **more), False]) == "What speaks for"
    unsure = say(info(("cat", 0.41), ("dog", 0.3), explained="dog"))
    assert unsure == "The model is not sure: it says “cat”, 41.0\u2009%; next comes “dog” with 30.0\u2009%."
    absent = {**UNKNOWN, "kind": "not_in_picture", "says": "not found in this picture"}
    prompts = [
        {"label": "a dog", "prompt": "a dog", "probability": 0.9},
        {"label": "a car", "prompt": "a car", "probability": 0.1, "abstention": absent},
    ]
    assert say({"targets": prompts}) == "“a dog” fits the whole picture best: 90.0\u2009% among the prompts. It did not find “a car”."
    finding = {"calibration": {"lines": [{"kind": "not_in_picture"}]}}
    with_verdicts = "async ([targets, known]) => (await script('workbench/overview.js')).answerLine({ targets }, known)"
    both = [prompts[0], {**prompts[1], "abstention": None}]
    assert compute_all(with_verdicts, [[prompts, finding], [both, finding], [both[:1], finding]]) == [
        "It found “a dog”. It did not find “a car”.",
        "It found “a dog” and “a car”. “a dog” fits the whole picture best: 90.0\u2009% among the prompts.",  # a small share is no verdict
        "It found “a dog”.",
    ]
    perhaps = {**UNKNOWN, "kind": "perhaps_in_picture", "says": "perhaps in this picture"}
    prompts[0]["abstention"] = perhaps  # its share is 90 %, for the other prompt fits even less
    assert say({"targets": prompts}) == "It is not sure of “a dog”. It did not find “a car”."
    detail = "The model learned from no picture named “wug”, so its map of “a wug” may mean nothing."
    unread = {
        "label": "a wug",
        "prompt": "a wug",
        "abstention": {"kind": "untaught", "says": "nothing that the model was taught to see", "detail": detail},
    }
    assert (
        say({"targets": [{**prompts[1], "label": label, "prompt": label} for label in ("a", "b", "c")]})
        == "It did not find “a”, “b” or “c”."
    )
    assert say({"targets": [unread]}) == detail


def prompt_of(label: str, kind: str | None = None, score: float = 0.1, line: float = 0.2, **more: Any) -> dict[str, Any]:
    abstention = kind and {"kind": kind, "says": f"says {kind}", "detail": "", "score": score, "line": line}
    return {"label": label, "prompt": label, "logit": 26.0, "probability": 0.5, "abstention": abstention, **more}


def test_the_heading_says_what_was_found_and_names_nothing_else() -> None:
    found, perhaps = prompt_of("a dog"), prompt_of("a cat", "perhaps_in_picture")
    absent, unread = prompt_of("a car", "not_in_picture"), prompt_of("a wug", "untaught")
    cases = [[found, absent], [absent, perhaps, unread], [absent, absent], [absent, unread], [unread]]
    named = compute_all("async (targets) => (await script('core/targets.js')).headingTargets(targets)", cases)
    asked = compute_all(ASKING, [[{"targets": targets}, True] for targets in named])
    assert asked == ["Where it found", "Where it may have found", "Not found:", "No finding for", "No finding for"]
    assert compute(ASKING, [{"targets": [found, absent]}, True]) == "Where it looked for"  # as a figure of both says
    labels = [[target["label"] for target in targets] for targets in named]
    assert labels == [["a dog"], ["a cat"], ["a car", "a car"], ["a car", "a wug"], ["a wug"]]
    unfinding = "async (targets) => (await script('core/targets.js')).askingLine({ targets }, true, 'it', false)"
    assert compute(unfinding, [found]) == "What speaks for"  # a model that cannot tell what it found


#: A model with lines for things and scenes, as the one that ships.
KNOWN = {
    "logit_scale": 100,
    "calibration": {
        "lines": [
            {"kind": "untaught", "score": "patch_cosine", "line": 1.01, "prompts": "colour"},
            {"kind": "not_in_picture", "score": "patch_cosine", "line": 0.1, "prompts": "thing"},
            {"kind": "not_in_picture", "score": "patch_cosine", "line": 0.14, "prompts": "scene"},
            {"kind": "perhaps_in_picture", "score": "patch_cosine", "line": 0.18, "prompts": "thing"},
            {"kind": "perhaps_in_picture", "score": "patch_cosine", "line": 0.2, "prompts": "scene"},
        ]
    },
}
FINDING = """async ([target, count, known, output]) => {
    const { findingLine, findingLevel, judgedBy, shareLine } = await script('workbench/overview.js');
    const words = [findingLine(target, known), shareLine(target, count, output), judgedBy(target, known)];
    return [...words, findingLevel(target, count, known)];
}"""
RULES = "async ([targets, known]) => (await script('workbench/overview.js')).judgingRules(targets, known)"


def test_a_prompt_is_found_perhaps_or_not_found_and_its_share_stands_apart() -> None:
    window = prompt_of("a window", "perhaps_in_picture", 0.15, 0.18)
    elephant = prompt_of("an elephant", "not_in_picture", 0.06, 0.1)
    street = prompt_of("a street", "perhaps_in_picture", 0.15, 0.2)
    cases = [
        [prompt_of("a cat"), 2, KNOWN, "softmax"],
        [prompt_of("a cat"), 1, KNOWN, "softmax"],
        [window, 2, KNOWN, "softmax"],
        [street, 2, KNOWN, "softmax"],
        [elephant, 1, KNOWN, "softmax"],
        [prompt_of("a wug", "untaught", 1, 0), 2, KNOWN, "softmax"],
        [prompt_of("a cat"), 2, {"logit_scale": 100}, "softmax"],
        [prompt_of("a cat"), 2, {}, "sigmoid"],  # each on its own, so that they share nothing
        [prompt_of("a cat", against="a dog"), 1, KNOWN, "softmax"],
    ]
    assert compute_all(FINDING, cases) == [
        ["found", "50.0\u2009% among the prompts", "", 1],
        ["found", "", "", 1],
        ["perhaps", "", "best patches 0.150; found from 0.180", 0.5],
        ["perhaps", "", "best patches 0.150; found from 0.200", 0.5],  # a scene has thresholds of its own
        ["not found", "", "best patches 0.0600; found from 0.180", 0],
        ["says untaught · cosine 0.260", "", "", 0],
        ["cosine 0.260", "50.0\u2009% among the prompts", "", 0.5],
        ["logit 26.0", "probability 50.0\u2009%", "", 0.5],
        ["logit 26.0 above “a dog”", "", "", 0],
    ]


def test_the_rule_by_which_prompts_are_judged_is_said_with_its_thresholds() -> None:
    window = prompt_of("a window", "perhaps_in_picture", 0.15, 0.18)
    street = prompt_of("a street", "not_in_picture", 0.12, 0.14)
    whole = "The likeness to the whole picture does not decide that."
    thing = "A prompt for a thing is found from best patches 0.180, perhaps from 0.100."
    scene = "A prompt for a scene is found from best patches 0.200, perhaps from 0.140."
    form = "The thresholds are of prompts such as “a photo of a dog”: written so, “a window” may be judged otherwise."
    scores = ["“a window” has 0.150.", "“a street” has 0.120."]
    assert compute(RULES, [[window], KNOWN]) == [thing, scores[0], whole, form]
    assert compute(RULES, [[window, street, prompt_of("a cat")], KNOWN]) == [thing, scene, *scores, whole, form]
    photo = prompt_of("a Photo of a window", "perhaps_in_picture", 0.15, 0.18)
    assert compute(RULES, [[photo], KNOWN]) == [thing, "“a Photo of a window” has 0.150.", whole]
    assert compute(RULES, [[prompt_of("a cat"), prompt_of("a wug", "untaught", 1, 0)], KNOWN]) == []
    cosine = {"calibration": {"lines": [{"kind": "not_in_picture", "score": "cosine", "line": 0.2}]}}
    assert compute(RULES, [[prompt_of("a car", "not_in_picture", 0.1, 0.2)], cosine]) == [
        "A prompt is found from cosine 0.200.",
        "“a car” has 0.100.",
    ]


def test_a_score_just_below_its_threshold_is_written_with_digits_that_differ() -> None:
    known = {"calibration": {"lines": [{"kind": "perhaps_in_picture", "score": "patch_cosine", "line": 0.17621, "prompts": "thing"}]}}
    prompt = prompt_of("a window", "perhaps_in_picture", 0.17584, 0.17621)
    assert compute(FINDING, [prompt, 2, known, "softmax"])[2] == "best patches 0.1758; found from 0.1762"
    rule, score, *_ = compute(RULES, [[prompt], known])
    assert (rule, score) == ("A prompt for a thing is found from best patches 0.1762.", "“a window” has 0.1758.")


def test_the_sentence_on_maps_says_of_which_prompt_they_are() -> None:
    about = "async (targets) => (await script('workbench/overview.js')).aboutWhich(targets)"
    likely = prompt_of("a car", "not_in_picture", probability=0.9)  # it fits best, and was not found
    assert compute(about, [likely, prompt_of("a cat"), prompt_of("a dog", probability=0.7)]) == "For “a dog”: "
    assert compute(about, [prompt_of("a cat")]) == ""
    assert compute(about, [{"label": "cat"}, {"label": "dog"}]) == ""  # classes are explained each with its own sentence


def test_a_share_of_a_prompt_is_never_said_as_if_it_were_how_sure_the_model_is() -> None:
    say_sure = "async ([target, count]) => (await script('core/targets.js')).sureness(target, undefined, count)"
    cases = [[prompt_of("a dog", probability=1.0), 1], [prompt_of("a dog", probability=0.7), 2], [{"label": "dog", "probability": 0.7}, 1]]
    assert compute_all(say_sure, cases) == [None, "70.0\u2009% among the prompts", "70.0\u2009%"]


def test_no_answer_takes_more_than_forty_words_nor_a_sentence_of_it_more_than_twenty() -> None:
    """Of names of two words, as most of ImageNet's are; prompts have three."""

    def prompt(kind: str | None, number: int) -> dict[str, Any]:
        label = f"a photo {number}"
        found = {
            "kind": kind,
            "says": "",
            "detail": f"“{label}” asks for a colour; this model cannot tell whether one is in a picture. On 90.",
        }
        return {"label": label, "prompt": label, "probability": 0.1, "abstention": kind and found}

    kinds = (None, "perhaps_in_picture", "not_in_picture", "untaught")
    doubt = {"kind": "something_else", "says": "", "detail": "It may be none of the 1,000 things that the model knows, or several of them."}
    names = [(f"golden retriever{number}", 0.9) for number in range(12)]
    answers = [
        *({"targets": [prompt(kind, number) for kind in kinds for number in range(count)]} for count in (1, 2, 3, 9)),
        *({"targets": [prompt(kind, 0), prompt(None, 1), prompt(None, 2)]} for kind in kinds),
        info(("golden retriever", 0.3), ("Sussex spaniel", 0.2), explained="golden retriever rather than Sussex spaniel"),
        info(*names, output="sigmoid"),
        info(*names, abstention=doubt),
        info(*names, abstention={**UNKNOWN, "detail": "The model sees no opinion in this text (it is 0.1)."}),
    ]
    finding = {"calibration": {"lines": [{"kind": "not_in_picture"}]}}
    say_of_each = "async ([info, known]) => (await script('workbench/overview.js')).answerLine(info, known)"
    for said in compute_all(say_of_each, [[answer, finding] for answer in answers]):
        assert 0 < len(said.split()) <= 40, said
        assert max(len(sentence.split()) for sentence in said.split(". ")) <= 20, said


def test_the_class_that_the_answer_is_set_against_is_said_with_its_share() -> None:
    top = [{"label": label, "probability": share} for label, share in (("cat", 0.5), ("dog", 0.2), ("cow", 0.1))]

    def said(against: str, top: list[dict[str, Any]] = top) -> str:
        return say({"top": top, "output": "softmax", "targets": [{"label": "x", "of": "cat", "against": against, "logit": 1}]})

    tiny = [*top, {"label": "ant", "probability": 0.0001}]
    assert said("gorilla", tiny).endswith("“gorilla” has less than 0.1\u2009%.")  # not less than <0.1 %

    assert said("gorilla").endswith("“gorilla” has less than 10.0\u2009%.")
    assert said("cow").endswith("“cow” has 10.0\u2009%.")
    assert said("dog").endswith("next comes “dog” with 20.0\u2009%.")  # it is said already


def test_of_two_classes_it_is_said_which_methods_show_the_same_map_for_both() -> None:
    line = "async (pairs) => (await script('workbench/overview.js')).sameMapLine(pairs)"

    def pairs(**correlations: float | None) -> list[dict[str, Any]]:
        return [{"title": title, "r": r} for title, r in correlations.items()]

    assert compute(line, pairs(Raw=1.0, Lrp=0.74)) == "Raw shows the same map for both; Lrp does not."
    assert (
        compute(line, pairs(Raw=1.0, Rollout=0.995, A=0.1, B=0.2, C=0.3))
        == "Raw and Rollout show the same map for both; the others do not."
    )
    assert compute(line, pairs(A=1.0, B=1.0, C=1.0, D=0.9)) == "3 of 4 methods show the same map for both; D does not."
    assert compute(line, pairs(A=1.0, B=1.0)) == "A and B show the same map for both."
    assert compute(line, pairs(A=0.5, B=-0.5)) == "No method shows the same map for both."
    assert compute(line, pairs(A=0.5, B=None)) == "A shows another map for each."  # a map of one score has no correlation
    assert compute(line, pairs(B=None)) == ""
