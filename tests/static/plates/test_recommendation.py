"""Which plate comes first and why, and what its map cannot say."""

from __future__ import annotations

from typing import Any

from tests.support.node import compute

METRIC = {"title": "Symmetric relevance gain", "unit": "share", "direction": "higher", "says": "it changes {value} of it, random {random}"}
STANDING = {
    "model": "photos-vit",
    "measured": "60 pictures of COCO",
    "metric": METRIC,
    "random": 0.03,
    "here": True,
    "value": 0.566,
    "of": 30,
}
ADVICE = "async (first) => (await script('plates/recommendation.js')).recommendation(first)"


def variant(rank: int | None, family: str = "gradients", **more: Any) -> dict[str, Any]:
    is_best = rank == 1
    standing = (
        None if rank is None else {**STANDING, "rank": rank, "tied": is_best, "ties": 1, "recommended": is_best, **more.pop("standing", {})}
    )
    spec = f"{family}{rank}"
    return {
        "spec": spec,
        "title": "A",
        "family": family,
        "class_specific": True,
        "signed": True,
        "adds_up_to": None,
        "standing": standing,
    } | more


def test_the_recommendation_says_on_what_by_how_much_and_what_the_map_cannot_say() -> None:
    said = compute(ADVICE, [variant(1), variant(5)])
    assert said["title"] == "Why A comes first."
    assert said["says"] == (
        "It is the best of 30 methods. "
        "Measured with this model on 60 pictures of COCO: “Symmetric relevance gain” 56.6\u2009% (3.00\u2009% for a random map). "
        "A's map cannot say how much of the answer each part makes up: trust the order, not the sizes."
    )
    blind = compute(ADVICE, [variant(1, class_specific=False, signed=False, adds_up_to="the logit")])["says"]
    assert blind.endswith("A's map cannot say why this answer and not another, nor what speaks against the answer.")
    for part in ("the explained number, but for what the biases add", "the explained number less that of the empty input"):
        unfinished = compute(ADVICE, [variant(1, adds_up_to=part)])["says"]
        assert unfinished.endswith("trust the order, not the sizes.")
    second = {"second": {"title": "Segmentation AP", "unit": "share"}, "second_value": 0.418, "random_second": 0.227}
    tied = compute(ADVICE, [variant(1, standing={"ties": 5, **second})])["says"]
    assert "“Segmentation AP” 41.8\u2009% (22.7\u2009% for a random map)." in tied
    assert tied.startswith("5 of 30 methods tie for first; this one has the highest “Symmetric relevance gain”.")
    later = compute(ADVICE, [variant(4, standing={"ties": 5, "tied": True, "recommended": True})])["says"]
    assert later.startswith("5 of 30 methods tie for first; this one is among them.")


def over(first: list[dict[str, Any]], rather: bool = False) -> Any:
    return compute("async ([first, rather]) => (await script('plates/recommendation.js')).lead(first, rather)", [first, rather])


def test_over_the_plates_stands_which_to_look_at_first_and_what_was_measured_of_it() -> None:
    assert over([variant(1, standing={"inputs": "60 pictures"}), variant(5)]) == {
        "title": "Look at A first.",
        "says": "On 60 pictures, it changes 56.6 of it, random 3.00. It is the best of 30 methods.",
    }
    tied = over([variant(1, standing={"inputs": "60 pictures", "ties": 5})])["says"]
    assert tied == "On 60 pictures, it changes 56.6 of it, random 3.00. 4 other methods may be as good."
    for none in ([variant(None)], [variant(7)]):
        assert over(none) is None


def test_over_the_plates_stands_why_they_are_in_this_order() -> None:
    best = variant(1, standing={"inputs": "60 pictures"})
    assert over([best, variant(5, "attention")])["says"].endswith("30 methods. Of each family of methods, the best comes first.")
    assert over([best, variant(5)], rather=True)["says"].endswith("30 methods. Maps that show for and against come first.")
    assert over([variant(7), variant(5)], rather=True) == {"title": "Maps that show for and against come first.", "says": ""}
    blind = variant(1, signed=False, standing={"inputs": "60 pictures"})
    assert "for and against" not in over([blind, variant(5)], rather=True)["says"]
    assert over([variant(1, standing={"here": False, "inputs": "60 pictures"})]) == {
        "title": "Not measured with this model.",
        "says": "The order is that of photos-vit, on 60 pictures.",
    }


DOUBTED = """async ([first, doubtful]) => {
  const { lead, recommendation, recommendedOf } = await script('plates/recommendation.js');
  const doubts = new Set(doubtful);
  return [lead(first, false, doubts), recommendation(first, doubts), recommendedOf(first, doubts)?.spec];
}"""


def test_a_map_in_doubt_is_not_recommended_and_is_named_at_once() -> None:
    ties = {"inputs": "60 pictures", "ties": 5, "tied": True, "recommended": True}
    first = [
        variant(1, "attention", title="A", standing=ties),
        variant(2, "gradients", title="B", standing={**ties, "value": 0.55}),
        variant(3, "cams", title="C", standing=ties),
        variant(9, "noise", title="D", standing={"inputs": "60 pictures", "ties": 5}),
    ]
    measured = "On 60 pictures, it changes {} of it, random 3.00. "
    order = " Of each family of methods, the best comes first."
    over, why, spec = compute(DOUBTED, [first, ["attention1"]])
    assert over["title"] == "Look at B first."
    assert over["says"] == (measured.format("55.0") + "Do not trust A here: “!” says why." + order)
    assert (why["title"], spec) == ("Why B is recommended.", "gradients2")
    assert why["says"].startswith("5 of 30 methods tie for first; this one is among them.")
    over, why, spec = compute(DOUBTED, [first, ["cams3", "noise9"]])  # a tie that is not the first is named as well
    assert over["title"] == "Look at A first."
    assert "Do not trust C here: “!” says why." in over["says"]
    assert (why["title"], spec) == ("Why A comes first.", "attention1")
    over, why, spec = compute(DOUBTED, [first, ["attention1", "gradients2", "cams3"]])
    says = "Do not trust A, B and C here: “!” says why."
    assert over == {"title": "No map is recommended here.", "says": says}
    assert (why, spec) == (None, None)


def test_a_method_that_ties_for_first_and_is_not_recommended_by_the_leaderboard_is_recommended_nowhere() -> None:
    """As one that random numbers may equal, or whose map depends on the other prompts."""
    ties = {"inputs": "60 pictures", "ties": 2, "tied": True}
    first = [
        variant(1, "cams", title="A", standing={**ties, "recommended": False}),
        variant(2, title="B", standing={**ties, "recommended": True}),
    ]
    assert compute(DOUBTED, [first[:1], []]) == [None, None, None]
    assert compute(DOUBTED, [first[1:], []])[2] == "gradients2"


def test_a_line_says_what_a_method_was_measured_to_be() -> None:
    line = "async (variant) => (await script('plates/recommendation.js')).measuredLine(variant)"
    said = "60 pictures of COCO: “Symmetric relevance gain” 56.6\u2009%, 3.00\u2009% for a random map."
    assert compute(line, variant(5)) == f"On {said}"
    assert compute(line, variant(5, standing={"here": False})) == f"With photos-vit, not this model, on {said}"
    assert compute(line, variant(None)) == ""


def test_a_model_that_was_not_measured_is_told_whose_order_it_has() -> None:
    said = compute(ADVICE, [variant(1, standing={"here": False})])
    assert said["title"] == "Not measured with this model."
    assert said["says"].startswith("The methods are in the order measured with photos-vit on 60 pictures of COCO")
    assert compute(ADVICE, [variant(None)]) is None
    assert compute(ADVICE, [variant(7)]) is None  # others were measured to be better: it is not recommended
