"""The inputs that the depth of a model is measured on: prepared once, in batches, with the answers to hold changed passes against."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from explainers.autograd.memory import check_memory
from explainers.errors import ExplainerError
from explainers.models.eval_mode import answering
from explainers.models.inputs.types import Prepared
from explainers.models.layout import Layout
from explainers.models.model import Model
from explainers.models.outputs import Output
from explainers.models.passes import Passes, rows_per_pass
from explainers.records.session import content_of

BATCH = 8  # inputs in one pass on a CPU

Passing = Callable[["Batch"], AbstractContextManager[Any]]


@dataclass(frozen=True, eq=False)
class Batch:
    """Inputs of one shape, which pass the model together.

    model    the model, set to one place of its output if it gives an answer for several
    tensors  the inputs' tensors by name, as ``model.forward`` takes them, batch first
    size     B, the number of inputs
    content  bool (B, S): the tokens that stand for patches or words; None where only whole passes are asked for
    right    (B,): the index of the class that counts as right for each input; None if not known
    """

    model: Model
    tensors: dict[str, Tensor]
    size: int
    content: Tensor | None = None
    right: Tensor | None = None

    @property
    def layout(self) -> Layout:
        """The layout of the batch's tokens."""
        return self.model.layout_of(self.tensors)


class Asker:
    """A model together with batches of inputs, on which it is run again and again, each time with something in it changed.

    ``before_pass`` is called with the number of inputs before each batch; it may raise Cancelled.
    """

    def __init__(self, batches: Sequence[Batch], before_pass: Callable[[int], None] = lambda inputs: None) -> None:
        self.batches = list(batches)
        self._before_pass = before_pass

    def __len__(self) -> int:
        return sum(batch.size for batch in self.batches)

    def logits(self, passing: Passing = lambda batch: nullcontext()) -> list[Tensor]:
        """Run the model on all batches and return the logits (B, C) of each. Each batch is run inside the context that ``passing`` returns
        for it.
        """
        answers = []
        for batch in self.batches:
            self._before_pass(batch.size)
            with answering(batch.model.module), passing(batch):
                logits = batch.model.forward(batch.tensors)
            answers.append(logits.float())
        return answers

    def losses_of(self, logits: Sequence[Tensor]) -> NDArray[np.float64]:
        """Return the loss of each input, from the logits (B, C) of each batch: minus the logarithm of its right class's probability, in
        nats.
        """
        losses = []
        for batch, of_batch in zip(self.batches, logits, strict=True):
            assert batch.right is not None
            losses.append(loss_of(of_batch.double(), batch.right, batch.model.output).cpu().numpy())
        return np.concatenate(losses)


def loss_of(logits: Tensor, right: Tensor, output: Output) -> Tensor:
    """Return the loss (B,) of logits (B, C): minus the logarithm of the probability of the class ``right`` (B,), in nats.

    ``right`` is the index of the class. If ``output`` is a sigmoid, each label is yes or no: ``right`` is then index + 1 for yes and
    -(index + 1) for no.
    """
    index = right.abs() - 1 if output == "sigmoid" else right
    chosen = logits.gather(1, index[:, None])[:, 0]
    if output == "sigmoid":
        return F.softplus(-chosen * right.sign())
    return torch.logsumexp(logits, 1) - chosen


def own_answers(logits: Tensor, output: Output) -> Tensor:
    """Return the model's answers (B,) to logits (B, C): the index of the top class or, if ``output`` is a sigmoid, index + 1 of the top
    label for yes and -(index + 1) for no. This is the form of ``right`` in :func:`loss_of`.
    """
    top = logits.argmax(1)
    if output != "sigmoid":
        return top
    is_yes = logits.gather(1, top[:, None])[:, 0] > 0
    return torch.where(is_yes, top + 1, -(top + 1))


def right_of(names: Sequence[Any], model: Model) -> Tensor:
    """Convert the ``names`` (or indices) of the right classes of inputs to a tensor (inputs,) in the form of ``right`` in :func:`loss_of`,
    on the model's device.

    Raises ExplainerError for a class that ``model`` does not have.
    """
    indices = []
    for name in names:
        index = name if isinstance(name, int) else next((i for i, label in enumerate(model.labels) if label == name), None)
        if index is None or not 0 <= index < len(model.labels):
            raise ExplainerError(f"{model.name} has no class {name!r}: labels= takes names or numbers of its {len(model.labels)} classes.")
        indices.append(index + 1 if model.output == "sigmoid" else index)
    return torch.tensor(indices, device=model.device)


def prepare_batches(model: Model, inputs: Iterable[Any], prompts: Sequence[str] | None, check: Callable[[], None]) -> list[Batch]:
    """Prepare ``inputs`` (pictures or texts) for the model one by one, and return them as batches of up to :data:`BATCH` neighbours of one
    shape, on a GPU of as many as fit. ``prompts`` are compared with every picture; ``check`` is called before each input and may raise.

    Texts are never padded, because the output of a part at padding would enter its mean. Raises ExplainerError for an input that cannot be
    read.
    """
    most = rows_per_pass(model.device, BATCH)
    batches, waiting = list[Batch](), list[tuple[Prepared, Model]]()

    def flush() -> None:
        if waiting:
            batches.extend(Passes(most).run(len(waiting), lambda first, number: _batch_of(waiting[first : first + number], prompts)))
            waiting.clear()

    for item in inputs:
        check()
        prepared = model.prepare(item)
        if len(prepared) != 1:
            raise ExplainerError("Each input is one picture or one text: send a list of them.")
        asker = model.at(None, prepared) if model.task is not None else model
        if waiting and (len(waiting) == most or model.task is not None or _shapes(waiting[-1][0]) != _shapes(prepared)):
            flush()
        waiting.append((prepared, asker))
    flush()
    return batches


def _shapes(prepared: Prepared) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in prepared.tensors.items()}


def _batch_of(waiting: Sequence[tuple[Prepared, Model]], prompts: Sequence[str] | None) -> Batch:
    model = waiting[0][1]
    rows = [prepared.tensors for prepared, _ in waiting]
    tensors = {name: torch.cat([row[name] for row in rows]) if model.is_sample(name) else rows[0][name] for name in rows[0]}
    if model.prompt_inputs is not None:
        tensors |= model.prompt_inputs(list(prompts or ())).tensors
    check_memory(model, tensors, recorded=False)
    layout = model.layout_of(tensors)
    contents = []
    for prepared, _ in waiting:
        (record,) = prepared.inputs
        tokens = len(record.tokens) if hasattr(record, "tokens") else layout.image_tokens
        contents.append(content_of(record, layout, tokens))
    return Batch(model, tensors, len(waiting), torch.stack(contents).to(model.device))
