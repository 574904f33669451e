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
    "asked": 217,
    "hidden": [[1], [5]],
    "before": {"cat": 0.5, "dog": 0.2},
    "after": {"cat": 0.25, "dog": 0.3},
}


def sentences(**changed: Any) -> Any:
    return compute(SENTENCES, [{**FOUND, **changed}, ["patch", "patches"]])


def test_what_does_it_is_said_with_the_numbers_before_and_after() -> None:
    assert sentences() == {
        "says": "Hide these 2 of 196 patches, and “dog” comes first: it goes from 20.0\u2009% to 30.0\u2009%.",
        "more": "“cat” goes from 50.0\u2009% to 25.0\u2009%. With any one of these patches back, “dog” does not come first.",
        "honest": "A hidden patch is one that the model no longer sees: what is left need not speak for “dog”. "
        "Fewer patches may be enough, in a combination that was not tried: the search asked the model 217 times.",
    }
    one = sentences(hidden=[[7]])
    assert one["says"].startswith("Hide this one of 196 patches, and “dog” comes first")
    assert "back" not in one["more"]
    assert one["honest"].endswith("No smaller change is possible; hiding another patch may do the same.")  # none is fewer than one


def test_where_nothing_does_it_the_nearest_is_said() -> None:
    nearest = sentences(reached=False, leader="fox", after={"cat": 0.2, "dog": 0.22, "fox": 0.3})
    assert nearest == {
        "says": "Hiding patches did not make the answer “dog”.",
        "more": "Nearest came hiding these 2 of 196 patches: “dog” goes from 20.0\u2009% to 22.0\u2009%, "
        "and “fox” comes first with 30.0\u2009%.",
        "honest": "Not every combination of patches was tried: the search asked the model 217 times.",
    }
    assert sentences(reached=False, hidden=[])["more"] == "Hiding any patch takes it further away from “dog”, which has 20.0\u2009%."


def test_what_leaves_hardly_anything_or_changes_nothing_is_not_called_near() -> None:
    few = {"cat": 0.2, "dog": 0.22, "fox": 0.3}
    half = [[part] for part in range(98)]
    assert sentences(reached=False, leader="fox", after=few, hidden=half)["more"].startswith("Nearest came hiding these 98 of 196 patches")
    most = sentences(reached=False, leader="fox", after=few, hidden=[*half, [98]])["more"]
    assert most == (
        "Nothing that was tried brings it near. The most was with these 99 of 196 patches hidden: “dog” goes from "
        "20.0\u2009% to 22.0\u2009%, and “fox” comes first with 30.0\u2009%."
    )
    tiny = {"before": {"cat": 0.5, "dog": 1e-5}, "after": {"cat": 0.2, "dog": 2e-5, "fox": 0.3}}
    stays = sentences(reached=False, leader="fox", **tiny)["more"]
    assert stays == (
        "Nothing that was tried brings it near. The most was with these 2 of 196 patches hidden: “dog” stays at <0.1\u2009%, "
        "and “fox” comes first with 30.0\u2009%."
    )


def test_a_way_that_hides_nearly_everything_is_no_answer() -> None:
    most = sentences(hidden=[[part] for part in range(193)])
    assert most == {
        "says": "No small change was found that makes the answer “dog”.",
        "more": "It came first, with 30.0\u2009%, only when 193 of 196 patches were hidden. "
        "So little is left then that it says hardly anything of your input.",
        "honest": "Fewer patches may be enough, in a combination that was not tried: the search asked the model 217 times.",
    }
    assert sentences(hidden=[[part] for part in range(98)])["says"].startswith("Hide these 98 of 196 patches")


def test_of_the_next_answer_it_is_said_whether_it_can_be_reached() -> None:
    line = "async ([found, parts]) => (await script('tools/changesentences.js')).nextAnswerLine(found, parts)"
    reached = {**FOUND, "to": "fox", "hidden": [[1]] * 5}
    assert compute(line, [reached, "patches"]) == "“fox”, the next answer, can be reached: hide 5 of 196 patches."
    for none in ({**reached, "reached": False}, {**reached, "hidden": [[1]] * 99}):
        assert compute(line, [none, "patches"]) == "No small change was found that makes it “fox”, the next answer, either."
