"""Can an English model read this text? A score from its words alone, for the line that a model's calibration draws (``strange_words``).

A word is strange to the model if its tokenizer has to spell it out in pieces, if it is in another script, or if it is one of the
small words of French, German, Spanish, Italian, Portuguese or Dutch. English small words ("the", "of", "is") speak for English.
"""

from __future__ import annotations

import re
import unicodedata

from explainers.models.inputs.types import TextInput, Word

FEWEST_WORDS = 4  # with fewer words only another script says that a text is not English
ENGLISH = frozenset({
    "a", "about", "after", "again", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be", "because", "been", "before",
    "being", "but", "by", "can", "can't", "could", "did", "didn't", "do", "does", "doesn't", "doing", "don't", "during", "for",
    "from", "had", "has", "have", "he", "her", "here", "him", "his", "how", "i", "i'm", "if", "in", "into", "is", "isn't", "it",
    "it's", "its", "just", "many", "may", "me", "might", "more", "most", "much", "must", "my", "no", "nor", "not", "of", "on",
    "one", "only", "or", "our", "out", "over", "shall", "she", "should", "so", "some", "than", "that", "the", "their", "them",
    "then", "there", "these", "they", "this", "those", "to", "too", "two", "up", "us", "very", "was", "we", "were", "what", "when",
    "where", "which", "while", "who", "why", "will", "with", "without", "would", "you", "your",
})  # fmt: skip
# Without words that English has too ("die", "on", "me") and without accents, which the comparison takes away.
OTHERS = frozenset({
    "aber", "al", "au", "auch", "auf", "aux", "avec", "bei", "ce", "cette", "che", "como", "con", "dans", "das", "dat", "de", "del",
    "della", "dem", "der", "des", "deze", "di", "dos", "du", "een", "ein", "eine", "el", "elle", "em", "en", "es", "est", "esta",
    "este", "et", "eu", "foi", "fur", "gli", "het", "ich", "ik", "il", "ist", "je", "la", "las", "le", "les", "lo", "los", "maar",
    "mi", "mit", "muito", "muy", "nao", "ne", "nicht", "niet", "noch", "non", "nous", "nur", "ook", "op", "ou", "para", "pero",
    "piu", "por", "pour", "que", "questo", "qui", "sich", "sie", "sono", "sont", "su", "sur", "tres", "um", "uma", "un", "una",
    "und", "une", "van", "von", "voor", "vous", "wie", "wir", "zijn", "zu",
})  # fmt: skip


def strange_words(text: TextInput) -> float:
    """Return how foreign a text looks: the share of its words that look foreign minus the share that are short English words. The result
    lies between -1 and 1; English has about -0.3.

    A word looks foreign if it is a short word of another language (`OTHERS`), is written in another script, or is cut by the tokenizer into
    more pieces than it has parts. Only words with a letter count; a text without such a word scores 0. In a text of fewer than
    `FEWEST_WORDS` words only words in other scripts count, because one name or a misspelt "Boooring!" does not show its language.
    """
    words = [word for word in text.words if any(character.isalpha() for character in word.text)]
    if not words:
        return 0.0
    plain = [_simplify(word.text) for word in words]
    if len(words) < FEWEST_WORDS:
        return sum(not _latin(word) for word in plain) / len(words)
    small = sum(word in ENGLISH for word in plain)
    strange = sum(name not in ENGLISH and (name in OTHERS or _spelt_out(word, name)) for word, name in zip(words, plain, strict=True))
    return (strange - small) / len(words)


def _simplify(word: str) -> str:
    """Return ``word`` in small letters, without accents, with a straight apostrophe."""
    letters = unicodedata.normalize("NFKD", word.lower().replace("’", "'"))
    return "".join(letter for letter in letters if not unicodedata.combining(letter))


def _latin(plain: str) -> bool:
    return all(letter.isascii() for letter in plain if letter.isalpha())


def is_foreign(word: str) -> bool:
    """Return whether a word is in another script than English, or one of the small words of `OTHERS`."""
    plain = _simplify(word)
    return plain in OTHERS or not _latin(plain)


def is_spelt_out(word: Word) -> bool:
    """Return whether a tokenizer has no piece of its own for each part of a word, so that it spells a part in smaller pieces."""
    return _spelt_out(word, _simplify(word.text))


def _spelt_out(word: Word, plain: str) -> bool:
    """Return whether ``word`` is in another script, or the tokenizer cuts it into more pieces than its parts and the signs between them.
    ``plain`` is its text without accents.
    """
    parts = [part for part in re.split(r"\W+", plain) if part]
    return not _latin(plain) or len(word.tokens) > 2 * len(parts) - 1
