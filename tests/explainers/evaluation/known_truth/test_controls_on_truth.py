"""Where metrics put controls in a made-up world: the truth itself, its reverse, the same for every map, and one that likes edges."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from explainers.evaluation.known_truth.controls_on_truth import WorldControls, side_of, sum_of_worlds
from explainers.evaluation.statistics import Numbers, weights_of

METHODS = ("good", "as_good", "fair", "random")
CONTROLS = ("truth", "truth_half", "truth_doubled", "truth_inverted", "edges")
#: By truth; "good" and "as_good" cannot be told from the truth.
TRUTHS = (1.0, 1.0, 0.6, 0.2, 1.0, 0.65, 0.7, 0.1, 0.3)
INPUTS = 40


def values(of: Numbers, weights: Numbers) -> Numbers:
    """The mean (draws, M + K) over inputs so often drawn."""
    mean: Numbers = weights @ of / weights.sum(1, keepdims=True)
    return mean


@pytest.fixture(scope="module")
def truth() -> Numbers:
    draw = np.random.default_rng(0)
    noise = draw.normal(0, 0.05, (INPUTS, len(TRUTHS)))
    noise[:, [0, 1, 4]] = 0
    return np.array(TRUTHS) + noise


@pytest.fixture(scope="module")
def controls(truth: Numbers) -> WorldControls:
    has_map = np.ones((INPUTS, len(CONTROLS)), bool)
    has_map[30:, CONTROLS.index("truth_half")] = False  # ten inputs with a single true token
    return WorldControls(METHODS, CONTROLS, has_map, weights_of(INPUTS), partial(values, truth))


def test_the_truth_puts_every_control_where_it_belongs(controls: WorldControls, truth: Numbers) -> None:
    found = controls.by_metric(partial(values, truth))
    assert found is not None
    assert found["places"]["truth"] == {"right": 2, "of": 2, "place": 1}  # the good ones are not less true
    assert found["places"]["truth_inverted"] == {"right": 4, "of": 4, "place": 5}
    assert found["places"]["edges"] == {"right": 4, "of": 4, "place": 4}
    assert (found["random"], found["inverted"]) == ("above", "above")
    assert (found["pairs"], found["pairs_right"]) == (5, 5)
    by_truth = {control["name"]: control for control in controls.by_truth()}
    assert [by_truth[name]["place"] for name in CONTROLS] == [1, 3, 3, 5, 4]
    assert by_truth["truth_half"]["value"] == pytest.approx(truth[:30, 5].mean())


def test_the_reverse_puts_none_so(controls: WorldControls, truth: Numbers) -> None:
    found = controls.by_metric(partial(values, -truth))
    assert found is not None
    assert {place["right"] for place in found["places"].values()} == {0}
    assert (found["places"]["truth"]["place"], found["places"]["truth_inverted"]["place"]) == (3, 1)
    assert (found["random"], found["inverted"], found["pairs_right"]) == ("below", "below", 0)
    total = sum_of_worlds({"one": found, "two": None}, {"one", "two"})
    assert total is not None
    assert (total["below_random"], total["below_inverted"], total["like_random"], total["worlds"]) == (["one"], ["one"], [], 1)
    assert (total["first"], total["controls"]["truth"]) == (False, {"right": 0, "of": 2})


def test_a_metric_that_says_the_same_of_every_map_puts_none_right(controls: WorldControls) -> None:
    found = controls.by_metric(partial(values, np.full((INPUTS, len(TRUTHS)), 0.5)))
    assert found is not None
    assert {place["right"] for place in found["places"].values()} == {0}
    assert (found["random"], found["inverted"], found["pairs_right"]) == ("alike", "alike", 0)
    total = sum_of_worlds({"one": found}, {"one"})
    assert total is not None
    assert (total["below_random"], total["like_random"], total["like_inverted"]) == ([], ["one"], ["one"])


def test_a_metric_that_likes_edges_is_seen(controls: WorldControls, truth: Numbers) -> None:
    liked = truth.copy()
    liked[:, 8] = 0.9
    found = controls.by_metric(partial(values, liked))
    assert found is not None
    assert found["places"]["edges"] == {"right": 3, "of": 4, "place": 3}  # above the fair method
    assert found["places"]["truth"]["place"] == 1


def test_methods_and_controls_without_a_value_are_not_compared(controls: WorldControls, truth: Numbers) -> None:
    lacking = truth.copy()
    lacking[:, 2] = np.nan
    found = controls.by_metric(partial(values, lacking))
    assert found is not None
    assert found["places"]["truth"]["of"] == 1
    lacking[:, 4] = np.nan
    assert controls.by_metric(partial(values, lacking)) is None
    assert sum_of_worlds({"one": None}, {"one"}) is None


def test_places_count_where_answers_come_from_what_is_marked_alone(controls: WorldControls, truth: Numbers) -> None:
    """Elsewhere a method may know better than the marks; but there too the truth lies above random numbers and its inverse."""
    right, wrong = (controls.by_metric(partial(values, sign * truth)) for sign in (1, -1))
    total = sum_of_worlds({"alone": right, "outlines": wrong}, {"alone"})
    assert total is not None
    assert (total["first"], total["controls"]["truth"], total["below_random"]) == (True, {"right": 2, "of": 2}, ["outlines"])
    outlines = sum_of_worlds({"outlines": right}, {"alone"})
    assert outlines is not None
    assert (outlines["first"], outlines["controls"]) == (None, {})


def test_a_side_is_that_of_the_interval() -> None:
    draws = np.linspace(-0.02, 1, 100)
    assert side_of(draws) == "above"  # 2 of 100 lie below
    assert side_of(-draws) == "below"
    assert side_of(draws - 0.5) == "alike"
    assert side_of(np.full(3, np.nan)) is None
