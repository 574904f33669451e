"""Words of a text from the tokens of its tokenizer.

A word is what a reader calls one: the tokenizer's own words, cut at white space and between characters that are written without it, with
the parts of "don't" and "well-made" put together again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

import regex  # knows scripts and grapheme clusters, which re does not

from explainers.models.inputs.types import Token, Word

#: Scripts that put no white space between words: each of their characters is a word of its own, where the tokens allow it.
_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}ー\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}"
#: Emoji, which stand next to words and to each other without white space. The signs left out are parts of words, as in "Vitrine™".
_EMOJI = r"\p{Regional_Indicator}|(?![©®™‼⁉])\p{Extended_Pictographic}"
_ALONE = regex.compile(rf"[{_UNSPACED}]|{_EMOJI}")
#: A character with its accents, vowel signs and the rest of a joined emoji. Flags, of two indicators each, are taken here pair by pair:
#: \X counts at each indicator of a run those before it.
_CHARACTER = regex.compile(r"\p{Regional_Indicator}{2}(?![\p{GCB=Extend}\p{GCB=SpacingMark}\p{GCB=ZWJ}])|\X")
_LETTER = rf"[\w--[{_UNSPACED}]]"
#: Letters and digits joined by single apostrophes or hyphens, without spaces: one word to a reader, several to many tokenizers. A match
#: begins where a run of letters does and gives none of them back (``++``): else each letter of a long run would be the start of a try.
_JOINED = regex.compile(rf"(?<!{_LETTER}){_LETTER}++(?:['’ʼ‐‑-]{_LETTER}++)+", regex.VERSION1)


def words_of(text: str, tokens: Sequence[Token], numbers: Sequence[int | None]) -> tuple[Word, ...]:
    """Merge ``tokens`` into words: by the tokenizer's word numbers first, cut where a reader sees an end, then across apostrophes and
    hyphens inside a word.

    A tokenizer may count a whole text as one word (as Llama's does), or everything without white space. Every token that is not special
    belongs to exactly one word; one without characters of its own joins its neighbour. No token is divided.
    """
    groups: list[list[int]] = []
    last: int | None = None
    for index, (token, number) in enumerate(zip(tokens, numbers, strict=True)):
        if token.special:
            continue
        if groups and number is not None and number == last:
            groups[-1].append(index)
        else:
            groups.append([index])
        last = number
    edges = _edges_of_characters(text)
    parts = (part for group in groups for part in _cut(text, tokens, group, edges))
    inside = {at for pattern in (_JOINED, _CHARACTER) for match in pattern.finditer(text) for at in range(match.start() + 1, match.end())}
    joined = _joined_groups(parts, tokens, inside)
    return tuple(Word(text[start:end], start, end, tuple(group)) for group, (start, end) in joined)


def _edges_of_characters(text: str) -> Set[int]:
    """Return the offsets in ``text`` at which a character that is a word of its own, such as a Chinese one, begins or ends."""
    return {edge for character in _CHARACTER.finditer(text) if _ALONE.match(character[0]) for edge in character.span()}


def _cut(text: str, tokens: Sequence[Token], group: Sequence[int], edges: Set[int]) -> list[list[int]]:
    """Cut ``group``, indices of neighbouring ``tokens`` of ``text``, at white space and at the characters ``edges``; return the parts as
    lists of indices.

    A token of white space alone belongs to what follows it. Tokens may stand for bytes of one character: those stay together.
    """
    parts: list[list[int]] = [[]]
    blanks: list[int] = []
    reached: int | None = None  # where the characters of the last part end
    for index in group:
        start, end = tokens[index].start, tokens[index].end
        if start == end:
            blanks.append(index)
            continue
        if reached is not None and start >= reached:
            between = text[reached:start]
            if any(character.isspace() for character in between) or any(at in edges for at in range(reached, start + 1)):
                parts.append([])
        parts[-1] += [*blanks, index]
        blanks, reached = [], max(end, reached or 0)
    parts[-1] += blanks
    return parts


def _joined_groups(groups: Iterable[list[int]], tokens: Sequence[Token], inside: Set[int]) -> list[tuple[list[int], tuple[int, int]]]:
    """Join groups of tokens that touch ``inside`` a word, and join a group without characters to its neighbour; return the groups.

    Each group comes with the start and end of its characters, which are updated as it grows: no token is read twice.
    """
    joined: list[tuple[list[int], tuple[int, int]]] = []
    for group in groups:
        start, end = _extent(tokens, group)
        if joined:
            before, (first, last) = joined[-1]
            if start == end:
                before += group
                continue
            if first == last or (last == start and start in inside):
                before += group
                joined[-1] = (before, (start, end) if first == last else (min(first, start), max(last, end)))
                continue
        joined.append((list(group), (start, end)))
    return joined


def _extent(tokens: Sequence[Token], group: Sequence[int]) -> tuple[int, int]:
    """Return the start and the end of the characters of a group of tokens; (0, 0) if it has none."""
    spans = [(tokens[i].start, tokens[i].end) for i in group if tokens[i].end > tokens[i].start]
    return min((start for start, _ in spans), default=0), max((end for _, end in spans), default=0)
