"""What ``reviews-bert`` learns from besides whole reviews, found in the data: adjectives of a known side, sentences that say "not",
definitions of things."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from recipes.reviews.contrast import HELD_BACK, WORDS
from recipes.reviews.data import Review, clean, letters, rows, sentences_of

WORDNET = Path("/usr/share/wordnet")  # where Debian's package wordnet-base puts it
# Lexicographer files whose definitions are matters of fact: animals, artefacts, bodies, food, places, objects, plants, substances
# (WordNet's lexnames(5)).
FACTUAL = frozenset({5, 6, 8, 13, 15, 17, 20, 27})
OWN_WORD_REPEATS = 10  # how often our own adjectives, which people use most, are repeated in the list
EXTREME_RATINGS = (1, 10)  # ratings whose reviews hardly ever say anything that speaks for the other side ...
SENTENCE_LABEL = 0.85  # ... but now and then they do
MIN_WORDS, MAX_WORDS = 4, 16  # words of a sentence that says "not"
NEGATION = re.compile(
    r"\b(not|no|never|nothing|nobody|none|neither|hardly|rarely|without|cannot|\w+n't|fails?|enough)\b|anything but|far from", re.I
)
VERDICT = re.compile(r"\b(movies?|films?|see|seen|watch\w*|recommend\w*|acting|cast|plot|story|script|scenes?|characters?|it)\b", re.I)


def _lines(folder: Path, name: str) -> list[str]:
    path = folder / name
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: install WordNet 3.0 (Debian's package wordnet-base), or give --wordnet FOLDER")
    return [line for line in path.read_text("utf-8").splitlines() if line[:1] != " "]  # the licence is indented


def definitions(folder: Path = WORDNET, held_out: bool = False) -> list[str]:
    """Return WordNet's definitions of things, read from ``folder``, without examples: every tenth if ``held_out``, else the others. Raises
    FileNotFoundError that says how to get it.
    """
    meanings = []
    for line in _lines(folder, "data.noun"):
        meaning = line.split(" | ", 1)[1].split(";")[0].strip()
        if int(line.split(" ", 2)[1]) in FACTUAL and '"' not in meaning and 4 <= len(meaning.split()) <= 20:
            meanings.append(meaning)
    return [meaning for number, meaning in enumerate(meanings) if (number % 10 == 0) == held_out]


def adjectives(phrases: Iterable[Review], folder: Path = WORDNET) -> tuple[list[str], list[str]]:
    """Return good adjectives and bad ones: single words among the ``phrases`` of SST-2, with their labels, that WordNet (in ``folder``)
    calls adjectives, and those of our own lists.

    None of `HELD_BACK` is among them. Raises FileNotFoundError as `definitions` does.
    """
    known = {line.split(" ", 1)[0] for line in _lines(folder, "index.adj")}
    labels: dict[str, set[float]] = {}
    for review in phrases:
        if review.text in known and review.text.isalpha() and review.text not in HELD_BACK:
            labels.setdefault(review.text, set()).add(review.label)
    good, bad = ([word for word, sides in labels.items() if sides == {side}] for side in (1.0, 0.0))
    return good + WORDS["good"] * OWN_WORD_REPEATS, bad + WORDS["bad"] * OWN_WORD_REPEATS


def sentences_with_negation(data: Path, held_out: set[str]) -> list[Review]:
    """Return short sentences with a negation from IMDB's training reviews, in the folder ``data``, that are most for and most against a
    film.

    Their label is less sure than the review's. Reviews whose `letters` are in ``held_out`` are left out.
    """
    reviews = []
    for row in rows(data, "imdb"):
        if row["split"] != "train" or row["rating"] not in EXTREME_RATINGS:
            continue
        text = clean(row["text"])
        if letters(text) in held_out:
            continue
        label = SENTENCE_LABEL if row["rating"] > 5 else 1 - SENTENCE_LABEL
        reviews += [
            Review(sentence, label)
            for sentence in sentences_of(text, MIN_WORDS, MAX_WORDS)
            if NEGATION.search(sentence) and VERDICT.search(sentence)
        ]
    return reviews
