"""Questions about scenes: their answers against scenes composed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from explainers.embedded.synthetic.scene_questions import (
    PHRASES,
    QUESTION_KINDS,
    Thing,
    absent_kind,
    ask,
    colours_of,
    place_of,
    split_words,
    things,
    vocabulary,
    with_article,
)
from explainers.embedded.synthetic.scenes import KINDS, Composition, Placement, draw

#: A green apple at the top right, an owl at the bottom left and a key just below the middle, on plain ground.
PLACEMENTS = (
    Placement("apple", "apple-2.png", (0.8, 0.2), 0.3),
    Placement("owl", "owl.png", (0.2, 0.8), 0.3),
    Placement("key", "key.png", (0.52, 0.7), 0.2),
)
SCENE = draw(Composition("paper", 1, PLACEMENTS, ((200, 200, 200), (200, 200, 200)), 0.0), 112)[0]


def test_things_stand_from_left_to_right_with_colour_and_place() -> None:
    found = things(SCENE)
    assert [(thing.kind, thing.colour) for thing in found] == [("owl", "brown"), ("key", "yellow"), ("apple", "green")]
    for thing, centre in zip(found, ((0.2, 0.8), (0.52, 0.7), (0.8, 0.2)), strict=True):
        assert thing.centre == pytest.approx(centre, abs=0.03)


@pytest.mark.parametrize(
    ("kind", "about", "text", "answer"),
    [
        ("what", "", "What is in the picture?", "an owl and a key and an apple"),
        ("count", "", "How many things are there?", "three"),
        ("whether", "owl", "Is there an owl?", "yes"),
        ("whether", "scissors", "Is there a pair of scissors?", "no"),
        ("colour", "apple", "What colour is the apple?", "green"),
        ("where", "apple", "Where is the apple?", "top right"),
        ("where", "owl", "Where is the owl?", "bottom left"),
        ("where", "zebra", "Where is the zebra?", "nowhere"),
    ],
)
def test_answers_are_what_one_sees(kind: str, about: str, text: str, answer: str) -> None:
    question = ask(kind, things(SCENE), about)  # type: ignore[arg-type]
    assert question == (text, answer, kind, about)


def test_questions_without_one_right_answer_are_not_asked() -> None:
    shown = things(SCENE)
    assert place_of(shown[1]) is None  # the key stands too near to the middle
    assert ask("where", shown, "key") is None
    assert ask("colour", shown, "zebra") is None
    assert ask("colour", [Thing("bus", "", (0.2, 0.2))], "bus") is None  # of many colours
    assert ask("what", []) == ("What is in the picture?", "nothing", "what", "")
    assert ask("count", []) == ("How many things are there?", "zero", "count", "")


def test_some_kinds_have_one_colour_and_some_several() -> None:
    assert colours_of("banana") == ("yellow",)
    assert colours_of("apple") == ("green", "red")
    assert colours_of("bus") == ()
    assert {kind for kind in KINDS if len(colours_of(kind)) > 1} == {"dog", "fish", "car", "apple", "cup", "book"}


def test_every_word_is_in_the_vocabulary() -> None:
    known = set(vocabulary())
    assert list(vocabulary()) == sorted(known)
    for kind in QUESTION_KINDS:
        for phrase in range(len(PHRASES[kind])):
            for about in KINDS:
                shown = [Thing(about, colour, (0.2, 0.2)) for colour in colours_of(about)[:1]]
                question = ask(kind, shown, about, phrase)
                assert question is None or known >= {*split_words(question.text), *split_words(question.answer)}
    assert split_words("Is there a soccer ball?") == ["is", "there", "a", "soccer", "ball", "?"]
    assert with_article("umbrella") == "an umbrella"


def test_a_thing_that_is_absent_is_absent() -> None:
    shown = [Thing(kind, "", (0.2, 0.2)) for kind in KINDS[1:]]
    assert absent_kind(shown, np.random.default_rng(0)) == KINDS[0]
