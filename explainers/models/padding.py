"""Texts of different lengths in one batch: whether the padding of the shorter ones changes what a model answers, and batches without it.

A mask keeps words from attending to padding; it does not keep a head from reading the last position, nor a model from counting positions
from padding that comes first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import groupby
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from explainers.errors import is_memory_shortage
from explainers.models.eval_mode import evaluating
from explainers.models.inputs.types import Prepared, TextInput
from explainers.models.libraries.recognition import dtype_of, text_config
from explainers.models.model import Model
from explainers.models.outputs import Forward

#: The name of the fact in ``Model.details``.
CHANGED_BY_PADDING = "changed_by_padding"
_TRIED = 2  # tokens of padding
#: The largest difference of an answer alone and in a padded batch, relative to the largest logit, that is rounding; in half precision.
_ROUNDING, _ROUNDING_OF_HALF = 1e-4, 3e-2


def is_changed_by_padding(
    module: nn.Module, run: Forward, text: Mapping[str, Tensor], tokenizer: Any, takes_positions: bool, answers: Tensor | None = None
) -> bool:
    """Return whether the answer of ``module`` to ``text``, of one row, changes when padding is added on the side where ``tokenizer`` adds
    it. ``run`` returns its logits for a dict of tensors.

    ``takes_positions``: whether the positions of words are sent with padding that comes first; ``answers``: what ``run`` gives for the
    text, None if that is not known. Raises the error of a pass for which memory ran out.
    """
    if "attention_mask" not in text or "input_ids" not in text:
        return False  # padded texts are refused
    known = (getattr(source, "pad_token_id", None) for source in (tokenizer, text_config(module)))
    padding = next((i for i in known if isinstance(i, int) and i >= 0), 0)
    is_left = getattr(tokenizer, "padding_side", "right") == "left"
    sides = (_TRIED, 0) if is_left else (0, _TRIED)
    padded = {"input_ids": F.pad(text["input_ids"], sides, value=padding), "attention_mask": F.pad(text["attention_mask"], sides)}
    if is_left and takes_positions:
        padded["position_ids"] = (padded["attention_mask"].cumsum(1) - 1).clamp(min=0)
    with torch.no_grad(), evaluating(module):
        alone = run(text) if answers is None else answers
        try:
            beside = run({**text, **padded})
        except Exception as error:  # a model that takes texts of one length
            if is_memory_shortage(error):  # nothing is known of the model then
                raise
            return False
    if alone.shape != beside.shape or not bool(alone.isfinite().all()):
        return False
    tolerance = _ROUNDING if dtype_of(module).itemsize > 2 else _ROUNDING_OF_HALF
    return not bool((alone - beside).abs().max() <= tolerance * alone.abs().max())


def of_equal_length(model: Model, prepared: Prepared) -> list[Prepared]:
    """Split ``prepared``, a batch of texts, into batches without padding, in the same order, if padding changes the answers of ``model``;
    else return a list of the batch itself.
    """
    mask = prepared.tensors.get("attention_mask")
    if not model.details.get(CHANGED_BY_PADDING) or mask is None or bool(mask.all()):
        return [prepared]
    rows = [row.nonzero()[:, 0] for row in mask.bool()]
    spans = [(int(row[0]), int(row[-1]) + 1) if len(row) else (0, mask.shape[1]) for row in rows]
    parts = []
    for span, numbers in groupby(range(len(spans)), spans.__getitem__):
        several = list(numbers)
        tensors = {
            name: tensor[several, slice(*span)] if tensor.shape[1:2] == mask.shape[1:] else tensor[several]
            for name, tensor in prepared.tensors.items()
        }
        records = tuple(_cut(prepared.inputs[i], range(*span)) for i in several)
        parts.append(replace(prepared, tensors=tensors, inputs=records, notes=tuple(prepared.notes[i] for i in several)))
    return parts


def _cut(record: Any, kept: range) -> Any:
    return record.without_padding([i in kept for i in range(len(record.tokens))]) if isinstance(record, TextInput) else record
