"""Bias probes: one sentence with a slot, filled with the words of several groups; what the model says of each, and what the word did.

The question of Ali et al. 2022 (XAI for Transformers, arXiv 2202.07304, section 5): does a name or a pronoun that should not matter
change the prediction, and how much relevance does it get?
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from explainers.errors import ExplainerError
from server.engine import Engine
from server.intake import check_method, class_index
from server.problems import Problem
from server.registry import Facts

SLOT = "{}"
MOST_GROUPS, MOST_WORDS, MOST_TEXTS = 4, 30, 60
MOST_CHARS = 1000  # of the template
_AT_ONCE = 10  # texts in one batch

Word = Annotated[str, Field(min_length=1, max_length=60)]


class Group(BaseModel):
    """Words that stand for one group."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)
    name: str = Field(min_length=1, max_length=60)
    words: list[Word] = Field(min_length=1, max_length=MOST_WORDS)


class Probe(BaseModel):
    """What is asked: ``template`` has one slot, ``target`` is a class of the model, ``method`` a spec."""

    model_config = ConfigDict(extra="forbid")
    model: str = Field(min_length=1, max_length=200)
    template: str = Field(max_length=MOST_CHARS)
    groups: list[Group] = Field(min_length=1, max_length=MOST_GROUPS)
    target: str = Field(min_length=1, max_length=200)
    method: str = Field(default="input_x_gradient:conservative", max_length=200)

    @property
    def texts(self) -> list[tuple[str, str, str]]:
        """(group, word, filled text), each once, in order."""
        filled = [(group.name, word, self.template.replace(SLOT, word)) for group in self.groups for word in group.words]
        return list(dict.fromkeys(filled))


def check(probe: Probe) -> None:
    """Raise Problem 422 for what is wrong whatever the model."""
    slots = probe.template.count(SLOT)
    if slots != 1:
        detail = f"The template has {slots or 'no'} slots" if slots else "The template has no slot"
        raise _bad("wrong-template", f"{detail}.", f"Write {SLOT} once, where the words shall stand.")
    names = [group.name for group in probe.groups]
    if len(set(names)) < len(names):
        raise _bad("wrong-groups", "Two groups have the same name.", "Give each group a name of its own.")
    if len(probe.texts) > MOST_TEXTS:
        raise _bad("too-many", f"These are {len(probe.texts)} texts.", f"Send at most {MOST_TEXTS} words in all groups together.")


def answer(probe: Probe, model: Any, facts: Facts, engine: Engine, cancelled: Callable[[], bool]) -> dict[str, Any]:
    """Fill the template, ask the model, and read the relevance of each word: its sum over the word's pieces where scores are signed, else
    the largest of them.

    Raises Problem 422 for what does not fit the model.
    """
    if facts.kind != "text":
        raise _bad("wrong-input", f"{probe.model} does not read texts.", "Choose a text model.")
    check_method(probe.method, facts, engine)
    readout = engine.readout_of(probe.method, facts.blocks)
    if any(one["dear"] for one in facts.methods if one["name"] == readout):
        raise _bad("too-slow", f"{probe.method} takes too long for so many texts.", "Choose a method that is not marked slow.")
    target = class_index(probe.target, facts.labels)
    texts = probe.texts
    found: list[Any] = []
    for first in range(0, len(texts), _AT_ONCE):
        some = [text for _, _, text in texts[first : first + _AT_ONCE]]
        found += engine.explain(model, some, [target], [probe.method], cancelled=cancelled)
    start = probe.template.index(SLOT)
    unknown = model.details.get("unknown_token_id")
    rows = [_row(group, word, start, one, unknown) for (group, word, _), one in zip(texts, found, strict=True)]
    one = found[0].maps[0]
    means = [_means(group.name, [row for row in rows if row["group"] == group.name]) for group in probe.groups]
    return {
        "model": probe.model,
        "target": facts.labels[target],
        "template": probe.template,
        "method": {"spec": one.method, "title": one.title, "signed": one.signed, "class_specific": one.class_specific},
        "rows": rows,
        "groups": means,
        "difference": _difference(means),
        "notes": _notes(found, rows),
    }


def _row(group: str, word: str, start: int, explanation: Any, unknown: int | None) -> dict[str, Any]:
    """One filled text: what the model says of it, and the relevance of the word that was put in."""
    stop = start + len(word)
    tokens = explanation.input.tokens
    places = [i for i, token in enumerate(tokens) if not token.special and token.start < stop and token.end > start]
    if not places:
        raise ExplainerError(f"The model did not read {word!r}: the text is too long for it, or its tokenizer skips the word.")
    scores = explanation.maps[0].scores[places]
    mask = explanation.tensors["attention_mask"][0].bool()
    ids = explanation.tensors["input_ids"][0][mask].tolist()
    return {
        "group": group,
        "word": word,
        "text": explanation.input.text,
        "probability": explanation.target.probability,
        "logit": explanation.target.logit,
        "relevance": float(scores.sum() if explanation.maps[0].signed else scores.amax()),
        "pieces": [tokens[i].text for i in places],
        "unknown": unknown is not None and any(ids[i] == unknown for i in places),
    }


def _means(name: str, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The means of a group over its words."""
    return {"name": name, "words": len(rows), **{key: fmean(row[key] for row in rows) for key in ("probability", "logit", "relevance")}}


def _difference(means: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """The first group less the second; None for one group alone."""
    if len(means) < 2:
        return None
    one, other = means[:2]
    return {"between": [one["name"], other["name"]], **{key: one[key] - other[key] for key in ("probability", "logit", "relevance")}}


def _notes(found: Sequence[Any], rows: Sequence[dict[str, Any]]) -> list[str]:
    notes = list(dict.fromkeys(note for explanation in found for note in explanation.notes))
    strange = [row["word"] for row in rows if row["unknown"]]
    if strange:
        notes.append(f"The model does not know {', '.join(strange)}: it reads the same sign for every unknown word.")
    return notes


def _bad(slug: str, detail: str, send: str) -> Problem:
    return Problem(422, slug, detail, send=send)
