"""What the line under the model of a page says."""

from __future__ import annotations

import pytest

from tests.support.node import compute

LINE = "async (given) => (await script('choice/modelchoice.js')).modelLine(...given)"
MANY = [str(number) for number in range(1000)]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ([["negative", "positive"], False, "a text"], "It reads a text and answers “negative” or “positive”."),
        ([MANY, False, "a photo"], "It reads a photo and knows 1,000 things."),
        ([[], True, "a picture and a few English words"], "It reads a picture and a few English words and looks for what you write."),
        ([[], False, "a text"], "It reads a text and has its own classes or values for each place."),
        ([MANY, False, "a picture", "The model of this sample"], "The model of this sample: it knows 1,000 things."),
        ([["no", "yes"], False, "a text", "You chose this model"], "You chose this model: it answers “no” or “yes”."),
    ],
)
def test_it_is_a_whole_sentence(given: list[object], says: str) -> None:
    assert compute(LINE, given) == says


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("Loading my-t5", "Loading my-t5"),
        ("my-t5 is moved to the device", "my-t5 is moved to the device"),
        ("12 of 346 MB", "Loading my-t5: 12 of 346 MB"),
    ],
)
def test_a_model_on_its_way_is_named_once(text: str, says: str) -> None:
    assert compute("async (given) => (await script('choice/modelchoice.js')).loadingLine(...given)", ["/models/my-t5", text]) == says
