"""Places in a text as a person writes them: a part of the text itself, or its tokens by their numbers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from explainers.models.inputs.types import ANSWER, PICTURE, TextInput
from explainers.models.tasks.task import Place

SPELLING = "such as Paris, Paris#2 for the second one, or tokens:5-7"
_NUMBERS = re.compile(r"tokens?:(\d+)(?:-(\d+))?")
_COUNTED = re.compile(r"(.+)#(\d+)", re.DOTALL)


def place_in_text(at: str, record: TextInput, part: int | None = None) -> Place | None:
    """Return the place in the text ``record`` that ``at`` names: ``tokens:5-7`` (``token:5``), or a part of the text, followed by ``#2``
    for its second occurrence.

    ``part`` is 0 or 1 to search only the first or the second text of a pair, ``ANSWER`` to search the model's own answer. The result is
    None if the text has no such part.
    """
    numbers = _NUMBERS.fullmatch(at.strip())
    if numbers is not None:
        first = int(numbers[1])
        return place_of_tokens(record, first, int(numbers[2] or first))
    whole = place_of_part(at, 1, record, part)
    counted = _COUNTED.fullmatch(at.strip())
    return place_of_part(counted[1], int(counted[2]), record, part) if whole is None and counted is not None else whole


def place_of_tokens(record: TextInput, first: int, last: int) -> Place | None:
    """Return the place of the tokens from ``first`` to ``last`` of the text ``record``; None if it has fewer."""
    if not 0 <= first <= last < len(record.tokens):
        return None
    return Place(spell_tokens(first, last), words_of(record, first, last), (first, last))


def spell_tokens(first: int, last: int) -> str:
    """Return the text that names the tokens from ``first`` to ``last``."""
    return f"token:{first}" if first == last else f"tokens:{first}-{last}"


def number_repeats(texts: Iterable[str]) -> list[str]:
    """Return ``texts`` in order, with ``#2``, ``#3`` appended to those that occur a second or third time."""
    seen: Counter[str] = Counter()
    labels = []
    for text in texts:
        seen[text] += 1
        labels.append(text if seen[text] == 1 else f"{text}#{seen[text]}")
    return labels


def words_of(record: TextInput, first: int, last: int) -> str:
    """Return the text of the tokens from number ``first`` to ``last`` of ``record``, special ones by their own names."""
    tokens = record.tokens[first : last + 1]
    parts = {token.part for token in tokens}
    if record.text is None or any(token.special and token.part != ANSWER for token in tokens) or len(parts) > 1 or PICTURE in parts:
        return " ".join(token.text for token in tokens)
    source = (record.text, record.pair, record.answer)[parts.pop()] or ""
    return source[tokens[0].start : tokens[-1].end].strip()


def place_of_part(words: str, number: int, record: TextInput, part: int | None = None) -> Place | None:
    """Return the place of the ``number``-th occurrence of ``words`` in the text ``record``, as whole words if possible; None if there is
    none. ``part`` chooses the text, see :func:`place_in_text`.
    """
    words = words.strip()
    if record.text is None or not words or number < 1:
        return None
    for pattern in (rf"(?<!\w){re.escape(words)}(?!\w)", re.escape(words)):
        texts = [(index, text) for index, text in enumerate((record.text, record.pair or "", record.answer or "")) if part in (None, index)]
        matches = [(index, match.span()) for index, text in texts for match in re.finditer(pattern, text)]
        if matches and number > len(matches):
            return None
        if matches:
            index, (start, end) = matches[number - 1]
            inside = [
                i
                for i, token in enumerate(record.tokens)
                if (not token.special or index == ANSWER) and token.part == index and token.start < end and token.end > start
            ]
            return place_of_tokens(record, inside[0], inside[-1]) if inside else None
    return None
