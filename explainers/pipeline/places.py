"""The places of a model that gives more than one row of logits: it is asked about one place of its output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from explainers.autograd.recording import Recording
from explainers.errors import ExplainerError
from explainers.methods import parse
from explainers.methods.requirements import lacks_of, reason_against
from explainers.models.eval_mode import evaluating
from explainers.models.inputs.types import Input, Prepared
from explainers.models.model import Model
from explainers.models.structure.word_places import WORD_TABLES
from explainers.models.tasks.features import REFERENCE, Features, without_reference

_SEVERAL_TABLES = (
    "This model looks each token up in {count} tables ({tables}) and makes one embedded token of what they hold: a score is of that token, "
    "and is not split between the tables."
)


def single_inputs(model: Model, inputs: Any) -> list[Any]:
    """Split ``inputs`` of ``model`` into a list of single ones, since each has places of its own. Raises ExplainerError for a prepared
    batch or a batch of tensors.
    """
    if isinstance(inputs, list | tuple):
        return list(inputs)
    tensors = inputs.tensors if isinstance(inputs, Prepared) else inputs if isinstance(inputs, dict) else {}
    sizes = [len(tensor) for name, tensor in tensors.items() if model.is_sample(name)]
    if any(size != 1 for size in sizes):
        raise ExplainerError(f"{model.name} is asked about one place of one input at a time, and a batch of {sizes[0]} was sent.")
    return [inputs]


def with_chat_template(model: Model, given: Any) -> Any:
    """Return ``given``, a prompt or several, prepared with the chat template of the tokenizer of ``model`` around each; a prepared input is
    returned as it is. Raises ExplainerError if the model has no template.
    """
    if isinstance(given, Prepared):
        return given
    return [model.prepare(prompt, chat=True) for prompt in given] if isinstance(given, list | tuple) else model.prepare(given, chat=True)


def ask_at(model: Model, inputs: Input | Prepared, at: str | None, reference: Any = None) -> tuple[Model, Prepared]:
    """Return the model set to the place ``at`` of its output for one input, and that input prepared.

    ``reference`` is a second input, with whose features the place ``similar`` compares the first. Raises ExplainerError for an unknown
    place, and for a reference with a model that has a head.
    """
    prepared = inputs if isinstance(inputs, Prepared) else model.prepare(without_reference(inputs) if isinstance(inputs, dict) else inputs)
    if isinstance(inputs, dict) and REFERENCE in inputs:
        prepared = replace(prepared, tensors={**prepared.tensors, REFERENCE: inputs[REFERENCE].to(model.device)})
    if reference is not None:
        if not isinstance(model.task, Features) or model.raw_forward is None:
            raise ExplainerError(f"{model.name} has a head and compares nothing: leave reference= out, or take its backbone.")
        with torch.no_grad(), evaluating(model.module):
            features = model.task.pooled_features(model.raw_forward(model.prepare(reference).tensors))
        prepared = replace(prepared, tensors={**prepared.tensors, REFERENCE: features.detach()})
    placed = model.at(at, prepared)
    return placed, prepared if placed.reading is None else placed.reading.mark(prepared)


def runnable_specs(specs: Sequence[str], model: Model, prepared: Prepared) -> tuple[list[str], str | None]:
    """Return the ``specs`` that can run for the place of the input ``prepared`` about which ``model`` is asked, and a note on why the
    others cannot (None: all can).
    """
    with torch.no_grad():
        lacks = lacks_of(Recording(model, prepared.tensors, pixels=True))
    reasons: dict[str, list[str]] = {}
    for spec in specs:
        request = parse(spec, blocks=len(model.blocks))
        if (reason := reason_against(request.method, lacks, request.options)) is not None:
            reasons.setdefault(reason, []).append(spec)
    left_out = [f"{', '.join(named)} ({reason})" for reason, named in reasons.items()]
    note = f"Left out, because they cannot run for this place: {'; '.join(left_out)}" if left_out else None
    return [spec for spec in specs if not any(spec in named for named in reasons.values())], note


def notes_on_model(model: Model) -> tuple[str, ...]:
    """Return notes for people on a model: warnings of the checks that failed when it was opened, of what its tokens are made, and which
    number is explained at the chosen place.
    """
    warnings = () if model.report is None else model.report.warnings
    tables = model.details.get(WORD_TABLES, ())
    of_several = (_SEVERAL_TABLES.format(tables=", ".join(tables), count=len(tables)),) if tables else ()
    of_tokens = () if model.block_kind.tokens_note is None else (model.block_kind.tokens_note,)
    return (*warnings, *of_several, *of_tokens, *(() if model.reading is None else model.reading.notes))
