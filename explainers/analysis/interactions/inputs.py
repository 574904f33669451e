"""One input of one encoder, as interactions take it: its tokens as they enter a block, where their path begins, and its units."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, get_args

import torch
from torch import Tensor

from explainers.autograd.memory import check_memory
from explainers.autograd.recomputation import recomputes_here
from explainers.autograd.recording import Recording
from explainers.errors import ExplainerError
from explainers.models.eval_mode import with_gradients
from explainers.models.input_sizes import name_expected_size
from explainers.models.inputs.types import ImageInput, Prepared, TextInput
from explainers.models.model import Model
from explainers.records.session import content_of

Baseline = Literal["zero", "empty"]
EntryBlock = Literal["first", "last"]


@dataclass(frozen=True, eq=False)
class Encoded:
    """One input of one encoder.

    model            the encoder, whose ``entry`` is the block that the tokens enter
    tensors          what the encoder was given, a batch of one
    record           which part of the picture or text it read; ``notes`` what a reader should know about that
    embedding        (D,), float32: the output of the encoder, which the similarity compares
    tokens           (S, width): the embedded tokens x^1; ``baseline_tokens`` those of the baseline, where the path to x^1 begins
    units            (units, S), 1 where a token belongs to a unit: a patch or a word
    is_token         (S,), 1 for each token that is no padding, the class token and other special ones included
    grid             (rows, columns) of the patches; None for a text
    """

    model: Model
    tensors: dict[str, Tensor]
    record: ImageInput | TextInput
    notes: tuple[str, ...]
    embedding: Tensor
    tokens: Tensor
    baseline_tokens: Tensor
    units: Tensor
    is_token: Tensor
    grid: tuple[int, int] | None


def encode(model: Model, prepared: Prepared, baseline: Baseline = "zero", block: EntryBlock = "first") -> Encoded:
    """Encode the one input in ``prepared``, and return it with the tokens that enter the first or the last ``block`` of ``model``, for it
    and for its ``baseline`` ("zero" or an empty input). A norm before the blocks, as in CLIP, is applied first.

    Raises ExplainerError for several inputs at once, and for an unknown baseline or block.
    """
    _check(baseline, Baseline, "baseline")
    _check(block, EntryBlock, "block")
    if len(prepared) != 1:
        raise ExplainerError(f"These are {len(prepared)} inputs: send one, which is compared with one other.")
    model = _from_block(model, block)
    with with_gradients(), name_expected_size(model, prepared.tensors):
        recomputed = recomputes_here(model)
        check_memory(model, prepared.tensors, recomputed=recomputed)
        recording = Recording(model, prepared.tensors, recomputed=recomputed)
    (record,) = prepared.inputs
    mask = recording.real_tokens.of_input[0]
    if isinstance(record, TextInput):
        record = record.without_padding(mask.tolist())
        members = [list(word.tokens) for word in record.words]
    else:
        content = content_of(record, recording.layout, int(mask.sum()))
        members = [[i] for i in torch.nonzero(content).flatten().tolist()]
    if not members:
        raise ExplainerError("There is no word and no patch here to compare.")
    indices = torch.nonzero(mask).flatten().tolist()
    units = torch.zeros(len(members), len(mask))
    for row, tokens in zip(units, members, strict=True):
        row[[indices[i] for i in tokens]] = 1
    x = recording.block_inputs[0].detach()[0]
    return Encoded(
        model=model,
        tensors=dict(prepared.tensors),
        record=record,
        notes=prepared.notes[0],
        embedding=recording.logits.detach()[0].float().cpu(),
        tokens=x,
        baseline_tokens=torch.zeros_like(x) if baseline == "zero" else _empty_tokens(model, prepared.tensors, record, mask),
        units=units,
        is_token=recording.mask[0].float().cpu(),
        grid=recording.layout.grid,
    )


def _check(value: object, choices: object, name: str) -> None:
    """Raise ExplainerError if ``value`` is none of the ``choices``; ``name`` is the argument's name."""
    if value not in get_args(choices):
        raise ExplainerError(f"{name}={value!r}: choose one of {', '.join(get_args(choices))}.")


def _from_block(model: Model, block: EntryBlock) -> Model:
    """Return the model cut so that its tokens enter at the first or the last block."""
    blocks = model.blocks if block == "first" else model.blocks[-1:]
    if block == "last" and list(model.blocks).count(blocks[0]) > 1:
        raise ExplainerError(f"{model.name} runs one block several times, so the last cannot be told from the others: choose block=first.")
    return replace(model, blocks=blocks, entry=blocks[0])


def _empty_tokens(model: Model, tensors: Mapping[str, Tensor], record: ImageInput | TextInput, mask: Tensor) -> Tensor:
    """Return the tokens (S, width) that an empty input of the same size gives at the first block: a picture of zeros, or a text of the
    special tokens around one padding token, padded to the length of the original. ``tensors`` are the model's arguments for the original,
    ``record`` describes it, ``mask`` (S,) says which of its tokens are real. Raises ExplainerError for a text model without a padding
    token.
    """
    tensors_of_empty = dict(tensors)
    if isinstance(record, ImageInput):
        tensors_of_empty["pixel_values"] = torch.zeros_like(tensors["pixel_values"])
    else:
        padding_id = model.details.get("padding_token_id")
        if padding_id is None:
            raise ExplainerError(f"{model.name} has no padding token to stand in an empty {model.kind}: choose baseline=zero.")
        ids = tensors["input_ids"][0][mask]
        special = [token.special for token in record.tokens]
        head, tail = special.index(False), special[::-1].index(False)
        empty_ids = torch.cat([ids[:head], ids.new_tensor([padding_id]), ids[len(ids) - tail :]])
        places = torch.nonzero(mask).flatten()
        padded_ids = torch.full_like(tensors["input_ids"], padding_id)
        padded_ids[0, places[: len(empty_ids)]] = empty_ids
        tensors_of_empty["input_ids"] = padded_ids
        if "attention_mask" in tensors:
            tensors_of_empty["attention_mask"] = torch.zeros_like(tensors["attention_mask"]).index_fill(1, places[: len(empty_ids)], 1)
    with with_gradients():
        return Recording(model, tensors_of_empty).block_inputs[0].detach()[0]
