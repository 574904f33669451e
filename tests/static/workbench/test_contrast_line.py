"""What the sentence over the plates says of the class that the answer is set against."""

from __future__ import annotations

from tests.static.workbench.test_overview import say

TOP = [{"label": label, "probability": share} for label, share in (("cat", 0.5), ("dog", 0.2), ("cow", 0.1))]


def test_the_class_that_the_answer_is_set_against_is_said_with_its_share() -> None:
    def said(against: str) -> str:
        return say({"top": TOP, "output": "softmax", "targets": [{"label": "x", "of": "cat", "against": against, "logit": 1}]})

    assert said("gorilla").endswith("“gorilla” has less than 10.0\u2009%.")
    assert said("cow").endswith("“cow” has 10.0\u2009%.")
    assert said("dog").endswith("next comes “dog” with 20.0\u2009%.")  # it is said already
