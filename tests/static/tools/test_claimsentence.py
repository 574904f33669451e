"""The words of a claim on a plate."""

from __future__ import annotations

from typing import Any

from tests.support.node import compute

WORDS = "async ([found, parts]) => (await script('tools/claimsentence.js')).claimInWords(found, parts)"
WHOLE = "Replacing these 2 patches by any of the five fillings lowers the probability of zebra by at least 0.31."


def words(parts: list[str] | None = None, **changed: Any) -> Any:
    found = {"holds": True, "hidden": [[4], [9]], "fall": 0.3199, "error": 0.05, "share_beaten": 0.95, "why": "", "sentence": WHOLE}
    return compute(WORDS, [{**found, **changed}, parts or ["patch", "patches"]])


def test_the_result_is_first_and_the_bound_is_rounded_down() -> None:
    assert words() == {
        "says": "Replace these 2 patches, and the probability falls by 0.31 or more.",
        "more": "2 patches drawn at random do less in at least 95\u00a0% of draws. Error: at most 5\u00a0%.",
        "whole": WHOLE,
    }


def test_error_and_share_are_those_of_the_claim() -> None:
    assert (
        words(error=0.001, share_beaten=0.99)["more"]
        == "2 patches drawn at random do less in at least 99\u00a0% of draws. Error: at most 0.1\u00a0%."
    )


def test_why_there_is_none_is_said_alone() -> None:
    why = "Of 6 words a random order finds the best too easily."
    none = words(["word", "words"], holds=False, hidden=[], fall=None, why=why, sentence="Something else.")
    assert none == {"says": "No such claim.", "more": why, "whole": ""}
