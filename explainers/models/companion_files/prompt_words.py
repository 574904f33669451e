"""Prompt words: the words that a dual encoder was trained on, which tell whether it knows a word of a prompt and what the prompt asks for.

The file next to the weights is ``prompt_words.safetensors``: its metadata holds N ``words`` and the ``kinds`` of some of them, both as
JSON; its ``embeddings`` (M, D) are those of the first M words, of any length, so that they may be stored as integers of one byte. A word of
a prompt that is not in the list is embedded and compared with these: the number of its word pieces does not tell whether the encoder knows
it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, get_args

import torch.nn.functional as F
from safetensors import SafetensorError, safe_open
from torch import Tensor

from explainers.errors import ExplainerError

#: The name of the file next to the weights.
PROMPT_WORDS_FILE = "prompt_words.safetensors"
#: The kind of thing that a prompt asks for.
PromptKind = Literal["thing", "scene", "colour"]
PROMPT_KINDS: tuple[PromptKind, ...] = get_args(PromptKind)
#: The kinds of words: for a scene, for a colour, or without importance ("a", "photo", "big"). Other words name things.
ASIDE = "aside"
#: A function that embeds words.
TEMPLATE = "a photo of a {}"
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_ENDINGS = ("s", "es")  # of plurals

#: Prompts to their embeddings, (prompts, D).
Embed = Callable[[Sequence[str]], Tensor]


@dataclass(frozen=True)
class PromptReading:
    """The properties of a prompt that are known before any picture is seen.

    kind         what it asks for
    strangest    its word that is least similar to the model's training words; empty if all words are among these
    familiarity  the largest cosine of that word's embedding with the embedding of a training word; 1 if all words are training words
    untaught     all its words that are neither training words nor their plurals, in small letters
    """

    kind: PromptKind
    strangest: str
    familiarity: float
    untaught: tuple[str, ...] = ()


@dataclass(frozen=True)
class PromptWords:
    """The words that a model was trained on: ``words``; ``embeddings`` (M, D) of length 1 of the first M of them; and the ``kinds`` of some
    of them: a kind of prompt, or `ASIDE`.
    """

    words: tuple[str, ...]
    embeddings: Tensor
    kinds: Mapping[str, str]

    @cached_property
    def _parts(self) -> frozenset[str]:
        """The set of single words in ``words``: "traffic light" gives two."""
        return frozenset(part for word in self.words for part in words_of(word))

    def kind(self, prompt: str) -> PromptKind:
        """Return the kind of a prompt: "colour" if it only names colours, "scene" if it only names places and their
        colours, else "thing".
        """
        kinds = {self.kinds.get(word) or self.kinds.get(_singular(word, self.kinds)) for word in words_of(prompt)} - {ASIDE}
        if kinds == {"colour"}:
            return "colour"
        return "scene" if "scene" in kinds and kinds <= {"scene", "colour"} else "thing"

    def strange(self, prompt: str) -> list[str]:
        """List the words of ``prompt`` that are neither known words nor their plurals, each once."""
        return [word for word in dict.fromkeys(words_of(prompt)) if _singular(word, self._parts) not in self._parts]

    def read(self, prompt: str, embed: Embed) -> PromptReading:
        """Return the kind and the strangest word of a prompt; ``embed`` returns embeddings of words, and is called only for unknown
        ones.
        """
        kind, strange = self.kind(prompt), self.strange(prompt)
        if not strange:
            return PromptReading(kind, "", 1.0)
        embeddings = F.normalize(embed([TEMPLATE.format(word) for word in strange]).float().cpu(), dim=-1)
        nearest = (embeddings @ self.embeddings.T).amax(1)
        least = int(nearest.argmin())
        return PromptReading(kind, strange[least], float(nearest[least]), tuple(strange))


def words_of(text: str) -> list[str]:
    """Return the words of ``text``, a prompt, in small letters, without marks and numbers."""
    return [word.replace("’", "'") for word in _WORD.findall(text.lower())]


def _singular(word: str, known: Mapping[str, str] | frozenset[str]) -> str:
    """Return the word without the plural ending if that is a known word and the word itself is not; else the word."""
    if word in known:
        return word
    return next((short for end in _ENDINGS if (short := word.removesuffix(end)) != word and short in known), word)


def read_prompt_words(path: Path) -> PromptWords:
    """Return the words in the file ``path``, a ``prompt_words.safetensors``, with their embeddings. Raises ExplainerError, naming the part,
    for a file of another form.
    """
    try:
        with safe_open(path, "pt") as file:
            embeddings, facts = file.get_tensor("embeddings"), file.metadata() or {}
        words, kinds = json.loads(facts["words"]), json.loads(facts["kinds"])
    except (SafetensorError, KeyError, ValueError) as problem:
        raise ExplainerError(f"{path} must hold embeddings, and in its metadata words and kinds as JSON: {problem}") from None
    if not 0 < len(embeddings) <= len(words):
        raise ExplainerError(f"{path}: {len(words)} words and {len(embeddings)} embeddings; there must be a word for each")
    if wrong := sorted(set(kinds.values()) - {*PROMPT_KINDS, ASIDE}):
        raise ExplainerError(f"{path}: there are no words of the kind {wrong[0]!r}; there are {', '.join((*PROMPT_KINDS, ASIDE))}")
    return PromptWords(tuple(words), F.normalize(embeddings.float(), dim=-1), kinds)
