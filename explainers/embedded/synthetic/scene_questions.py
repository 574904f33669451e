"""Questions about scenes, with the answers that the renderer knows: what is there, whether a thing is, its colour, its place, how many.

Most kinds of things have one colour in all scenes, so that its name alone answers what colour a banana is; an apple is red or green, and
only the picture tells. Both are asked in the same words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Literal, NamedTuple

import numpy as np

from explainers.embedded.synthetic.scenes import KINDS, Scene
from explainers.embedded.synthetic.sprites import file_names, kinds

#: The kinds of questions.
QuestionKind = Literal["what", "whether", "colour", "where", "count"]
QUESTION_KINDS: tuple[QuestionKind, ...] = ("what", "whether", "colour", "where", "count")
#: The ways to ask each kind of question; the first is the usual one. ``{a}`` is the thing with its article, ``{it}`` the thing alone.
PHRASES: dict[QuestionKind, tuple[str, ...]] = {
    "what": ("What is in the picture?", "What do you see?", "What does the picture show?"),
    "whether": ("Is there {a}?", "Is there {a} in the picture?", "Do you see {a}?", "Does the picture show {a}?"),
    "colour": ("What colour is the {it}?", "What color is the {it}?", "Which colour is the {it}?", "What is the colour of the {it}?"),
    "where": ("Where is the {it}?", "Where in the picture is the {it}?"),
    "count": ("How many things are there?", "How many things are in the picture?"),
}
NUMBERS = ("zero", "one", "two", "three", "four")
NOTHING, NOWHERE = "nothing", "nowhere"  # the answers to "what" of an empty scene, and to "where" of a thing that is not there
ROWS, COLUMNS = ("top", "bottom"), ("left", "right")
MIN_OFFSET = 0.06  # least distance of a thing's centre from the middle, across and down, as a share of the side, for it to have a place
_NOUNS = {"scissors": "pair of scissors"}  # of kinds that are not named by their noun


class Thing(NamedTuple):
    """A thing in a scene: its ``kind``, the word for its ``colour`` (empty where no one word is right), and the ``centre`` (x, y) of its
    visible pixels, in shares of the side.
    """

    kind: str
    colour: str
    centre: tuple[float, float]


class Question(NamedTuple):
    """A question about a scene: its ``text``, the right ``answer``, which ``kind`` of question it is, and the kind of thing that it is
    ``about``, empty if it is about all.
    """

    text: str
    answer: str
    kind: QuestionKind
    about: str = ""


def things(scene: Scene) -> list[Thing]:
    """Return the things in ``scene``, from left to right by their centres."""
    shown = []
    for item, placement in zip(scene.objects, scene.composition.placements, strict=True):
        rows, columns = np.nonzero(item.mask)
        colour = kinds()[item.kind]["colour"][file_names(item.kind).index(placement.sprite)]
        centre = tuple(float(places.mean() + 0.5) / len(item.mask) for places in (columns, rows))
        shown.append(Thing(item.kind, colour, (centre[0], centre[1])))
    return sorted(shown, key=lambda thing: thing.centre[0])


@cache
def colours_of(kind: str) -> tuple[str, ...]:
    """Return the colours that things of this ``kind`` can have, in alphabetical order; none where no one word is right."""
    return tuple(sorted({colour for colour in kinds()[kind]["colour"] if colour}))


def noun(kind: str) -> str:
    """Return the words for a thing of this ``kind``, without an article."""
    return _NOUNS.get(kind, kind)


def with_article(kind: str) -> str:
    """Return the words for a thing of this ``kind`` with its indefinite article."""
    return f"{'an' if noun(kind)[0] in 'aeiou' else 'a'} {noun(kind)}"


def place_of(thing: Thing) -> str | None:
    """Return the place of ``thing``, such as "top left"; None if its centre is too near to the middle."""
    across, down = (value - 0.5 for value in thing.centre)
    if min(abs(across), abs(down)) < MIN_OFFSET:
        return None
    return f"{ROWS[down > 0]} {COLUMNS[across > 0]}"


def ask(kind: QuestionKind, shown: Sequence[Thing], about: str = "", phrase: int = 0) -> Question | None:
    """Return the question of this ``kind`` about things of the kind ``about`` (empty for "what" and "count") with its answer for a scene
    that shows the things ``shown``, in the words of ``PHRASES[kind][phrase]``; None if the scene has no right answer, as for the colour of
    a thing that is not there.
    """
    text = PHRASES[kind][phrase].format(a=with_article(about) if about else "", it=noun(about))
    thing = next((thing for thing in shown if thing.kind == about), None)
    answer: str | None
    if kind == "what":
        answer = " and ".join(with_article(each.kind) for each in shown) or NOTHING
    elif kind == "count":
        answer = NUMBERS[len(shown)]
    elif kind == "whether":
        answer = "no" if thing is None else "yes"
    elif kind == "where":
        answer = NOWHERE if thing is None else place_of(thing)
    else:
        answer = None if thing is None or not thing.colour else thing.colour
    return None if answer is None else Question(text, answer, kind, about)


def absent_kind(shown: Sequence[Thing], rng: np.random.Generator) -> str:
    """Return a random kind that is not among those of the things ``shown``."""
    present = {thing.kind for thing in shown}
    return str(rng.choice([kind for kind in KINDS if kind not in present]))


def split_words(text: str) -> list[str]:
    """Return the words and signs of ``text`` in small letters, as the tokenizer of these questions splits them."""
    return re.findall(r"\w+|[^\w\s]+", text.lower())


@cache
def vocabulary() -> tuple[str, ...]:
    """Return every word of the questions and their answers, in alphabetical order."""
    colours = [colour for row in kinds().values() for colour in row["colour"]]
    nouns = [with_article(kind) for kind in KINDS]
    phrases = [phrase.format(a="", it="") for each in PHRASES.values() for phrase in each]
    texts = [*phrases, *nouns, *colours, *NUMBERS, *ROWS, *COLUMNS, NOTHING, NOWHERE, "and", "yes", "no"]
    return tuple(sorted({word for text in texts for word in split_words(text)}))
