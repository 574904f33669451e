"""Detectors that are asked with texts: OWL-ViT, OWLv2, Grounding DINO. Their classes are the texts; picture and text can both be explained.

Of the picture the texts are constants, each of them a class, and of a text the picture is one. OWL-ViT reads each text on its own.
Grounding DINO reads all of them in one row, with a full stop after each, and gives a logit for each token: a class has the largest of its
tokens'.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from explainers.errors import ExplainerError
from explainers.models.inputs.types import ModelKind
from explainers.models.layout import OtherTokens
from explainers.models.libraries import recognition as lib
from explainers.models.libraries.calls import RawForward
from explainers.models.tasks.detection import DEFORMABLE, ObjectDetection
from explainers.models.tasks.task import Place, Reading, Task, TaskInput

_LACKS_TEXTS = (
    '{} finds what texts name: pass them as labels=["a cat", "a remote control"], and tokenizer= if none was saved with it. To explain '
    "the words of a text instead, pass the picture as picture="
)
THE_TEXT = "the text"


class PromptedBoxes(ObjectDetection):
    """The task of a detector that is asked with texts, which are its classes. This base has what both sides share."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__("sigmoid")
        is_deformable = any(DEFORMABLE in type(part).__name__ for part in module.modules())
        self.ranks_boxes = is_deformable
        #: Whether all texts stand in one row, and a logit belongs to each token, not to each text.
        self.in_one_row = is_deformable

    @classmethod
    def of(cls, module: nn.Module, library: lib.Library, output: Any) -> Task | None:
        """Return None: no output shows this task, which a module is given by the arguments that it takes."""
        return None


class BoxesByTexts(PromptedBoxes):
    """Detection in a picture, asked with the texts of ``labels``; tokens of the picture are explained.

    Patches of pixels are, where the model samples points; else those of its vision tower, each of which has a box of its own.
    """

    def __init__(self, module: nn.Module, labels: Sequence[str] | None, tokenizer: Any) -> None:
        super().__init__(module)
        tokenizer = lib.tokenizer_of(module, tokenizer)
        if not labels or isinstance(labels, Mapping) or tokenizer is None:
            raise ExplainerError(_LACKS_TEXTS.format(type(module).__name__))
        self.reads_pixels = self.in_one_row
        texts = [str(label) for label in labels]
        self.tensors: dict[str, Tensor]
        self.spans: list[slice] | None
        self.tensors, self.spans = (_in_one_row if self.in_one_row else _in_rows)(tokenizer, texts, module)

    def raw_forward(self, forward: RawForward) -> RawForward:
        """Return a forward pass of pictures that adds the texts, and has a logit for each of these."""

        def run(tensors: Mapping[str, Tensor]) -> Any:
            pixels = tensors["pixel_values"]
            texts = {name: tensor.repeat(len(pixels), 1).to(pixels.device) for name, tensor in self.tensors.items()}
            return forward({**tensors, **texts})

        inner = super().raw_forward(run)
        return inner if self.spans is None else lambda tensors: _by_text(inner(tensors), self.spans or [])

    def reading(self, place: Place, task_input: TaskInput) -> Reading:
        """Return a :class:`Reading` of ``place``; a box of OWL-ViT is read from the token of its patch, times the class token."""
        reading = super().reading(place, task_input)
        if self.reads_pixels:
            return reading
        layout, index = task_input.layout, int(place.at.removeprefix("box:").partition("/")[0])
        return replace(reading, token=layout.patches.start + index, other_tokens=OtherTokens(in_front=layout.prefix))


_NO_STOP = (
    "The text does not end in a full stop, and this model reads words together up to a full stop: each of these words attends to itself "
    "alone, and input times gradient may be zero. Put a full stop after the text."
)


class WordsOfBoxes(PromptedBoxes):
    """Detection in one picture, ``pixels`` (1, C, height, width), asked with a text whose tokens are explained."""

    control = "boxes"

    def __init__(self, module: nn.Module, pixels: Tensor) -> None:
        super().__init__(module)
        self.pixels = pixels

    def raw_forward(self, forward: RawForward) -> RawForward:
        """Return a forward pass of texts that adds the picture, and has one logit for each box."""

        def run(tensors: Mapping[str, Tensor]) -> Any:
            return forward({**tensors, "pixel_values": self.pixels.expand(len(tensors["input_ids"]), -1, -1, -1)})

        inner = super().raw_forward(run)
        if not self.in_one_row:
            return inner
        stop = None if self.tokenizer is None else self.tokenizer.convert_tokens_to_ids(".")

        def run_in_one_row(tensors: Mapping[str, Tensor]) -> Any:
            """Return the output with one logit for each box: the largest of all tokens but the first, the last and full stops."""
            output, ids = inner(tensors), tensors["input_ids"]
            is_stop = torch.zeros_like(ids[:, 1:-1], dtype=torch.bool) if stop is None else ids[:, 1:-1] == stop
            logits = output["logits"][..., 1 : ids.shape[1] - 1].masked_fill(is_stop[:, None], -torch.inf)
            return {**output, "logits": logits.amax(-1, keepdim=True)}

        return run_in_one_row

    def reading(self, place: Place, task_input: TaskInput) -> Reading:
        """Return a :class:`Reading` of ``place``, with a note on a text for Grounding DINO that does not end in a full stop."""
        reading = PromptedBoxes.reading(self, place, task_input)
        ids = task_input.tensors["input_ids"][0].tolist()
        if not self.in_one_row or self.tokenizer is None or self.tokenizer.convert_tokens_to_ids(".") == ids[-2]:
            return reading
        return replace(reading, notes=(*reading.notes, _NO_STOP))

    def _labels(self, task_input: TaskInput) -> list[str]:
        return [THE_TEXT]


def _by_text(output: Any, spans: Sequence[slice]) -> dict[str, Any]:
    """Return ``output`` of a module with the logits of each text (B, Q, texts): the largest of its tokens, which lie at ``spans``."""
    logits = output["logits"]
    return {**output, "logits": torch.stack([logits[..., span].amax(-1) for span in spans], -1)}


def _in_rows(tokenizer: Any, labels: Sequence[str], module: nn.Module) -> tuple[dict[str, Tensor], None]:
    """Return the tensors of texts in a row each, padded to the length that the text tower was made for."""
    length = getattr(lib.text_config(module), "max_position_embeddings", None)
    texts = tokenizer(list(labels), padding="max_length" if length else True, max_length=length, truncation=True, return_tensors="pt")
    return {name: texts[name] for name in ("input_ids", "attention_mask")}, None


def _in_one_row(tokenizer: Any, labels: Sequence[str], module: nn.Module) -> tuple[dict[str, Tensor], list[slice]]:
    """Return the tensors of all texts in one row, a full stop after each, and where the tokens of each stand in it."""
    stop = tokenizer.convert_tokens_to_ids(".")
    ids: list[int] = [tokenizer.cls_token_id]
    spans: list[slice] = []
    for label in labels:
        pieces = tokenizer(label.strip().rstrip("."), add_special_tokens=False)["input_ids"]
        spans.append(slice(len(ids), len(ids) + len(pieces)))
        ids += [*pieces, stop]
    row = torch.tensor([[*ids, tokenizer.sep_token_id]])
    longest: int = getattr(module.config, "max_text_len", 256)
    if row.shape[1] > longest:
        raise ExplainerError(f"the texts of labels= have {row.shape[1]} tokens together, and the model takes {longest}: pass fewer")
    return {"input_ids": row, "attention_mask": torch.ones_like(row), "token_type_ids": torch.zeros_like(row)}, spans


def blocks_of_tower(module: nn.Module, kind: ModelKind, task: PromptedBoxes) -> str | None:
    """Return the dotted name of the blocks of the tower of ``module`` that reads pictures, or for the ``kind`` "text" of the one that reads
    texts; None if patches of pixels are explained.
    """
    if task.reads_pixels:
        return None
    towers = (
        name
        for name, part in module.named_modules()
        if name and isinstance(part, nn.Module) and _reads_alone(part, "input_ids" if kind == "text" else "pixel_values")
    )
    lists = (
        f"{tower}.{name}"
        for tower in towers
        for name, part in module.get_submodule(tower).named_modules()
        if isinstance(part, nn.ModuleList) and len(part)
    )
    blocks = next(lists, None)
    if blocks is None:
        raise ExplainerError(f"the blocks of {type(module).__name__} that read {kind}s were not found: pass blocks=")
    return blocks


def _reads_alone(part: nn.Module, wanted: str) -> bool:
    takes = inspect.signature(part.forward).parameters
    return wanted in takes and not ({"input_ids", "pixel_values"} - {wanted}) & set(takes)
