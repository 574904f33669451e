"""Does a word that should not matter change the answer? One sentence with a slot, filled with the words of several groups.

The question of Ali et al. 2022 (XAI for Transformers, arXiv 2202.07304, section 5): does a name or a pronoun change the prediction, and
how much relevance does it get?
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

from explainers.errors import ExplainerError
from explainers.json_records import Record, describe, optional
from explainers.models.inputs.types import ImageInput
from explainers.pipeline.explain import explain
from explainers.records.result import Attribution, Explanation
from explainers.records.targets import Target
from explainers.rendering.plain import align
from explainers.self_check.opening import model_of

__all__ = ["SLOT", "FilledText", "WordProbe", "fill_template", "word_probe"]

#: Stands in a template where the words are put in.
SLOT = "{}"
#: The numbers that are read for each text; a regression has no probability, and its value takes the place of the logit.
NUMBERS = ("probability", "logit", "relevance")
PROBE_METHOD = "input_x_gradient:conservative"
_TEXTS_PER_PASS = 10  # texts in one batch


@dataclass(frozen=True)
class FilledText(Record, name="ProbeRow"):
    """A template with one word of a group in its slot: the text, the model's probability and logit for it, and the relevance and tokens of
    the word.
    """

    group: str
    word: str
    text: str
    probability: Annotated[float | None, optional("A regression has none.")]
    logit: float
    relevance: Annotated[
        float, describe("The score of the word: the sum over its pieces where scores are signed, else the largest of them.")
    ]
    pieces: Annotated[tuple[str, ...], describe("The tokens that the word was read as.")]
    unknown: Annotated[bool, describe("Whether one of them is the token for unknown words.")]


@dataclass(frozen=True)
class ProbeMethod(Record):
    """The method that scored the words: its spec and title, whether its scores have a sign, and whether they depend on the class."""

    spec: str
    title: str
    signed: bool
    class_specific: bool


def _probe_method(attribution: Attribution) -> dict[str, Any]:
    return ProbeMethod(attribution.method, attribution.title, attribution.signed, attribution.class_specific).to_json()


@dataclass(frozen=True, kw_only=True)
class ProbeMeans(Record):
    """A group of words: its name, how many words it has, and the means over them of probability, logit and relevance."""

    name: str
    words: Annotated[int, describe("How many there are.")]
    probability: Annotated[float | None, optional("A regression has none.")] = None
    logit: float
    relevance: float


@dataclass(frozen=True, kw_only=True)
class ProbeDifference(Record):
    """Two groups of words (``between``), and the means of the first minus those of the second: of probability, logit and relevance."""

    between: tuple[str, str]
    probability: Annotated[float | None, optional("A regression has none.")] = None
    logit: float
    relevance: float


@dataclass(frozen=True, eq=False)
class WordProbe(Record):
    """The effect of one word of a sentence: a template filled with the words of some groups, and the model's answer to each text. ``print``
    shows the table; :meth:`save` writes the numbers.

    attribution  the map of the first text; the others are by the same method
    """

    model: Annotated[str, describe("The name of the model.")]
    target: Annotated[str, describe("The class, or group of classes, whose numbers are read.")]
    template: str
    attribution: Annotated[Attribution, describe(key="method", kind=ProbeMethod, write=_probe_method)]
    texts: Annotated[tuple[FilledText, ...], describe("One for each word, in the order of the groups.", key="rows")]
    notes: Annotated[tuple[str, ...], describe("What a person should know, such as words that the model does not know.")] = ()

    @property
    def method(self) -> Attribution:
        """The old name of ``attribution``, from version 0.2."""
        return self.attribution

    @property
    def groups(self) -> Annotated[list[dict[str, Any]], describe(kind=list[ProbeMeans])]:
        """A dict for each group of words: its name, how many words it has, and the mean over them of each number."""
        members: dict[str, list[dict[str, Any]]] = {}
        for text in self.texts:
            members.setdefault(text.group, []).append(text.to_json())
        return [
            ProbeMeans(name=name, words=len(rows), **{key: fmean(row[key] for row in rows) for key in NUMBERS if key in rows[0]}).to_json()
            for name, rows in members.items()
        ]

    @property
    def difference(
        self,
    ) -> Annotated[dict[str, Any] | None, describe("null for one group alone.", kind=ProbeDifference | None)]:
        """The measurements of the first group of words minus those of the second, by name; each is a mean over the words of the group. None
        if there is one group alone.
        """
        if len(self.groups) < 2:
            return None
        first, second = self.groups[:2]
        less = {key: first[key] - second[key] for key in NUMBERS if key in first}
        return ProbeDifference(between=(first["name"], second["name"]), **less).to_json()

    def __str__(self) -> str:
        keys = [key for key in NUMBERS if key in self.groups[0]]
        rows = [["group", "word", *keys]]
        rows += [[text.group, text.word, *(f"{getattr(text, key):.4f}" for key in keys)] for text in self.texts]
        rows += [[group["name"], f"mean of {group['words']}", *(f"{group[key]:.4f}" for key in keys)] for group in self.groups]
        if self.difference is not None:
            rows.append([" - ".join(self.difference["between"]), "", *(f"{self.difference[key]:+.4f}" for key in keys)])
        head = f"{self.target} by {self.model}: {self.template}; relevance by {self.attribution.method}"
        return "\n".join([head, *align(rows, left=(0, 1)), *(f"note: {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        """Return the table and the map of the first text: what a notebook shows."""
        from explainers.rendering.notebook import map_html, text_html

        return text_html(str(self), map_html(self.attribution, None))

    def save(self, path: Path | str) -> None:
        """Write the numbers to the file ``path``, which ends in ``.json``. Raises ExplainerError for any other ending of the name."""
        path = Path(path)
        if path.suffix != ".json":
            raise ExplainerError(f"{path} cannot be saved with this ending: end it in .json")
        path.write_text(json.dumps(self.to_json(), ensure_ascii=False, indent=1) + "\n", "utf-8")


def fill_template(template: str, groups: Mapping[str, Sequence[str]]) -> list[tuple[str, str, str]]:
    """Fill the slot of a template with each word; return (group, word, filled text) for each, without duplicates, in the order of the
    groups.

    Raises ExplainerError for a template without exactly one slot, and if there is no word.
    """
    slots = template.count(SLOT)
    if slots != 1:
        raise ExplainerError(f"the template has {slots or 'no'} slot{'s' * (slots > 1)}: write {SLOT} once, where the words shall stand")
    if not groups or not all(groups.values()):
        raise ExplainerError("there is no word to put in: give each group one or more words")
    return list(dict.fromkeys((name, word, template.replace(SLOT, word)) for name, words in groups.items() for word in words))


def word_probe(
    model: Any,
    template: str,
    groups: Mapping[str, Sequence[str]],
    target: str | int | Target,
    method: str = PROBE_METHOD,
    *,
    progress: Callable[[int, int], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> WordProbe:
    """Fill the slot ``{}`` of ``template`` with each word of ``groups``, and ask ``model``, a classifier of texts. The result has for each
    word the model's probability and logit, and the relevance of the word.

    groups     name of a group -> its words
    target     the class, or group of classes, whose probability and logit are read
    method     the spec whose map says how relevant the word is
    progress   called before each batch with how many texts of how many are answered
    cancelled  asked between passes; when true, :class:`explainers.Cancelled` is raised

    A text longer than the model takes is cut. Raises ExplainerError for a model that does not read texts, a template without exactly one
    slot, and a word that the model does not get to read.
    """
    model = model_of(model)
    if model.kind != "text":
        raise ExplainerError(f"{model.name} does not read texts: choose a text model")
    filled_template = fill_template(template, groups)
    results: list[Explanation] = []
    for first in range(0, len(filled_template), _TEXTS_PER_PASS):
        if progress is not None:
            progress(first, len(filled_template))
        batch = [text for _, _, text in filled_template[first : first + _TEXTS_PER_PASS]]
        results += explain(model, batch, [target], [method], long_texts="cut", cancelled=cancelled)
    start, unknown_id = template.index(SLOT), model.details.get("unknown_token_id")
    texts = tuple(
        _measure(group, word, start, result, unknown_id) for (group, word, _), result in zip(filled_template, results, strict=True)
    )
    notes = list(dict.fromkeys(note for result in results for note in result.notes))
    return WordProbe(model.name, results[0].target.label, template, results[0].maps[0], texts, tuple(notes))


def _measure(group: str, word: str, start: int, result: Explanation, unknown_id: int | None) -> FilledText:
    """Return the row of a filled text, whose word belongs to the ``group``: the model's answer in ``result``, and the relevance of
    ``word``, which begins at the character ``start``. ``unknown_id`` is the tokenizer's id for unknown words. Raises ExplainerError if the
    model did not read the word.
    """
    assert not isinstance(result.input, ImageInput)
    stop, tokens = start + len(word), result.input.tokens
    indices = [i for i, token in enumerate(tokens) if not token.special and token.start < stop and token.end > start]
    if not indices:
        raise ExplainerError(f"The model did not read {word!r}: the text is too long for it, or its tokenizer skips the word.")
    scores = result.maps[0].scores[indices]
    ids = result.tensors["input_ids"][0][result.tensors["attention_mask"][0].bool()].tolist()
    return FilledText(
        group=group,
        word=word,
        text=result.input.text or "",
        probability=result.target.probability,
        logit=result.target.logit,
        relevance=float(scores.sum() if result.maps[0].signed else scores.amax()),
        pieces=tuple(tokens[i].text for i in indices),
        unknown=unknown_id is not None and any(ids[i] == unknown_id for i in indices),
    )
