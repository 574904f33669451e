"""What the Collection page says of texts: those that are written into its field, and the words that answers rest on."""

from __future__ import annotations

from typing import Any

from tests.support.node import compute

WRITTEN = "async ([name, text]) => (await script('pages/measuring/writtentexts.js'))[name](text)"
FIRST = "async ([word, texts]) => (await script('collection/reliedwords.js')).firstInWords(word, texts)"
WORD = {
    "word": "superb",
    "texts": 9,
    "marked": 7,
    "answer": "positive",
    "answered": 7,
    "share": 0.3,
    "even": 0.1,
    "removed": 4,
    "changed": 3,
}


def test_each_line_that_says_something_is_a_text() -> None:
    assert compute(WRITTEN, ["linesOf", " A film.\r\n\n \tAnother one \rA third\n"]) == ["A film.", "Another one", "A third"]


def test_samples_are_sentences() -> None:
    text = 'It is "fine." He said: go! Mr. b is 3.5 m tall.\nIs it? “Yes.” (No.)'
    assert compute(WRITTEN, ["sentencesOf", text]) == [
        'It is "fine."',
        "He said: go!",
        "Mr. b is 3.5 m tall.",
        "Is it?",
        "“Yes.”",
        "(No.)",
    ]


def said(**changes: Any) -> Any:
    return compute(FIRST, [{**WORD, **changes}, 20])


def test_the_first_word_is_said_with_what_its_removal_did() -> None:
    start = "Over these 20 texts the model relies most on “superb”: it is among the most marked words in "
    assert said() == f"{start}7 of the 9 that contain it, each time for “positive”. Removed alone from 4 texts, it changed the answer in 3."
    assert said(answered=5, changed=0).endswith(", mostly for “positive”. Removed alone from 4 texts, it changed the answer in none.")
    assert said(texts=1, marked=1, answered=1, removed=0) == f"{start}the only one that contains it, for “positive”."


RUN = "async ([run, ways]) => (await script('pages/measuring/runlist.js')).runInWords(run, ways)"


def test_a_search_says_what_was_asked_and_that_there_was_nothing_to_ask() -> None:
    run = {"model": "m", "title": "t", "state": "done", "done": 40, "total": 40, "seconds_left": None}
    ways = {"did": "asked to test what was found", "unit": "question", "none": "done, nothing was found"}
    assert compute(RUN, [run, ways]) == "m on t: 40 questions asked to test what was found"
    assert compute(RUN, [{**run, "total": 0}, ways]) == "m on t: done, nothing was found"
    assert compute(RUN, [{**run, "state": "running", "done": 3}, ways]) == "m on t: 3 of 40 questions"
    assert compute(RUN, [{**run, "total": 0}, {"did": "collected", "unit": "input"}]) == "m on t: 0 inputs collected"
