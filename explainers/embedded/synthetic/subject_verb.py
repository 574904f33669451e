"""English sentences made by rules in which one word alone decides the number of a masked verb: its subject.

"the keys to the old cabinet [MASK] on the table": *are*, for it is *keys*; *cabinet* is an attractor, a noun of the other number between
subject and verb. Every determiner is *the*, and the verb of a relative clause agrees with a subject of its own, so that nothing else in the
sentence tells the number. The words are in ``subject_verb.toml``.

After Linzen, Dupoux and Goldberg, "Assessing the Ability of LSTMs to Learn Syntax-Sensitive Dependencies", TACL 2016, who count attractors.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

MASK = "[MASK]"
MAX_NOUNS_BETWEEN = 2  # most nouns between subject and verb
ATTRACTOR_SHARE = 0.65  # share of these nouns whose number is not the subject's
ADJECTIVE_SHARE = 0.4  # share of the nouns that have an adjective
OPENING_SHARE = 0.25  # share of the sentences that have an opening
RELATIVE_CLAUSE_SHARE = 0.35  # share of the nouns between that stand in a relative clause


@cache
def words() -> dict[str, Any]:
    """Return the lists of words in ``subject_verb.toml``, by name."""
    return tomllib.loads(resources.files("explainers.embedded").joinpath("synthetic/subject_verb.toml").read_text("utf-8"))


@cache
def vocabulary() -> tuple[str, ...]:
    """Return every word that sentences are made of, in alphabetical order."""
    lists = words()
    pairs = [word for name in ("nouns", "people", "verbs") for pair in lists[name] for word in pair]
    complements = [phrase for each in lists["complements"].values() for phrase in each]
    phrases = [*lists["adjectives"], *lists["prepositions"], *lists["openings"], *complements]
    forms = [form for pair in lists["complements"] for form in pair.split("/")]
    return tuple(sorted({"the", "that", ".", *pairs, *forms, *(word for phrase in phrases for word in phrase.split())}))


@dataclass(frozen=True)
class Sentence:
    """A sentence with a masked verb, and the truth about it.

    before       words before the mask
    after        words after it
    subject      index of the subject among the words before the mask
    verb, wrong  the form of the verb that agrees with the subject, and the other form
    attractors   number of nouns between subject and verb that have the other number
    """

    before: tuple[str, ...]
    after: tuple[str, ...]
    subject: int
    verb: str
    wrong: str
    attractors: int

    @property
    def text(self) -> str:
        """The sentence as a model reads it, with ``[MASK]`` in place of the verb."""
        return " ".join([*self.before, MASK, *self.after])

    @property
    def span(self) -> tuple[int, int]:
        """The first character of the subject in the text, and the one after its last."""
        start = sum(len(word) + 1 for word in self.before[: self.subject])
        return start, start + len(self.before[self.subject])


def _choose(rng: np.random.Generator, of: list[Any]) -> Any:
    return of[int(rng.integers(len(of)))]


def _noun_phrase(rng: np.random.Generator, number: int, kinds: tuple[str, ...] = ("nouns", "people")) -> list[str]:
    """Return the words of a random noun phrase with a noun of one of ``kinds``, in the ``number`` 0 (singular) or 1 (plural), drawn by
    ``rng``: "the", sometimes an adjective, and the noun.
    """
    noun = _choose(rng, words()[_choose(rng, list(kinds))])[number]
    return ["the", *([_choose(rng, words()["adjectives"])] if rng.random() < ADJECTIVE_SHARE else []), noun]


def sentence(rng: np.random.Generator, between: int | None = None) -> Sentence:
    """Draw a random sentence by ``rng`` with ``between`` nouns between subject and verb; None: any number of them up to
    `MAX_NOUNS_BETWEEN`.
    """
    number = int(rng.integers(2))
    before: list[str] = []
    if rng.random() < OPENING_SHARE:
        before += [*_choose(rng, words()["openings"]).split(), *_noun_phrase(rng, int(rng.integers(2)))]
    before += _noun_phrase(rng, number)
    subject, attractors = len(before) - 1, 0
    for _ in range(int(rng.integers(MAX_NOUNS_BETWEEN + 1)) if between is None else between):
        other = 1 - number if rng.random() < ATTRACTOR_SHARE else number
        attractors += other != number
        if rng.random() < RELATIVE_CLAUSE_SHARE:
            before += ["that", *_noun_phrase(rng, other, ("people",)), _choose(rng, words()["verbs"])[other]]
        else:
            before += [_choose(rng, words()["prepositions"]), *_noun_phrase(rng, other)]
    pair = _choose(rng, list(words()["complements"]))
    after = [*_choose(rng, words()["complements"][pair]).split(), "."]
    forms = pair.split("/")
    return Sentence(tuple(before), tuple(after), subject, forms[number], forms[1 - number], attractors)
