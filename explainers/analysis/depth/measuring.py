"""Measure how much of the work of a model its Transformer does, on inputs of one's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from explainers.analysis.depth.asker import Asker, Batch, own_answers, prepare_batches, right_of
from explainers.analysis.depth.block_calls import find_parts
from explainers.analysis.depth.findings import (
    NotMasked,
    PartLosses,
    isolated_answers,
    measure_agreement,
    measure_heads,
    measure_parts,
    measure_reading,
    median_agreement,
)
from explainers.analysis.depth.records import AgreementFinding, Depth, HeadsFinding, PartsFinding, ReadingFinding
from explainers.analysis.depth.replacement import MeanOutputs
from explainers.errors import ExplainerError
from explainers.methods.registry import METHODS
from explainers.methods.requests import parse
from explainers.methods.requirements import missing_requirements, reason_against
from explainers.models.inputs.types import Crop, PicturePrompt, TextPair
from explainers.models.model import Model
from explainers.pipeline.explain import explain
from explainers.pipeline.memory_steps import run_in_steps
from explainers.records.session import Cancelled, Session
from explainers.self_check.opening import model_of

MIN_INPUTS = 8  # fewer give intervals that say nothing
MAX_INPUTS = 64
MAX_MAPPED_INPUTS = 8  # whose heads and maps are compared
FORWARDS_OF_A_MAP = 3  # what a map is counted as, for the progress
#: One of each family, compared where they run.
COMPARED_METHODS = (
    "rollout", "generic_attention", "transformer_attribution", "input_x_gradient:attnlrp", "fullgrad_plus:libra", "pytorch_grad_cam",
)  # fmt: skip


class _Progress:
    """A counter of the inputs that the model has answered, out of all that it will be asked, for reports of progress."""

    def __init__(self, progress: Callable[[int, int], None] | None, cancelled: Callable[[], bool] | None) -> None:
        self._progress, self.cancelled = progress, cancelled
        self.done = self.total = 0

    def check(self) -> None:
        """Raise Cancelled if the caller's ``cancelled`` returns true."""
        if self.cancelled is not None and self.cancelled():
            raise Cancelled

    def step(self, inputs: int) -> None:
        """Report the progress, and count ``inputs`` more, before they are asked."""
        self.check()
        if self._progress is not None:
            self._progress(self.done, max(self.total, self.done + inputs))
        self.done += inputs

    def end(self) -> None:
        """Report that all inputs are done."""
        if self._progress is not None:
            self._progress(self.done, self.done)


def depth(
    model: Any,
    inputs: Iterable[Any],
    labels: Sequence[str | int] | None = None,
    *,
    prompts: Sequence[str] | None = None,
    limit: int = MAX_INPUTS,
    progress: Callable[[int, int], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Depth:
    """Measure how much of the work of a model its Transformer does, on these inputs.

    It finds whether the parts matter, whether heads differ, whether patches or words read each other, and whether methods agree.

    model     as :func:`explain` takes one
    inputs    at least eight pictures, paths or texts; of more than ``limit``, that many are taken evenly
    labels    the right class of each input. None: the model's own answers are right; noise alone raises their loss a little
    prompts   two or more, for a model that compares pictures with prompts
    progress  called with the number of inputs that have passed the model, and their total, which may grow
    cancelled  called before each pass; when true, :class:`Cancelled` is raised

    A part gives its mean output over the inputs in place of its own (Wang et al., ICLR 2023, section 2.1): by patch for pictures, over
    words for texts. A finding that cannot be made is replaced by a sentence that says why. Raises ExplainerError for fewer inputs and for
    one that cannot be read.
    """
    model, counter = model_of(model), _Progress(progress, cancelled)
    items, labels, notes = _chosen(model, inputs, labels, prompts, limit)
    return run_in_steps(lambda: model, lambda: _measure(model, items, labels, prompts, notes, counter))


def _measure(
    model: Model,
    items: Sequence[Any],
    labels: Sequence[str | int] | None,
    prompts: Sequence[str] | None,
    notes: Sequence[str],
    counter: _Progress,
) -> Depth:
    """Measure the depth of a model on ``items``, and return it: how much each block and part changes the answers, whether tokens must read
    each other, how alike the heads are and how the methods agree.

    ``labels`` are the right classes (None: the model's own answers count as right), ``prompts`` what pictures are compared with, ``notes``
    sentences for the result; ``counter`` reports progress.
    """
    asker = Asker(prepare_batches(model, items, prompts, counter.check), counter.step)
    mapped = [items[i] for i in np.linspace(0, len(items) - 1, min(MAX_MAPPED_INPUTS, len(items))).astype(int)]
    lacks = missing_requirements(model)
    methods = [spec for spec in COMPARED_METHODS if reason_against(METHODS[parse(spec).method.name], lacks) is None]
    counter.total = 2 * len(asker) + len(mapped) * FORWARDS_OF_A_MAP * (1 + len(methods))
    parts, reading = _ask(asker, model, labels, lacks, counter)
    heads = _heads(model, mapped, prompts, lacks, counter)
    agreement = _agreement(model, mapped, methods, prompts, counter)
    counter.end()
    return Depth(model.name, len(items), "own answers" if labels is None else "labels", parts, heads, reading, agreement, tuple(notes))


def _chosen(
    model: Model, inputs: Iterable[Any], labels: Sequence[str | int] | None, prompts: Sequence[str] | None, limit: int
) -> tuple[list[Any], Sequence[str | int] | None, list[str]]:
    """Choose at most ``limit`` of the ``inputs`` of a measurement, evenly spaced. Return them, their labels (None if ``labels`` is), and a
    note if any were left out.

    Raises ExplainerError for inputs, labels or ``prompts`` that ``model`` cannot be measured with.
    """
    if isinstance(inputs, str | bytes | Mapping | Tensor | Crop | TextPair | PicturePrompt) or not isinstance(inputs, Iterable):
        raise ExplainerError(f"inputs is a list of pictures, paths or texts, not a {type(inputs).__name__}: send at least {MIN_INPUTS}.")
    items = list(inputs)
    if min(len(items), limit) < MIN_INPUTS:
        raise ExplainerError(f"Depth is measured on at least {MIN_INPUTS} inputs, for intervals, and there are {min(len(items), limit)}.")
    if labels is not None and len(labels) != len(items):
        raise ExplainerError(f"There are {len(labels)} labels for {len(items)} inputs: send one for each, or none.")
    if model.prompt_inputs is not None and len(set(prompts or ())) < 2:
        raise ExplainerError(f"{model.name} compares pictures with prompts: send at least two, such as prompts=['a cat', 'a dog'].")
    if model.prompt_inputs is None and prompts is not None:
        raise ExplainerError(f"{model.name} compares nothing with prompts: leave prompts out.")
    if len(items) <= limit:
        return items, labels, []
    taken = np.linspace(0, len(items) - 1, limit).astype(int).tolist()
    note = f"{limit} of {len(items)} inputs were measured, taken evenly."
    return [items[i] for i in taken], None if labels is None else [labels[i] for i in taken], [note]


def _ask(
    asker: Asker, model: Model, labels: Sequence[str | int] | None, lacks: Mapping[str, str], counter: _Progress
) -> tuple[PartsFinding, ReadingFinding]:
    """Run the model on all inputs of ``asker``: unchanged, without parts, and with tokens that do not read each other. Return the findings
    on the parts and on reading. ``labels`` are the right classes (None: the model's own answers), ``lacks`` is what the model lacks, by
    name, with the reason, and ``counter`` reports the progress.
    """
    try:
        parts = find_parts(asker.batches[0].model, _first_row(asker.batches[0]))
        why = ""
    except ExplainerError as problem:
        parts, why = [], str(problem)
    counter.total += (len(parts) + 3) * len(asker) if parts else 0
    means = MeanOutputs(asker, parts)
    try:
        logits = means.collect()
    except ExplainerError as problem:
        parts, why = [], str(problem)
        logits = asker.logits()
    if any(batch.model.output == "regression" for batch in asker.batches):
        says = f"was not measured: {model.name} gives values, not probabilities of classes."
        return PartsFinding(f"The loss without a part {says}"), ReadingFinding(f"Reading {says}")
    own_classes = [own_answers(of_batch, batch.model.output) for batch, of_batch in zip(asker.batches, logits, strict=True)]
    _set_right(asker, own_classes, labels, model)
    reading = _reading(asker, model, own_classes, lacks)
    if not parts:
        return PartsFinding(f"The loss without a part was not measured. {why}"), reading

    def plan(passes: int) -> None:
        counter.total += passes * len(asker)

    losses = PartLosses(means, asker.losses_of(logits), plan)
    return measure_parts(losses, parts, len(asker)), reading


def _first_row(batch: Batch) -> dict[str, Tensor]:
    return {name: tensor[:1] if batch.model.is_sample(name) else tensor for name, tensor in batch.tensors.items()}


def _set_right(asker: Asker, own_classes: Sequence[Tensor], labels: Sequence[str | int] | None, model: Model) -> None:
    """Set in each batch of ``asker`` the class that counts as right for each input: from ``labels`` or, if they are None, from
    ``own_classes``, the model's own answers by batch.
    """
    sizes = [batch.size for batch in asker.batches]
    right = own_classes if labels is None else right_of(labels, model).split(sizes)
    asker.batches = [
        Batch(batch.model, batch.tensors, batch.size, batch.content, of_batch) for batch, of_batch in zip(asker.batches, right, strict=True)
    ]


def _reading(asker: Asker, model: Model, own_classes: Sequence[Tensor], lacks: Mapping[str, str]) -> ReadingFinding:
    unit = "atom" if model.kind == "molecule" else "word" if model.reads_text else "patch"
    why = lacks.get("attention") or lacks.get("token_order") or lacks.get("one_attention")
    if why is not None:
        return ReadingFinding(f"Whether a {unit} reads another was not measured. {why}")
    try:
        logits = isolated_answers(asker, _readers)
    except NotMasked:
        return ReadingFinding(
            f"Whether a {unit} reads another was not measured: {model.name} computes attention where it cannot be masked."
        )
    pairs = zip(asker.batches, logits, own_classes, strict=True)
    stays = torch.cat([own_answers(of_batch, batch.model.output) == before for batch, of_batch, before in pairs])
    return measure_reading(stays.cpu().numpy(), torch.cat(list(own_classes)).tolist(), unit)


def _readers(batch: Batch) -> Tensor | None:
    """Return the index (B,) of the token that the head reads, for each input of a batch; None if the head pools."""
    token = batch.layout.class_token
    if token is None or batch.content is None:
        return None
    return torch.full((batch.size,), token % batch.content.shape[1], device=batch.content.device)


def _heads(model: Model, items: Sequence[Any], prompts: Sequence[str] | None, lacks: Mapping[str, str], counter: _Progress) -> HeadsFinding:
    why = lacks.get("attention") or lacks.get("one_attention")
    if why is not None:
        return HeadsFinding(f"Heads were not compared. {why}")
    attentions = []
    for item in items:
        counter.step(FORWARDS_OF_A_MAP)
        prepared = model.prepare(item)
        target = None if prompts is None else prompts[0]
        session = Session(model.at(None, prepared), prepared, target, prompts=prompts)
        attentions.append([each[0].detach() for each in session.recording.attentions if each is not None])
    return measure_heads(attentions)


def _agreement(
    model: Model, items: Sequence[Any], methods: Sequence[str], prompts: Sequence[str] | None, counter: _Progress
) -> AgreementFinding:
    if len(methods) < 2:
        return AgreementFinding(f"Agreement was not measured: fewer than two of the methods that it compares run for {model.name}.")
    medians = []
    for item in items:
        counter.step(FORWARDS_OF_A_MAP * len(methods))
        target = None if prompts is None else prompts[0]
        result = explain(model, item, target, list(methods), prompts=prompts, cancelled=counter.cancelled)
        medians.append(median_agreement(np.stack([each.scores[each.content].double().numpy() for each in result.maps])))
    return measure_agreement(methods, medians)
