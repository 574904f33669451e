"""A table of how much each word of a prompt counted for each word of a language model's answer. A table of answer words by prompt words."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import torch
from torch import Tensor

from explainers.errors import ExplainerError
from explainers.json_records import Record, describe
from explainers.models.inputs.types import ANSWER, PicturePromptInput, TextInput
from explainers.models.tasks import GeneratedAnswer
from explainers.models.tasks.generated_answer import WORD
from explainers.models.tasks.text_places import number_repeats
from explainers.pipeline.explain import explain
from explainers.pipeline.places import ask_at, with_chat_template
from explainers.records.result import Attribution
from explainers.rendering.plain import align
from explainers.rendering.saving import save_numbers_or_figure
from explainers.self_check.opening import model_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["TABLE_METHOD", "AnswerTable", "answer_table"]

WRITTEN = "→ "  # before a word that the model itself wrote, as a column
TABLE_METHOD = "input_x_gradient:attnlrp"


@dataclass(frozen=True, eq=False)
class AnswerTable(Record):
    """Scores of the words of a prompt for each word of a model's answer, with the names of the model and the method. ``print`` shows the
    table, :meth:`figure` draws it.

    logits  float32 (rows,)
    scores  float32 (rows, columns)
    """

    model: Annotated[str, describe("The name of the model.")]
    prompt: str | None
    answer: str
    method: Annotated[str, describe("The spec.")]
    title: Annotated[str, describe("The title of the method.")]
    rows: Annotated[tuple[str, ...], describe("The words of the answer, with #2 after a word that stands there a second time.")]
    columns: Annotated[
        tuple[str, ...], describe("The words of the prompt; of an encoder-decoder also those of the answer, each with an arrow before it.")
    ]
    places: Annotated[
        tuple[str, ...], describe("The place of each row, as the field ``at`` of POST /api/explanations and ``explain(at=)`` take.")
    ]
    signed: Annotated[bool, describe("Whether scores tell evidence for a word from evidence against it.")]
    logits: Annotated[Tensor, describe("The logit of each row: the sum of the logits of its tokens.", kind=list[float])]
    scores: Annotated[Tensor, describe("A row for each word of the answer, a column for each word of the prompt.", kind=list[list[float]])]
    notes: Annotated[tuple[str, ...], describe("What a person should know.")] = ()

    def __str__(self) -> str:
        table = [["", "logit", *self.columns]]
        for row, logit, scores in zip(self.rows, self.logits.tolist(), self.scores.tolist(), strict=True):
            table.append([row, f"{logit:.2f}", *(f"{score:.3g}" for score in scores)])
        head = f"{self.model}: each word of the answer by the {'words of the prompt' if self.prompt else 'source'}, {self.title}"
        return "\n".join([head, *align(table, left=(0,)), *(f"note: {note}" for note in self.notes)])

    def figure(self) -> Figure:
        """Draw the table in colours, each row on a scale that ends at its largest score, and return the matplotlib Figure; nothing is shown
        or saved.
        """
        from matplotlib.figure import Figure

        rows, columns = self.scores.shape
        figure = Figure(figsize=(max(4.0, 0.5 * columns + 2), max(2.6, 0.35 * rows + 1.5)), layout="constrained")
        axes = figure.add_subplot()
        scale = self.scores.abs().amax(1, keepdim=True).clamp(min=1e-30)
        drawn = axes.imshow((self.scores / scale).numpy(), cmap="PuOr_r", vmin=-1, vmax=1, aspect="auto")
        axes.set_xticks(range(columns), self.columns, rotation=60, ha="right")
        axes.set_yticks(range(rows), self.rows)
        axes.set_title(self.title, fontsize=10)
        figure.colorbar(drawn, label="of the row's largest score")
        return figure

    def _repr_html_(self) -> str:
        """Return the figure and the numbers: what a notebook shows."""
        from explainers.rendering.notebook import figure_html, text_html

        return text_html(str(self), figure_html(self.figure(), f"words of the answer by words of the prompt, {self.title}"))

    def save(self, path: Path | str) -> None:
        """Write to the file ``path`` the numbers, if it ends in ``.json``, or the figure as ``.png``, ``.pdf`` or ``.svg``.

        Raises ExplainerError for any other ending of the name.
        """
        save_numbers_or_figure(path, lambda: json.dumps(self.to_json(), ensure_ascii=False, indent=1), self.figure)


def answer_table(
    model: Any, prompt: Any, method: str = TABLE_METHOD, *, seed: int = 0, chat: bool = False, cancelled: Callable[[], bool] | None = None
) -> AnswerTable:
    """Have a language model answer ``prompt`` greedily; return the score of each word of the prompt for each word of the answer, by
    ``method``.

    The answer is written once. Prompt and answer are then recorded in one forward pass, over which each word of the answer has its own
    backward pass. It explains the sum of the logits of the word's tokens, with the words before it as context. The score of a prompt's word
    is the sum of its tokens' scores if the method's scores are signed, else the largest of them. An encoder-decoder's table has its source
    as the prompt, and a column for each word of the answer that later words read. Each picture
    (:class:`explainers.PicturePrompt`) is one column, whose score is made of those of its patches in the same way.

    ``model`` is one that writes text, in any form that :func:`explainers.explain` takes; ``prompt`` is a text, or a picture with one;
    ``method`` is a spec. ``seed``, ``chat`` and ``cancelled`` mean what they mean in :func:`explainers.explain`.

    Raises ExplainerError for a model that writes no answer, and for a prompt of tensors that are not the tokens of a text.
    """
    opened = model_of(model)
    if not isinstance(opened.task, GeneratedAnswer):
        raise ExplainerError(f"{opened.name} writes no answer: pass a language model or an encoder-decoder that writes.")
    placed, prepared = ask_at(opened, with_chat_template(opened, prompt) if chat else prompt, "words")
    record = prepared.inputs[0]
    assert isinstance(record, TextInput)
    if not record.words and record.text != "":  # a picture alone has none
        raise ExplainerError("The words of this prompt are unknown, as it came as tensors: send it as a text.")
    given = explain(opened, prepared, list(range(len(placed.labels))), [method], at="words", seed=seed, cancelled=cancelled)
    result = given[0] if isinstance(given, list) else given
    maps = [result[method, target.label] for target in result.targets]
    words = [attribution.words() for attribution in maps]
    scores = [[word.score for word in row] for row in words]
    written = iter(number_repeats(word.text for word in words[0] if word.part == ANSWER))
    columns = [f"{WRITTEN}{next(written)}" if word.part == ANSWER else word.text for word in words[0]]
    if isinstance(record, PicturePromptInput):  # all patches of a picture as one column before the words
        scores = [[*_on_pictures(record, attribution), *row] for attribution, row in zip(maps, scores, strict=True)]
        columns = [*(f"({name})" for name in record.picture_names), *columns]
    return AnswerTable(
        model=result.model,
        prompt=record.text,
        answer=record.answer or "",
        method=maps[0].method,
        title=maps[0].title,
        rows=tuple(target.label for target in result.targets),
        columns=tuple(columns),
        places=tuple(f"{WORD}{target.label}" for target in result.targets),
        signed=maps[0].signed,
        logits=result.logits,
        scores=torch.tensor(scores, dtype=torch.float32),
        notes=tuple(result.notes),
    )


def _on_pictures(record: PicturePromptInput, attribution: Attribution) -> list[float]:
    """Return one score for each picture of ``record``: the sum of its patches' scores in ``attribution`` if these are signed, else the
    largest.
    """
    maps = [picture.map_of(attribution.scores) for picture in record.pictures]
    return [float(patches.sum() if attribution.signed else patches.max()) for patches in maps]
