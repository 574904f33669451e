"""What the list of runs says of one."""

from __future__ import annotations

from tests.support.node import compute

RUN = "async ([run, ways]) => (await script('pages/measuring/runlist.js')).runInWords(run, ways)"


def test_a_search_says_what_was_asked_and_that_there_was_nothing_to_ask() -> None:
    run = {"model": "m", "title": "t", "state": "done", "done": 40, "total": 40, "seconds_left": None}
    ways = {"did": "asked to test what was found", "unit": "question", "none": "done, nothing was found"}
    assert compute(RUN, [run, ways]) == "m on t: 40 questions asked to test what was found"
    assert compute(RUN, [{**run, "total": 0}, ways]) == "m on t: done, nothing was found"
    assert compute(RUN, [{**run, "state": "running", "done": 3}, ways]) == "m on t: 3 of 40 questions"
    assert compute(RUN, [{**run, "total": 0}, {"did": "collected", "unit": "input"}]) == "m on t: 0 inputs collected"
