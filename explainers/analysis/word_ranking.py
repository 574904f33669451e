"""The words of many texts, ranked by their total relevance, and which of them are names.

Ali et al. 2022 (XAI for Transformers, arXiv 2202.07304, section 5) rank words, and among them names and entities, over a data set. Which
words are names is read here from capitals, and of texts without any from a list of first names: no tagger, and nothing of a language but
what :func:`names_in` says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from explainers.analysis.first_names import is_first_name

#: After these a capital says nothing: a sentence, a quotation or what a colon announces begins there.
_BEGINNINGS = frozenset('.!?…:;"“„«')
#: A full stop after these ends no sentence; nor does it after the initial of a name.
_TITLES = frozenset({"mr", "mrs", "ms", "dr", "st", "prof", "jr", "sr"})
_ABBREVIATION = 5  # letters of the longest, such as NAACP
_PRONOUN = "i"  # English: in capitals wherever it stands, also in I'm and I've
_APOSTROPHES = str.maketrans("’ʼ", "''")


@dataclass(frozen=True)
class WordTotal:
    """A word in any case (``word``): how often it stands in the texts (``count``), and its scores there, summed (``total``) and on average
    (``mean``).
    """

    word: str
    count: int
    total: float
    mean: float


def word_totals(texts: Iterable[Sequence[tuple[str, float]]]) -> list[WordTotal]:
    """Sum the scores of every word over ``texts``, each a list of (word, score); return one total for each word, the largest first. Case
    and the punctuation around a word are ignored.
    """
    scores: dict[str, list[float]] = {}
    for text in texts:
        for word, score in text:
            if stem := _parts(word)[1]:
                scores.setdefault(stem.casefold(), []).append(score)
    totals = [
        WordTotal(word, len(word_scores), sum(word_scores), sum(word_scores) / len(word_scores)) for word, word_scores in scores.items()
    ]
    return sorted(totals, key=lambda word: -word.total)


def names_in(texts: Iterable[Sequence[str]]) -> set[str]:
    """Return the words, in lower case, that are names by how they are written: those that begin with a capital inside a sentence more often
    than they stand in lower case anywhere. In texts without any capital, the known first names (:mod:`explainers.analysis.first_names`).

    ``texts`` are lists of words and marks in order. A capital where a sentence or a quotation begins is no evidence, nor is a word that is
    shouted: in capitals, and longer than an abbreviation, next to another such word or in a text without a small letter. Initials, titles
    such as Dr and the English I are no names.
    """
    capitals: Counter[str] = Counter()
    for text in texts:
        is_all_small = not any(character.isupper() for word in text for character in word)
        is_all_capitals = not any(character.islower() for word in text for character in word)
        words: list[str] = []
        is_inside: list[bool] = []
        marks = "."
        for word in text:
            before, bare, after = _parts(word)
            if not bare:
                marks += before
                continue
            is_inside.append(_is_inside(words[-1] if words else "", marks + before))
            words.append(bare)
            marks = after
        for place, word in enumerate(words):
            if word[0].islower():
                capitals[word.casefold()] += 1 if is_all_small and is_first_name(word) else -1
            elif (
                word[0].isupper()
                and is_inside[place]
                and not is_all_capitals
                and not _is_shouted(word, words[max(place - 1, 0) : place + 2])
            ):
                capitals[word.casefold()] += 1
    return {word for word, count in capitals.items() if count > 0 and len(word) > 1 and word not in _TITLES and not _is_pronoun(word)}


def _is_shouted(word: str, nearby: Sequence[str]) -> bool:
    """Return whether a word is in capitals for emphasis; ``nearby`` are the word and its neighbours."""
    return _is_in_capitals(word) and (len(word) > _ABBREVIATION or sum(map(_is_in_capitals, nearby)) > 1)


def _is_in_capitals(word: str) -> bool:
    return len(word) > 1 and word.isupper()


def _parts(word: str) -> tuple[str, str, str]:
    """Split ``word`` into three texts: the marks before its first letter or digit, the text from there to its last one, and the marks after
    it; marks alone are all before.
    """
    places = [place for place, character in enumerate(word) if character.isalnum()]
    if not places:
        return word, "", ""
    return word[: places[0]], word[places[0] : places[-1] + 1], word[places[-1] + 1 :]


def _is_inside(previous: str, marks: str) -> bool:
    """Return whether a word is inside a sentence, judged by ``previous``, the word before it ("" if there is none), and by ``marks``, the
    punctuation between them.
    """
    ends_abbreviation = marks == "." and ((len(previous) == 1 and previous.isupper()) or previous.casefold() in _TITLES)
    return bool(previous) and (ends_abbreviation or not _BEGINNINGS & set(marks))


def _is_pronoun(word: str) -> bool:
    return word.translate(_APOSTROPHES).split("'")[0] == _PRONOUN
