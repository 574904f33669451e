"""The sentence over the plates: what the model answered, how sure it is, and what it cannot know."""

from __future__ import annotations

from typing import Any

from explainers.models.companion_files.calibration import ABSTENTION_KINDS
from tests.support.node import compute, compute_all

SAY = "async (info) => (await script('workbench/overview.js')).answerLine(info)"
ASKING = "async ([info, isPrompt]) => (await script('workbench/overview.js')).askingLine(info, isPrompt)"
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
    assert say(info(("cat", 0.95), ("dog", 0.02), abstention=doubt)) == (
        "“cat”, 95.0\u2009%? It may be something that the model does not know; next comes “dog” with 2.0\u2009%. It is close to 40\u2009%."
    )
    assert compute(ASKING, [info(("cat", 0.95), abstention=doubt), False]) == "What made it say"  # its answer stays
    assert compute(ASKING, [info(("cat", 0.9)), False]) == "What made it say"
    for more in ({}, {"abstention": UNKNOWN}, {"abstention": doubt}):
        assert compute(ASKING, [info(("cat", 0.9), ("dog", 0.1), explained="dog", **more), False]) == "What speaks for"
    unsure = say(info(("cat", 0.41), ("dog", 0.3), explained="dog"))
    assert unsure == "The model is not sure: it says “cat”, 41.0\u2009%; next comes “dog” with 30.0\u2009%. Explained here: “dog”."
    absent = {**UNKNOWN, "kind": "not_in_picture", "says": "not found in this picture"}
    prompts = [
        {"label": "a dog", "prompt": "a dog", "probability": 0.9},
        {"label": "a car", "prompt": "a car", "probability": 0.1, "abstention": absent},
    ]
    assert say({"targets": prompts}) == "“a dog” fits the whole picture best: share 90.0\u2009%. It did not find “a car”."
    finding = {"calibration": {"lines": [{"kind": "not_in_picture"}]}}
    with_verdicts = "async ([targets, known]) => (await script('workbench/overview.js')).answerLine({ targets }, known)"
    both = [prompts[0], {**prompts[1], "abstention": None}]
    assert compute_all(with_verdicts, [[prompts, finding], [both, finding], [both[:1], finding]]) == [
        "It found “a dog”. It did not find “a car”.",
        "It found “a dog” and “a car”. “a dog” fits the whole picture best: share 90.0\u2009%.",  # a small share is no verdict
        "It found “a dog”.",
    ]
    perhaps = {**UNKNOWN, "kind": "perhaps_in_picture", "says": "perhaps in this picture"}
    prompts[0]["abstention"] = perhaps  # its share is 90 %, for the other prompt fits even less
    assert say({"targets": prompts}) == "It is not sure of “a dog”. It did not find “a car”."
    detail = "The model was never taught the word “wug”, so its map of “a wug” may mean nothing."
    unread = {
        "label": "a wug",
        "prompt": "a wug",
        "abstention": {"kind": "unreadable_words", "says": "words I don't read", "detail": detail},
    }
    assert (
        say({"targets": [{**prompts[1], "label": label, "prompt": label} for label in ("a", "b", "c")]})
        == "It did not find “a”, “b” or “c”."
    )
    assert say({"targets": [unread]}) == detail


def test_of_prompts_that_are_not_there_nothing_was_found() -> None:
    present, absent = {"label": "a dog"}, {"label": "a car", "abstention": {"says": "not found in this picture"}}
    asked = compute_all(ASKING, [[{"targets": [present, absent]}, True], [{"targets": [present]}, True]])
    assert asked == ["Where it looked for", "Where it found"]
