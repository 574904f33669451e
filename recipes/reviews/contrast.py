"""Sentences made by rules for ``reviews-bert``: what turns an opinion round, what is none, and what must not count.

* `opinion`: a construction with an adjective, a verb or a noun of a known side, and the side that the whole sentence is on. The same words
  stand on both sides: "not good" and "not bad", "I was never annoyed" and "I have never been so annoyed".
* `neutral`: everyday sentences, facts about films and dictionary definitions, which hold no opinion (label 0.5).
* `swaps`: copies of a sentence that differ in a name or in who people are, which must be answered alike.
* `disturbed`: a phrase with typing mistakes or next to a sentence that is not about the film.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from recipes.reviews.data import Review

NEUTRAL = 0.5

SOURCE: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
HELD_BACK = frozenset(SOURCE["held_back"])
WORDS: dict[str, list[str]] = SOURCE["words"]
# The letter of each blank that any word of a list may fill, and the name of the list.
LISTS = {
    "U": "dull_things", "T": "things", "W": "works", "H": "people", "E": "everyday_people", "O": "objects", "D": "days", "J": "jobs",
    "N": "numbers", "P": "places", "K": "kinds_of_work", "R": "about", "G": "groups", "M": "how_many", "C": "parts",
}  # fmt: skip
FACTS_ABOUT_PEOPLE = [fact for name in ("facts", "film_facts") for fact in SOURCE["neutral"][name] if "{E}" in fact]

_BLANK = re.compile(r"\{(\w)2?\}")
Choose = Callable[[Sequence[str]], str]


@dataclass(frozen=True)
class Contrast:
    """A source of short sentences; every method draws from the ``rng`` it is given.

    phrases     SST-2's, not too long
    adjectives  good ones and bad ones
    facts       definitions of things
    sayings     sentences that say "not", with their labels
    """

    phrases: Sequence[Review]
    adjectives: tuple[Sequence[str], Sequence[str]]
    facts: Sequence[str]
    sayings: Sequence[Review]

    def saying(self, rng: np.random.Generator) -> Review:
        """Draw a sentence with "not" from a review, with its label, by ``rng``."""
        return self.sayings[int(rng.integers(len(self.sayings)))]

    def opinion(self, rng: np.random.Generator) -> Review:
        """Make a random sentence, drawn from ``rng``, that is for or against something, with its label 1 or 0."""
        good, kind = bool(rng.integers(2)), rng.random()
        if kind < 0.35:
            line, label = _chooser(rng)(SOURCE["opinions"]["set_good" if good else "set_bad"]), good
            good = True  # the adjectives in them are good ones
        else:
            turned = kind < 0.7
            line, label = _chooser(rng)(SOURCE["opinions"]["turned" if turned else "same"]), good != turned
        return Review(_end_sentence(self._fill(line, rng, good), rng), float(label))

    def neutral(self, rng: np.random.Generator) -> Review:
        """Make a random sentence without an opinion, drawn from ``rng``, with the label `NEUTRAL`."""
        choose, kind = _chooser(rng), rng.random()
        if kind < 0.5:
            return Review(_end_sentence(choose(self.facts), rng), NEUTRAL)
        return Review(self._fill(choose(SOURCE["neutral"]["facts" if kind < 0.75 else "film_facts"]), rng), NEUTRAL)

    def disturbed(self, rng: np.random.Generator) -> Review:
        """Draw a phrase of SST-2 from ``rng`` and give it typing mistakes, or a sentence about something else before or after it; return it
        with its label.
        """
        review, kind = self._phrase(rng), rng.random()
        if kind < 0.4:
            return Review(misspell(review.text, rng), review.label)
        aside = _chooser(rng)(SOURCE["aside"]["sentences"])
        return Review(f"{aside} {review.text}" if kind < 0.55 else f"{review.text} {aside}", review.label)

    def swaps(self, rng: np.random.Generator, copies: int) -> list[Review]:
        """Make one sentence ``copies`` times with different people in it, all with one label, drawn from ``rng``."""
        good, kind = bool(rng.integers(2)), rng.random()
        if kind < 0.3:
            review = self._phrase(rng)
            line, label = (
                _chooser(rng)(SOURCE["people"]["around"]).replace("{S}", review.text.replace("{", "(").replace("}", ")")),
                review.label,
            )
        elif kind < 0.6:
            line, label = _chooser(rng)(SOURCE["people"]["lines"]), NEUTRAL
        elif kind < 0.7:
            who = _chooser(rng)(SOURCE["people"]["in_facts"])
            line, label = _chooser(rng)(FACTS_ABOUT_PEOPLE).replace("{E}", who), NEUTRAL
        else:
            line = _chooser(rng)(SOURCE["people"]["sentences"])
            label = float(good) if "{A}" in line else NEUTRAL
        shared = self._fill(line, rng, good, left="IHX")
        return [Review(self._fill(shared, rng), label) for _ in range(copies)]

    def _phrase(self, rng: np.random.Generator) -> Review:
        return self.phrases[int(rng.integers(len(self.phrases)))]

    def _fill(self, line: str, rng: np.random.Generator, good: bool = True, left: str = "") -> str:
        """Return ``line`` with every blank, such as {A}, filled with a random word of its kind, drawn by ``rng``, favourable if ``good``;
        blanks named in ``left`` stay. The first {I}, {H} or {X} may get a word that does not exist.
        """
        choose = _chooser(rng)
        side, other = self.adjectives if good else reversed(self.adjectives)
        kinds: dict[str, Callable[[], str]] = {
            "A": lambda: choose(side),
            "B": lambda: choose(other),
            "F": lambda: choose(WORDS["good_feelings"] if good else WORDS["bad_feelings"]),
            "V": lambda: choose(WORDS["please"] if good else WORDS["annoy"]),
            "Q": lambda: choose(WORDS["qualities"] if good else WORDS["faults"]),
            "L": lambda: choose(WORDS["like"] if good else WORDS["hate"]),
            "I": lambda: choose(WORDS["identities"]) if rng.random() < 0.75 else nonce(rng) + choose(("ish", "ian", "i", "ese")),
            "X": lambda: name(rng),
        }

        def filled(blank: str) -> str:
            return kinds[blank]() if blank in kinds else choose(WORDS[LISTS[blank]])

        text = _BLANK.sub(lambda match: match[0] if match[1] in left else filled(match[1]), line)
        text = re.sub(r"\b([Aa]) (?=[aeiouAEIOU])", r"\1n ", text)
        return text if left else text[:1].upper() + text[1:] if text.endswith(".") else text


def name(rng: np.random.Generator) -> str:
    """Return a random first name, drawn from ``rng``, often with a last name, sometimes a made-up one."""
    choose = _chooser(rng)
    first = choose(WORDS["first_names"]) if rng.random() < 0.7 else nonce(rng)
    if rng.random() < 0.5:
        return first
    return f"{first} {choose(WORDS['last_names']) if rng.random() < 0.8 else nonce(rng)}"


def nonce(rng: np.random.Generator) -> str:
    """Return a made-up word, drawn from ``rng``, with a capital letter, so that the letters of a word carry no information either."""
    choose = _chooser(rng)
    parts = [choose(WORDS[part]) for part in (*("onsets", "vowels") * int(rng.integers(2, 4)), "codas")]
    return "".join(parts).capitalize()


def misspell(text: str, rng: np.random.Generator) -> str:
    """Return ``text`` with about one word in six, drawn by ``rng``, mistyped: two letters swapped, one lost or one doubled."""
    words = []
    for word in text.split():
        if len(word) > 3 and rng.random() < 1 / 6:
            at, kind = int(rng.integers(1, len(word) - 1)), int(rng.integers(3))
            middle = (word[at + 1] + word[at], word[at + 1], word[at] * 2 + word[at + 1])[kind]
            words.append(word[:at] + middle + word[at + 2 :])
        else:
            words.append(word)
    return " ".join(words)


def _chooser(rng: np.random.Generator) -> Choose:
    return lambda options: options[int(rng.integers(len(options)))]


def _end_sentence(text: str, rng: np.random.Generator) -> str:
    """Return the sentence ``text`` ended as people do, by ``rng``: with a full stop, an exclamation mark or nothing."""
    if text[-1] in ".?!":
        return text
    return text + str(rng.choice([".", ".", "", "!"], p=[0.4, 0.2, 0.3, 0.1]))
