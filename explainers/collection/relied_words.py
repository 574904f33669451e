"""The words that the answers of a model rest on, over the texts of a collection: read from the maps that are there, no model is asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from explainers.collection.result import ROWS_AT_ONCE, Collection
from explainers.evaluation.rows import ROWS
from explainers.json_records import Record, describe

MOST_TEXTS = 2000  # that are read, from the first on
MOST_WORDS = 20
_COLUMNS = ("words", "answer")
_MAP_COLUMNS = ("scores", "top", "falls")


@dataclass(frozen=True, kw_only=True)
class ReliedWord(Record):
    """A word, and how much of the evidence for the answers it holds. Evidence is the positive scores of the first map, which sum to 1 in
    each text.
    """

    word: Annotated[str, describe("In small letters.")]
    texts: Annotated[int, describe("How many texts contain it.")]
    marked: Annotated[int, describe("In how many of them it is among the tenth of the words that the map marks most, at least one word.")]
    answer: Annotated[str, describe("The most frequent answer to the texts in which it is marked.")]
    answered: Annotated[int, describe("How many of these have this answer.")]
    share: Annotated[float, describe("The mean share of the evidence that it holds in the texts that contain it.")]
    even: Annotated[float, describe("The share that it would hold there if every word held the same.")]
    removed: Annotated[int, describe("In how many texts it is all that was removed, so that what became of the answer is its effect.")]
    changed: Annotated[int, describe("In how many of these the model then gave another answer.")]


@dataclass(frozen=True)
class ReliedWords(Record):
    """The words with the most evidence over even shares, summed over the ``texts`` that were read; none of pictures and molecules."""

    texts: int
    words: list[ReliedWord]


@dataclass
class _Tally:
    """What is counted of one word."""

    texts: int = 0
    marked: int = 0
    share: float = 0.0
    even: float = 0.0
    removed: int = 0
    changed: int = 0
    answers: Counter[str] = field(default_factory=Counter)


def find_relied_words(collection: Collection, most: int = MOST_WORDS) -> ReliedWords:
    """Return the words that hold most evidence for the answers of ``collection``, by its first map: those that are marked in a text, by the
    sum over its texts of the share that a word holds minus the share that it would hold if every word held the same, largest first. A word
    that stands everywhere and holds little has a sum of about 0. Reads the first :data:`MOST_TEXTS` texts; those without positive scores
    count in no share.
    """
    if collection.about.get("input_kind") != "text":
        return ReliedWords(0, [])
    tallies: dict[str, _Tally] = {}
    texts = 0
    for row in _rows(collection):
        texts += 1
        _count(row, tallies)
    ranked = sorted(((word, each) for word, each in tallies.items() if each.marked), key=lambda pair: pair[1].even - pair[1].share)
    return ReliedWords(texts, [_record(word, each) for word, each in ranked[:most]])


def _rows(collection: Collection) -> list[dict[str, Any]]:
    """Return what is counted of the first rows: their words, answers and first maps."""
    import pyarrow.parquet as pq

    columns = [*_COLUMNS, *(f"maps.list.element.{name}" for name in _MAP_COLUMNS)]
    rows: list[dict[str, Any]] = []
    with pq.ParquetFile(collection.folder / ROWS) as file:
        for batch in file.iter_batches(ROWS_AT_ONCE, columns=columns):
            rows += batch.to_pylist()
            if len(rows) >= MOST_TEXTS:
                break
    return [row for row in rows[:MOST_TEXTS] if row["maps"]]


def _count(row: Mapping[str, Any], tallies: dict[str, _Tally]) -> None:
    """Add what a row says of its words to their tallies."""
    names, first = [word["text"].casefold() for word in row["words"]], row["maps"][0]
    positive = [max(score, 0) for score in first["scores"]]
    total = sum(positive)
    if not total:
        return
    marked = {names[part] for part in first["top"]}
    for name, occurrences in Counter(names).items():
        each = tallies.setdefault(name, _Tally())
        each.texts += 1
        each.share += sum(score for score, other in zip(positive, names, strict=True) if other == name) / total
        each.even += occurrences / len(names)
        if name not in marked:
            continue
        each.marked += 1
        each.answers[row["answer"]] += 1
        if marked == {name} and first["falls"] is not None:
            each.removed += 1
            each.changed += first["falls"]


def _record(word: str, each: _Tally) -> ReliedWord:
    ((answer, answered),) = each.answers.most_common(1)
    return ReliedWord(
        word=word,
        texts=each.texts,
        marked=each.marked,
        answer=answer,
        answered=answered,
        share=each.share / each.texts,
        even=each.even / each.texts,
        removed=each.removed,
        changed=each.changed,
    )
