"""Sentences made by rules: the verb agrees with the word that is marked, and with no other."""

from __future__ import annotations

import numpy as np
import pytest

from explainers.embedded.synthetic.subject_verb import MASK, MAX_NOUNS_BETWEEN, sentence, vocabulary, words

LISTS = words()
NUMBER = {word: number for name in ("nouns", "people") for pair in LISTS[name] for number, word in enumerate(pair)}
FORM = {form: number for pair in LISTS["complements"] for number, form in enumerate(pair.split("/"))}


@pytest.mark.parametrize("between", range(MAX_NOUNS_BETWEEN + 1))
def test_the_verb_has_the_number_of_the_marked_word(between: int) -> None:
    for seed in range(60):
        made = sentence(np.random.default_rng(seed), between)
        subject = made.text[slice(*made.span)]
        assert subject == made.before[made.subject]
        assert NUMBER[subject] == FORM[made.verb] != FORM[made.wrong]
        nouns = [word for word in made.before[made.subject + 1 :] if word in NUMBER]
        assert len(nouns) == between
        assert made.attractors == sum(NUMBER[noun] != NUMBER[subject] for noun in nouns)
        assert made.text.split().count(MASK) == 1
        assert {*made.before, *made.after, made.verb, made.wrong} <= set(vocabulary())


def test_words_before_the_subject_are_no_subject() -> None:
    """What opens a sentence has a noun too, behind a preposition."""
    opened = [made for seed in range(60) if (made := sentence(np.random.default_rng(seed))).before[0] != "the"]
    assert len(opened) > 5
    assert all(any(word in NUMBER for word in made.before[: made.subject]) for made in opened)
