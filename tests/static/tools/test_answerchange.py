"""What the table of words says of the word on top."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.node import compute

LINE = "async ([was, is]) => (await script('tools/answerchange.js')).removalLine('good', was, is)"
NEEDED = "Without “good”, the word on top, the answer goes from "
FREE = "The answer does not need “good”, the word on top: without it, it "


@pytest.mark.parametrize(
    ("was", "without", "says"),
    [
        ({"probability": 0.97, "logit": 3}, {"probability": 0.42, "logit": -1}, f"{NEEDED}97.0\u2009% to 42.0\u2009%."),
        ({"probability": 0.42, "logit": -1}, {"probability": 0.97, "logit": 3}, f"{NEEDED}42.0\u2009% to 97.0\u2009%."),
        ({"probability": 0.97, "logit": 3}, {"probability": 0.97, "logit": 3}, f"{FREE}does not change (97.0\u2009%)."),
        ({"probability": 0.97, "logit": 3}, {"probability": 0.9698, "logit": 2.9}, f"{FREE}hardly changes (97.0\u2009%)."),
        ({"logit": 2.5}, {"logit": 1.25}, f"{NEEDED}2.50 to 1.25."),
        ({"logit": 2.5}, {"logit": 2.5}, f"{FREE}does not change (2.50)."),
    ],
)
def test_a_word_on_top_that_the_answer_does_not_need_is_said_to_be_one(was: Any, without: Any, says: str) -> None:
    assert compute(LINE, [was, without]) == says
