"""Suspicion by its five readings, each worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from explainers.collection.suspicion import FLAGS, Readings

NAN = math.nan


def readings(**columns: float) -> Readings:
    """Readings of one row: a right and sure answer, a map on the object and at no common place, methods that agree, a fall."""
    usual = {
        "right": 1.0,
        "probability": 0.9,
        "agreement": 1.0,
        "on_object": 1.0,
        "object_area": 0.25,
        "on_border": 0.25,
        "border_area": 0.25,
        "falls": 1.0,
        "without": 0.0,
        "shared_place": 0.0,
    }
    return Readings(**{name: np.array([value]) for name, value in {**usual, **columns}.items()})


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({}, 0.0),
        ({"right": 0.0}, 0.9 / 5),  # wrong, with a probability of 0.9
        ({"on_object": 0.05}, 0.8 / 5),  # a fifth of what chance has there
        ({"shared_place": 0.4}, 0.4 / 5),
        ({"agreement": -1.0}, 1 / 5),
        ({"agreement": 0.0}, 0.5 / 5),
        ({"falls": 0.0, "without": 0.45}, 0.5 / 5),  # half of the probability is left
        ({"falls": 0.0, "without": 0.99}, 1 / 5),  # more than all of it counts as all
        (
            {"on_object": NAN, "object_area": NAN, "on_border": 0.5},
            (0.25 / 0.75) / 5,
        ),  # no object: a third of what it could exceed chance by
        ({"right": NAN, "on_object": NAN, "object_area": NAN, "on_border": NAN, "agreement": 0.5}, 0.25 / 3),  # three are known
    ],
)
def test_suspicion_is_the_mean_of_what_is_known(columns: dict[str, float], expected: float) -> None:
    assert readings(**columns).suspicion()[0] == pytest.approx(expected)


def test_nothing_known_is_no_suspicion() -> None:
    unknown = dict.fromkeys(
        ("right", "agreement", "on_object", "object_area", "on_border", "border_area", "falls", "without", "shared_place"), NAN
    )
    assert readings(**unknown).suspicion()[0] == 0
    assert not any(has[0] for has in readings(**unknown).flags().values())


@pytest.mark.parametrize(
    ("columns", "flag"),
    [
        ({"right": 0.0, "probability": 0.5}, "wrong"),
        ({"shared_place": 0.34}, "shared_place"),
        ({"on_object": 0.24}, "off_object"),
        ({"on_border": 0.51}, "on_border"),  # a third of the way from 0.25 to 1 is 0.5
        ({"agreement": 0.19}, "disagree"),
        ({"falls": 0.0, "without": 0.82}, "stays"),
    ],
)
def test_each_flag_has_a_limit(columns: dict[str, float], flag: str) -> None:
    assert [name for name, has in readings(**columns).flags().items() if has[0]] == [flag]


@pytest.mark.parametrize(
    "columns",
    [
        {"right": 0.0, "probability": 0.49},
        {"shared_place": 0.33},
        {"on_object": 0.25},
        {"on_border": 0.49},
        {"agreement": 0.2},
        {"falls": 0.0, "without": 0.8},
    ],
)
def test_on_the_other_side_of_the_limit_there_is_no_flag(columns: dict[str, float]) -> None:
    assert not any(has[0] for has in readings(**columns).flags().values())


def test_a_wrong_value_without_probability_counts_whole() -> None:
    assert readings(right=0.0, probability=NAN, falls=NAN, without=NAN).suspicion()[0] == pytest.approx(1 / 4)
    assert readings(right=0.0, probability=NAN).flags()["wrong"][0]


def test_every_flag_has_its_words() -> None:
    assert set(readings().flags()) == set(FLAGS)


def test_a_right_row_with_other_signs_comes_before_a_wrong_one_as_the_sentence_says() -> None:
    right = readings(agreement=-1.0, falls=0.0, without=0.9).suspicion()[0]
    assert right > readings(right=0.0).suspicion()[0]
    assert readings().in_words().endswith("A right row with other signs can come before a wrong one.")


def test_the_sentence_and_the_flags_name_only_what_is_known() -> None:
    pictures = readings()
    assert "five" not in pictures.in_words()
    assert "the first map off the object, methods that disagree" in pictures.in_words()
    assert pictures.known_flags() == set(FLAGS)
    unmarked = readings(on_object=NAN, object_area=NAN)
    assert "the first map at the border, methods" in unmarked.in_words()
    assert unmarked.known_flags() == set(FLAGS) - {"off_object"}
    texts = readings(**dict.fromkeys(("right", "on_object", "object_area", "on_border", "border_area", "shared_place"), NAN))
    assert texts.in_words() == (
        "Most suspicious first, by the mean of these signs: methods that disagree, a map whose top parts the answer does not need."
    )
    assert texts.known_flags() == {"disagree", "stays"}


def test_without_any_sign_there_is_no_sentence_and_one_sign_has_no_mean() -> None:
    unknown = dict.fromkeys(
        ("right", "agreement", "on_object", "object_area", "on_border", "border_area", "falls", "without", "shared_place"), NAN
    )
    assert readings(**unknown).in_words() == ""
    assert readings(**{**unknown, "agreement": 0.5}).in_words() == "Most suspicious first, by this sign: methods that disagree."
