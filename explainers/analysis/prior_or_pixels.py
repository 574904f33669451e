"""Shares of a vision-language model's answer: how much of each word's logit came from the picture, the prompt and the words before it.

Under Libra the model is linear in its embedded tokens: attention weights, scales of norms and gates are constants, and a product of two
paths is halved. So the logit of a word is a sum over tokens, plus what biases and other constants add. The same is done once more with the
picture painted grey, and the same answer: what stays then did not come from what the picture shows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import torch
from torch import Tensor

from explainers.autograd.memory import check_memory, has_long_rows
from explainers.autograd.recomputation import recomputes_here
from explainers.autograd.recording import Recording
from explainers.autograd.rules import RULES
from explainers.autograd.signals import ACCOUNT
from explainers.errors import ExplainerError
from explainers.json_records import Record, describe
from explainers.models.inputs.types import ANSWER, PICTURE, PicturePrompt, PicturePromptInput, Prepared
from explainers.models.libraries.vision_language import later_entries_of, pixels_name
from explainers.models.model import Model
from explainers.models.tasks import GeneratedAnswer
from explainers.models.tasks.generated_answer import WORD
from explainers.pipeline.memory_steps import in_memory_steps
from explainers.pipeline.places import ask_at, with_chat_template
from explainers.records.session import checker
from explainers.rendering.plain import align
from explainers.rendering.saving import save_numbers_or_figure
from explainers.self_check.opening import model_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["LogitShares", "PriorOrPixels", "prior_or_pixels"]

#: The parts of a logit after its pictures.
_OTHERS = ("prompt", "answer so far", "constant")
_START = "start"  # of the decoder, in place of the prompt, where a text is written from a picture alone
_COUNTED_LATER = "In these shares, what the picture adds to later blocks is counted as the picture's."
#: The largest part of a logit, or of 1 if that is more, that may be missing from the sum of its shares before a note says so.
_MAX_MISSING_SHARE = 1e-3


@dataclass(frozen=True, eq=False)
class LogitShares(Record):
    """The logits of the words of an answer and the shares of which they are sums, from one pass over picture, prompt and answer.

    logits   float32 (words,)
    shares   float32 (words, parts)
    missing  float32 (words,)
    """

    logits: Annotated[Tensor, describe("Of each word, the sum of the logits of its tokens.", kind=list[float])]
    shares: Annotated[Tensor, describe("A row for each word, a column for each part of its logit.", kind=list[list[float]])]
    missing: Annotated[
        Tensor,
        describe("Of each word, its logit minus the sum of its shares: rounding, unless a note says what else.", kind=list[float]),
    ]


@dataclass(frozen=True, eq=False)
class PriorOrPixels(Record):
    """Each word of a vision-language model's answer, with the shares of its logit that came from the picture, the prompt, the words before
    it and constants, for the picture as it is and for the same picture painted grey. ``print`` shows both, :meth:`figure` draws them.
    """

    model: Annotated[str, describe("The name of the model.")]
    prompt: str | None
    answer: str
    words: Annotated[tuple[str, ...], describe("The words of the answer, with #2 after a word that stands there a second time.")]
    places: Annotated[tuple[str, ...], describe("Of each word, what the field ``at`` of POST /api/explanations and ``explain(at=)`` take.")]
    parts: Annotated[
        tuple[str, ...],
        describe("Of a logit: each picture; the prompt with its special tokens; the tokens of the answer before it; constants (biases)."),
    ]
    original: Annotated[LogitShares, describe("With the picture as it is.")]
    grey: Annotated[
        LogitShares | None,
        describe("Of the same words, with every pixel of the picture grey; null if how the model's pictures are prepared is not known."),
    ]
    notes: Annotated[tuple[str, ...], describe("What a person should know.")] = ()

    @property
    def from_pixels(self) -> Tensor | None:
        """Return by how much the logit of each word falls when the picture is painted grey, (words,); None if that is not known."""
        return None if self.grey is None else self.original.logits - self.grey.logits

    def __str__(self) -> str:
        sides = [self.original] if self.grey is None else [self.original, self.grey]
        head = ["", "logit", *self.parts]
        table = [head if self.grey is None else [*head, "| grey: logit", *self.parts]]
        for row, word in enumerate(self.words):
            cells = [f"{value:.2f}" for side in sides for value in (side.logits[row].item(), *side.shares[row].tolist())]
            table.append([word, *cells])
        title = f"{self.model}: where the logit of each word of the answer came from (Libra)"
        return "\n".join([title, *align(table, left=(0,)), *(f"note: {note}" for note in self.notes)])

    def figure(self) -> Figure:
        """Draw the shares of each word as a bar, and below it those with the picture painted grey; return the matplotlib Figure, which is
        neither shown nor saved.
        """
        from matplotlib.figure import Figure

        sides = [self.original] if self.grey is None else [self.original, self.grey]
        figure = Figure(figsize=(7.0, max(2.6, 0.55 * len(self.words) + 1.4)), layout="constrained")
        axes = figure.add_subplot()
        height = 0.8 / len(sides)
        for number, side in enumerate(sides):
            places = torch.arange(len(self.words)) + (number - (len(sides) - 1) / 2) * height
            ends = {True: torch.zeros(len(self.words)), False: torch.zeros(len(self.words))}
            for part, name in enumerate(self.parts):
                values = side.shares[:, part]
                start = ends[True].where(values >= 0, ends[False])
                drawn = axes.barh(places.tolist(), values.tolist(), 0.9 * height, start.tolist(), color=f"C{part}", alpha=1 - 0.55 * number)
                if not number:
                    drawn.set_label(name)
                ends = {True: ends[True] + values.clamp(min=0), False: ends[False] + values.clamp(max=0)}
            axes.plot(side.logits.tolist(), places.tolist(), "k|", markersize=9)
        axes.set_yticks(range(len(self.words)), self.words)
        axes.invert_yaxis()
        axes.axvline(0, color="black", linewidth=0.6)
        axes.set_xlabel("logit, and the shares of which it is the sum" + ("" if self.grey is None else " (pale: picture painted grey)"))
        axes.legend(fontsize=8)
        return figure

    def _repr_html_(self) -> str:
        """Return the figure and the numbers: what a notebook shows."""
        from explainers.rendering.notebook import figure_html, text_html

        return text_html(str(self), figure_html(self.figure(), "shares of the logit of each word of the answer"))

    def save(self, path: Path | str) -> None:
        """Write to the file ``path`` the numbers, if it ends in ``.json``, or the figure as ``.png``, ``.pdf`` or ``.svg``.

        Raises ExplainerError for any other ending of the name.
        """
        save_numbers_or_figure(path, lambda: json.dumps(self.to_json(), ensure_ascii=False, indent=1), self.figure)


@in_memory_steps
def prior_or_pixels(
    model: Any,
    prompt: PicturePrompt | Prepared | Mapping[str, Tensor],
    *,
    chat: bool = False,
    cancelled: Callable[[], bool] | None = None,
) -> PriorOrPixels:
    """Have a vision-language model answer a picture and a prompt greedily, and divide the logit of each word of the answer among the
    picture, the prompt, what was written before it, and constants.

    The explained number is the sum of the logits of the word's tokens. The share of a token is its embedding at the first block of the
    language model times the signal that arrives there under the rule ``libra``, summed over the width; the constant share is that of all
    biases. A picture that enters later blocks too (Qwen3-VL's deepstack) has that counted in its share. The shares add up to the logit but
    for ``missing``. The prompt includes its special tokens, those of a chat template and the start of a decoder; tokens inside a picture
    that show no part of it, such as the ends of its rows, count as the picture.

    The same is computed for the same words with every pixel of the picture grey (128 of 255): what of the picture's share is still there
    does not depend on what it shows. The difference of the two logits is what its contents changed.

    ``prompt`` is a picture with a text, or the tensors of the model's processor. ``chat`` and ``cancelled`` mean what they mean in
    :func:`explainers.explain`. Raises ExplainerError for a model that writes nothing about pictures.
    """
    opened, check = model_of(model), checker(cancelled)
    if not opened.reads_pictures or not isinstance(opened.task, GeneratedAnswer):
        raise ExplainerError(f"{opened.name} writes nothing about pictures: pass a model that does (LLaVA's kind).")
    placed, prepared = ask_at(opened, with_chat_template(opened, prompt) if chat else prompt, "words")
    record = prepared.inputs[0]
    assert isinstance(record, PicturePromptInput)
    assert placed.reading is not None
    later = (_COUNTED_LATER,) if later_entries_of(opened.module) else ()
    notes = [*prepared.notes[0], *later, *(note for note in placed.reading.notes if "not the likeliest" in note)]
    names, parts = _parts_of(record)
    original, unruled = _shares(placed, prepared.tensors, parts, len(record.pictures), check)
    grey = None
    if opened.grey_pixels is not None:
        name = pixels_name(prepared.tensors)
        painted = {**prepared.tensors, name: opened.grey_pixels(record).to(prepared.tensors[name])}
        grey, _ = _shares(placed, painted, parts, len(record.pictures), check)
    elif opened.reads == ("sound",):
        notes.append("There is no grey sound, so that nothing is shown for one.")
    else:
        notes.append("How this model's pictures are prepared is not known, so that nothing is shown for a grey one.")
    notes += _notes_on_missing([original] if grey is None else [original, grey], unruled)
    return PriorOrPixels(
        model=opened.name,
        prompt=record.text,
        answer=record.answer or "",
        words=tuple(placed.labels),
        places=tuple(f"{WORD}{label}" for label in placed.labels),
        parts=names,
        original=original,
        grey=grey,
        notes=tuple(dict.fromkeys(notes)),
    )


def _parts_of(record: PicturePromptInput) -> tuple[tuple[str, ...], Tensor]:
    """Return the names of the parts of a logit, and the index of the part to which each token of ``record`` belongs, (tokens,)."""
    firsts = [int(picture.patches.min()) for picture in record.pictures]
    count = len(firsts)

    def part_of(index: int, part: int) -> int:
        if part == PICTURE:
            return max(0, sum(first <= index for first in firsts) - 1)
        return count + (part == ANSWER)

    others = _OTHERS if record.text != "" else (_START, *_OTHERS[1:])
    return (*record.picture_names, *others), torch.tensor([part_of(index, token.part) for index, token in enumerate(record.tokens)])


class _PictureRecording(Recording):
    """A recording that also sums the terms of pictures that enter between blocks: ``later`` (picture tokens,), of the last backward pass.

    Such a term is a constant for the recording, as it starts at the embedded tokens; it is told by its shape, a row for each of the tokens
    of the pictures, of which there are ``picture_tokens``, and for no others.
    """

    later: Tensor
    picture_tokens = 0

    def add_bias(self, signal: Tensor, bias: Tensor, position: int | None = None) -> None:
        """Add the bias term signal * bias as :class:`Recording` does; note it if it belongs to the tokens of the pictures alone."""
        if signal.dim() == bias.dim() == 2 and len(bias) == self.picture_tokens:
            self.later += (signal * bias).detach().double().sum(1).cpu()
        super().add_bias(signal, bias, position)


def _shares(
    model: Model, tensors: Mapping[str, Tensor], parts: Tensor, pictures: int, check: Callable[[], None]
) -> tuple[LogitShares, set[str]]:
    """Return the shares of the logits that ``model`` gives for ``tensors``, and the names of functions for which Libra has no rule.

    ``parts`` (tokens,) is the part of each token: one of so many ``pictures``, then the prompt, then the answer. ``check`` raises if nobody
    waits any more.
    """
    check()
    recomputed = recomputes_here(model) or has_long_rows(model, tensors)
    check_memory(model, tensors, recomputed=recomputed)
    recording = _PictureRecording(model, tensors, recomputed=recomputed)
    logits, x = recording.logits.detach(), recording.block_inputs[0].detach()
    of_pictures = parts[parts < pictures]
    recording.picture_tokens = len(of_pictures)
    rows, unruled = [], set[str]()
    for start in torch.eye(logits.shape[1], dtype=logits.dtype, device=logits.device):
        check()
        recording.later = torch.zeros(len(of_pictures), dtype=torch.float64)
        signals = recording.backward(RULES["libra"], start[None], ACCOUNT)
        assert signals.bias is not None
        assert signals.unplaced is not None
        unruled |= signals.unruled
        row = torch.zeros(pictures + len(_OTHERS), dtype=torch.float64)
        row.index_add_(0, parts, (x * signals.block_inputs[0])[0].double().sum(1).cpu())
        row.index_add_(0, of_pictures, recording.later)
        row[-1] = float(signals.bias.double().sum() + signals.unplaced.double().sum() - recording.later.sum().to(x.device))
        rows.append(row)
    shares = torch.stack(rows)
    missing = logits[0].double().cpu() - shares.sum(1)
    return LogitShares(logits[0].float().cpu(), shares.float(), missing.float()), unruled


def _notes_on_missing(sides: Sequence[LogitShares], unruled: set[str]) -> list[str]:
    """Return notes on what Libra could not follow in ``sides``: functions without a rule (``unruled``), and logits that their shares miss
    by more than rounding.
    """
    notes = []
    if unruled:
        notes.append(f"This model uses {', '.join(sorted(unruled))}. Libra has no choice for that, so it used the ordinary gradient there.")
    most = max(float((side.missing.abs() / side.logits.abs().clamp(min=1)).max()) for side in sides)
    if most > _MAX_MISSING_SHARE:
        notes.append(f"The shares do not add up to the logit: they miss it by up to {most:.2g} of it.")
    return notes
