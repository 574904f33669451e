"""The texts that are written into the field of the Collection page."""

from __future__ import annotations

from tests.support.node import compute

WRITTEN = "async ([name, text]) => (await script('pages/measuring/writtentexts.js'))[name](text)"


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
