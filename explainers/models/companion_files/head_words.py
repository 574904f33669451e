"""Head words: the texts that say best what each head of a model of images and prompts looks for.

:func:`explainers.head_words` chooses them. The file next to the weights is ``head_words.json``: the ``weights_digest`` of the model, the
``pictures`` over which they were chosen, the number of ``texts`` to choose from, and ``blocks``: for each block its heads, each with its
``spread`` and its ``texts`` with their ``share``.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from explainers.errors import ExplainerError
from explainers.json_files import read_json
from explainers.json_records import Record, describe

#: The name of the file next to the weights.
HEAD_WORDS_FILE = "head_words.json"
SHOWN = 5  # texts of a head in the table


@dataclass(frozen=True)
class HeadText(Record):
    """A text that describes how the output of an attention head varies, and the share of the variance that it explains."""

    text: str
    share: Annotated[float, describe("Its share of the variance of what the head adds over the pictures.")]


@dataclass(frozen=True)
class WordsOfHead:
    """The texts of one head, the first chosen first; empty for a head whose output is the same for every picture.

    spread  root mean square distance of the head's part of an embedding of length 1 from its mean over the pictures
    """

    texts: tuple[HeadText, ...]
    spread: float


@dataclass(frozen=True)
class HeadWords:
    """The texts that describe what each head of a model looks for.

    weights_digest  digest of the model's weights; pictures  the pictures for which the texts were chosen; texts  the number of texts to
                    choose from
    blocks          for each block its heads
    """

    weights_digest: str
    pictures: str
    texts: int
    blocks: tuple[tuple[WordsOfHead, ...], ...]

    def to_json(self) -> dict[str, Any]:
        """Return the words as plain data, as the file stores them."""
        return asdict(self)

    def __str__(self) -> str:
        lines = [f"The best of {self.texts} texts over {self.pictures}"]
        for block, heads in enumerate(self.blocks, 1):
            for number, head in enumerate(heads, 1):
                said = "; ".join(f"{text.text} ({text.share:.0%})" for text in head.texts[:SHOWN]) or "adds the same to every picture"
                lines.append(f"block {block}, head {number}: {said}")
        return "\n".join(lines)

    def save(self, path: Path | str) -> None:
        """Write the words of heads to the file ``path``. Called ``head_words.json`` and next to the weights of a model, it is found by
        :func:`explainers.load`.
        """
        Path(path).write_text(json.dumps(self.to_json(), ensure_ascii=False, indent=1) + "\n", "utf-8")


def read_head_words(path: Path) -> HeadWords:
    """Return the words of attention heads in the file ``path``, a ``head_words.json``. Raises ExplainerError, naming the part, for a file
    of another form.
    """
    try:
        data = read_json(path)
        blocks = tuple(
            tuple(
                WordsOfHead(tuple(HeadText(str(text["text"]), float(text["share"])) for text in head["texts"]), float(head["spread"]))
                for head in heads
            )
            for heads in data["blocks"]
        )
        return HeadWords(str(data["weights_digest"]), str(data["pictures"]), int(data["texts"]), blocks)
    except (ValueError, KeyError, TypeError) as problem:
        raise ExplainerError(
            f"{path} must hold weights_digest, pictures, texts and blocks, as explainers.head_words writes them: {problem!r}"
        ) from None
