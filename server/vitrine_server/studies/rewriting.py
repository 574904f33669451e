"""Write words of a stored text in another way, and find again the tokens that stay."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vitrine_server.http.problems import Problem


@dataclass(frozen=True)
class Rewritten:
    """A text with words replaced.

    text   the new text; ``text_pair`` is the second one, None if there is none
    spans  for each token (part, start, end) in the new text: which text, and characters in it; None if its word was replaced
    """

    text: str
    text_pair: str | None
    spans: list[tuple[int, int, int] | None]


def rewrite(source: Mapping[str, Any], replace: Mapping[int, str]) -> Rewritten:
    """Replace words in ``source``, the text input of an explanation (JSON), and return the new texts with the places of the old tokens;
    ``replace`` maps the indices of words to new words. Raises Problem 422 for an index without a word or an empty word.
    """
    words, texts = source["words"], [source["text"], source.get("text_pair")]
    if texts[0] is None:
        raise Problem(422, "no-text", "The text of this explanation is not known, only its tokens.", send="Leave replace out.")
    for index, word in replace.items():
        if not 0 <= index < len(words):
            send = f"Send indices of input.words: 0 to {len(words) - 1}."
            raise Problem(422, "no-such-word", f"The text has no word {index}.", send=send)
        if words[index].get("part", 0) >= len(texts):
            detail = f"Word {index} was written by the model from your text."
            raise Problem(422, "written-word", detail, send="Replace words of your own text, or remove this one.")
        if not word.strip():
            raise Problem(422, "empty-word", f"Word {index} is replaced by nothing.", send="To remove the word, send its tokens in remove.")
    spans: list[tuple[int, int, int] | None] = [(token.get("part", 0), token["start"], token["end"]) for token in source["tokens"]]
    for index in sorted(replace, key=lambda i: words[i]["start"], reverse=True):  # from the end: what comes before stays where it is
        part, start, end = words[index].get("part", 0), words[index]["start"], words[index]["end"]
        text, longer = texts[part], len(replace[index]) - (end - start)
        assert text is not None
        texts[part] = text[:start] + replace[index] + text[end:]
        for i, span in enumerate(spans):
            if i in words[index]["tokens"]:
                spans[i] = None
            elif span is not None and span[0] == part and span[1] >= end and not source["tokens"][i]["special"]:
                spans[i] = (part, span[1] + longer, span[2] + longer)
    assert texts[0] is not None
    return Rewritten(texts[0], texts[1], spans)


def find_again(removed: Sequence[int], written: Rewritten, tokens: Sequence[Any]) -> list[int]:
    """Find the ``removed`` tokens (indices) of the old text in the new text ``written``, and return their indices among its ``tokens``.
    Raises Problem 422 if one does not exist there.
    """
    tokens_at = defaultdict(list)
    for i, token in enumerate(tokens):
        if not token.special:
            tokens_at[token.part, token.start, token.end].append(i)
    places = []
    for i in removed:
        span = written.spans[i]
        if span is None:
            raise Problem(
                422, "both-edits", f"Token {i} belongs to a word that is replaced.", send="Remove it or replace its word, not both."
            )
        if not tokens_at[span]:
            detail = f"The new word changes how the tokenizer cuts token {i} next to it, so that token cannot be removed."
            raise Problem(422, "cut-otherwise", detail, send="Remove the whole word that the token belongs to, or leave it.")
        places.append(tokens_at[span].pop(0))
    return places
