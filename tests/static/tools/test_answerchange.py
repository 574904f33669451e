"""What tools say of the answer, as it was and without a part of the input."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.node import compute

LINE = "async ([was, is]) => (await script('tools/answerchange.js')).removalLine('good', was, is)"
NEEDED = "Without “good”, the word on top, "
FREE = "does not need “good”, the word on top: without it, it "


def target(label: str, probability: float | None, logit: float = 0.0) -> dict[str, Any]:
    return {"label": label, "logit": logit} | ({} if probability is None else {"probability": probability})


def was(explained: dict[str, Any], first: dict[str, Any] | None = None, output: str = "softmax") -> dict[str, Any]:
    return {"target": explained, "first": first or explained, "output": output}


SURE = target("positive", 0.97, 3)
SECOND = target("negative", 0.03, -1)


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        (
            was(SURE),
            {"probability": 0.022, "logit": -2, "first": target("negative", 0.978)},
            f"{NEEDED}“positive” goes from 97.0\u2009% to 2.2\u2009%, and the answer becomes “negative”, 97.8\u2009%.",
        ),
        (
            was(SURE),
            {"probability": 0.6, "logit": 1, "first": target("positive", 0.6)},
            f"{NEEDED}“positive” goes from 97.0\u2009% to 60.0\u2009% and stays the answer.",
        ),
        (
            was(SECOND, SURE),
            {"probability": 0.2, "logit": 1, "first": target("positive", 0.8)},
            f"{NEEDED}“negative” goes from 3.0\u2009% to 20.0\u2009%, and the answer stays “positive”.",
        ),
        (
            was(target("a", 0.5002, 1), target("a", 0.5002, 1)),
            {"probability": 0.4998, "logit": 1, "first": target("b", 0.5002)},  # both are written 50.0 %
            f"{NEEDED}“a” goes from 50.0\u2009% to 50.0\u2009%, and the answer becomes “b”, 50.0\u2009%.",
        ),
        (
            was(target("toxic", 0.9), output="sigmoid"),
            {"probability": 0.1, "logit": -2, "first": target("rude", 0.4)},
            f"{NEEDED}“toxic” goes from 90.0\u2009% to 10.0\u2009%: yes becomes no.",
        ),
        (
            was(target("toxic", 0.9), output="sigmoid"),
            {"probability": 0.7, "logit": 2, "first": target("rude", 0.8)},
            f"{NEEDED}“toxic” goes from 90.0\u2009% to 70.0\u2009%, still yes.",
        ),
        (was(target("stars", None, 2.5), output="regression"), {"logit": 1.25}, f"{NEEDED}“stars” goes from 2.50 to 1.25."),
        (
            was(SURE),
            {"probability": 0.97, "logit": 3, "first": SURE},
            f"The answer {FREE}does not change (97.0\u2009%).",
        ),
        (
            was(SURE),
            {"probability": 0.9698, "logit": 2.9, "first": SURE},
            f"The answer {FREE}hardly changes (97.0\u2009%).",
        ),
        (
            was(SECOND, SURE),
            {"probability": 0.03, "logit": -1, "first": SURE},
            f"“negative” {FREE}does not change (3.0\u2009%).",
        ),
        (
            was(target("stars", None, 2.5), output="regression"),
            {"logit": 2.5},
            f"The answer {FREE}does not change (2.50).",
        ),
    ],
)
def test_it_is_said_what_the_answer_becomes_without_the_word_on_top(before: Any, after: Any, says: str) -> None:
    assert compute(LINE, [before, after]) == says


ROWS = "async ([before, now]) => (await script('tools/answerchange.js')).changeRows(before, now)"


def test_the_answer_as_it_was_keeps_its_row_when_it_falls_behind_the_first() -> None:
    before = [target("chimpanzee", 0.8), target("gorilla", 0.1)]
    now = [target("gorilla", 0.5), target("siamang", 0.2)]
    rows = [["gorilla", "10.0\u2009%", "50.0\u2009%", "+40.0 points"], ["siamang", "<10.0\u2009%", "20.0\u2009%", "–"]]
    assert compute(ROWS, [before, now]) == [*rows, ["chimpanzee", "80.0\u2009%", "<20.0\u2009%", "–"]]
    low = target("chimpanzee", 0.1)
    assert compute(ROWS, [before, [*now, low]])[2:] == [["chimpanzee", "80.0\u2009%", "10.0\u2009%", "\u221270.0 points"]]
    assert compute(ROWS, [before, [target("gorilla", 1.0), target("siamang", 1e-9)]])[2][2] == "<0.1\u2009%"
    assert compute(ROWS, [before, []]) == []  # nothing was asked yet
