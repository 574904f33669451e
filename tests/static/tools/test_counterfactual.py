"""The sentences on what would change the answer."""

from __future__ import annotations

from typing import Any

from tests.support.node import compute

SENTENCES = "async ([found, parts]) => (await script('tools/changesentences.js')).sentencesOf(found, parts)"
FOUND = {
    "answer": "cat",
    "to": "dog",
    "reached": True,
    "leader": "dog",
    "parts": 196,
    "hidden": [[1], [5]],
    "before": {"cat": 0.5, "dog": 0.2},
    "after": {"cat": 0.25, "dog": 0.3},
}


def sentences(**changed: Any) -> Any:
    return compute(SENTENCES, [{**FOUND, **changed}, ["patch", "patches"]])


def test_what_does_it_is_said_with_the_numbers_before_and_after() -> None:
    assert sentences() == {
        "says": "Hide these 2 of 196 patches, and “dog” comes first: 30.0\u2009%, before 20.0\u2009%.",
        "more": "“cat” goes from 50.0\u2009% to 25.0\u2009%. With any one of these patches back, “dog” does not come first.",
    }
    one = sentences(hidden=[[7]])
    assert one["says"].startswith("Hide this one of 196 patches, and “dog” comes first")
    assert "back" not in one["more"]


def test_where_nothing_does_it_the_nearest_is_said() -> None:
    nearest = sentences(reached=False, leader="fox", after={"cat": 0.2, "dog": 0.22, "fox": 0.3})
    assert nearest == {
        "says": "No hiding that was tried makes the answer “dog”.",
        "more": "Nearest came hiding these 2 of 196 patches: “dog” then has 22.0\u2009%, before 20.0\u2009%, "
        "and “fox” comes first with 30.0\u2009%.",
    }
    assert sentences(reached=False, hidden=[])["more"] == "Hiding any patch takes it further away from “dog”, which has 20.0\u2009%."
