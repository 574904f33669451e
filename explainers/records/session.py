"""A session with a model: a prepared batch, its recorded forward pass and its resolved targets, from which maps and analyses are made."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from explainers.autograd.integration import Rerun
from explainers.autograd.memory import FLOAT64_OVERHEAD, check_memory, rows_at_once
from explainers.autograd.recomputation import recomputes_here
from explainers.autograd.recording import Recording
from explainers.autograd.rules import Rule
from explainers.autograd.signals import Fields
from explainers.errors import ExplainerError
from explainers.models.eval_mode import answering
from explainers.models.input_sizes import name_expected_size
from explainers.models.inputs.types import ImageInput, Input, Prepared, Side, TextInput
from explainers.models.layout import Layout
from explainers.models.model import Model
from explainers.models.opening.open_model import open_unchecked
from explainers.models.tf32 import is_asked_here
from explainers.records.targets import (
    Classes,
    ResolvedTarget,
    TargetLike,
    as_targets,
    expand_targets,
    prompts_of,
    refuse_repeated,
    resolve,
    resolved_class,
)
from explainers.records.trace import Answer, Trace

Check = Callable[[], None]
Precision = Literal["auto", "double", "tf32"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)


class Cancelled(Exception):
    """Raised when the caller's ``cancelled`` returned true; nothing more was computed."""


def checker(cancelled: Callable[[], bool] | None) -> Check:
    """Return a function that raises :class:`Cancelled` once ``cancelled`` returns true."""

    def check() -> None:
        if cancelled is not None and cancelled():
            raise Cancelled

    return check


def check_seed(seed: object) -> int:
    """Return ``seed`` as an int. Raises ExplainerError if it is not a whole number."""
    try:
        return operator.index(seed)  # type: ignore[arg-type]  # what is no number is said below
    except TypeError:
        raise ExplainerError(f"seed={seed!r} is no whole number: send one such as 0.") from None


class Session:
    """A batch of inputs, recorded once in the model's own precision, and the targets that are asked about.

    ``model`` is a :class:`Model`, or anything that :func:`explainers.open` takes, which is opened without checks. ``prompts`` are the
    prompts with which a CLIP model compares its images, None: those that the targets name; only the probability of a prompt depends
    on the others. ``recomputed``: activations inside the blocks are computed again on the way back, which saves memory
    (:mod:`explainers.autograd.recomputation`); None: inside :func:`explainers.models.passes.sparing_memory`. ``cancelled`` is asked before
    each pass; when true, :class:`Cancelled` is raised. ``precision`` "double" computes relevance in float64 whatever its estimated error;
    "tf32" is refused outside of :func:`explainers.models.tf32.asking_for_tf32`, without which nothing would be rounded. Raises
    ExplainerError for an input or a target that does not fit the model.

    prepared  the inputs; prepared_prompts  the prompts of a CLIP model
    tensors   the tensors that the model took
    labels    names of the classes, or the prompts
    answers   logits (inputs, classes)
    chosen    the targets, resolved
    samples   the samples that are the rows of the recording, without padding: the inputs, or on the text side the prompts
    """

    def __init__(
        self,
        model: Any,
        inputs: Input | Prepared,
        target: TargetLike | Sequence[TargetLike] = None,
        *,
        side: Side | None = None,
        prompts: Sequence[str] | None = None,
        pixels: bool = False,
        seed: int = 0,
        cancelled: Callable[[], bool] | None = None,
        precision: Precision = "auto",
        recomputed: bool | None = None,
    ) -> None:
        if precision not in PRECISIONS:
            raise ExplainerError(f"precision={precision!r}: choose one of {', '.join(PRECISIONS)}.")
        if precision == "tf32" and not is_asked_here():
            raise ExplainerError(
                "precision='tf32' is for explainers.explain, which allows it in each of its passes; make a Session, and read its maps, "
                "inside `with explainers.models.tf32.asking_for_tf32(True):`."
            )
        self.precision, self.model = precision, open_unchecked(model).seen_from(side)
        model = self.model
        self.recomputed = recomputed = recomputes_here(model) if recomputed is None else recomputed
        self.targets = as_targets(target, None if model.kind == "clip" else model.labels)
        self._pixels, self._seed, self._check = pixels, check_seed(seed), checker(cancelled)
        self.prepared = inputs if isinstance(inputs, Prepared) else model.prepare(inputs)
        self.tensors, self.labels = self.prepared.tensors, list(model.labels)
        self.prepared_prompts: Prepared | None = None
        if model.prompt_inputs is not None:
            # with prompts to choose from, the target may be the one that fits best
            named = [target for target in self.targets if not prompts or model.side == "text" or target.names() != (None,)]
            prompt_names = prompts_of(named, alone=model.side == "text")
            self.labels = list(dict.fromkeys([*(prompts or ()), *prompt_names])) if model.side == "image" else prompt_names
            self.prepared_prompts = model.prompt_inputs(self.labels)
            self.tensors = {**self.tensors, **self.prepared_prompts.tensors}
        for name, tensor in self.tensors.items():
            if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
                raise ExplainerError(f"{name} holds numbers that are not finite (NaN or infinite): mend the input.")
        self._fields: dict[Rule, Fields] = {}
        self._check()
        check_memory(model, self.tensors, recomputed=recomputed)
        with name_expected_size(model, self.tensors):
            self.recording = Recording(model, self.tensors, pixels=pixels, recomputed=recomputed)
        logits = self.recording.logits.detach()
        self.answers = logits.T if model.side == "text" else logits
        self.targets = expand_targets(self.targets, Classes.of(model, self.labels), self.answers)
        self.chosen = [resolve(target, Classes.of(model, self.labels), self.answers) for target in self.targets]
        refuse_repeated(self.targets, self.chosen)
        rows = self.prepared_prompts if model.side == "text" and self.prepared_prompts is not None else self.prepared
        self.samples = [_strip_padding(row, mask.tolist()) for row, mask in zip(rows.inputs, self.recording.cpu_mask, strict=True)]

    @cached_property
    def double(self) -> Recording:
        """The same pass recorded in float64, for rules that amplify rounding; made when it is first needed."""
        if self.recording.logits.dtype == torch.float64:
            return self.recording
        self._check()
        times = FLOAT64_OVERHEAD * torch.float64.itemsize / self.recording.logits.dtype.itemsize
        check_memory(self.model, self.tensors, times, recomputed=self.recomputed)
        return Recording(self.model, self.tensors, pixels=self._pixels, double=True, recomputed=self.recomputed)

    def forget_signals(self) -> None:
        """Free the signals of all backward passes so far."""
        self.recording.forget_signals()
        if "double" in self.__dict__:
            self.double.forget_signals()

    @property
    def unpadded_inputs(self) -> Prepared:
        """The inputs as they were read, with texts without their padding."""
        return self.prepared if self.model.side == "text" else replace(self.prepared, inputs=tuple(self.samples))

    def targets_and_rows(self) -> list[tuple[ResolvedTarget, list[int]]]:
        """Return the targets that are explained, and with each target the index of the input to which each row of the recording belongs. A
        target needs one backward pass for each rule.

        On the image side the rows are the inputs, and each target is explained for all of them. On the text side the rows are the prompts,
        and each image is a target.
        """
        inputs = range(len(self.answers))
        if self.model.side == "image":
            return [(target, list(inputs)) for target in self.chosen]
        rows = len(self.labels)
        return [(resolved_class(self.labels, torch.full((rows,), i, device=self.model.device)), [i] * rows) for i in inputs]

    def plan(self, fields: Iterable[tuple[Rule, Fields]]) -> None:
        """Declare which fields will be read under each rule, so that one backward pass computes these and no others. Under other rules all
        fields are computed.
        """
        self._fields = {}
        for rule, names in fields:
            self._fields[rule] = self._fields.get(rule, frozenset()) | names

    def trace(
        self, target: ResolvedTarget, rule: Rule | None, recording: Recording | None = None, of_gradients: Recording | None = None
    ) -> Trace:
        """Return the trace that a method reads for a target under ``rule``; by default of the recording in the model's own precision.
        Gradients that are read together with relevance come from the recording ``of_gradients``, by default the same one.
        """
        return Trace(
            self.recording if recording is None else recording,
            target,
            rule,
            seeds=tuple(self._seed + i for i in range(len(self.samples))),
            rerun=self._rerun,
            answer=self._answer,
            content=self._content,
            rows=self._rows,
            fields=self._fields,
            before_pass=lambda done, total: self._check(),
            of_gradients=of_gradients,
        )

    @cached_property
    def _content(self) -> Tensor:
        """The tokens that stand for patches or words, bool (B, S)."""
        content = torch.zeros_like(self.recording.cpu_mask)
        for row, mask, sample in zip(content, self.recording.cpu_mask, self.samples, strict=True):
            row[mask] = content_of(sample, self.recording.layout, int(mask.sum()))
        return content.to(self.recording.mask.device)

    def _rows(self, most: int, least: int, propagated: bool, apart: int) -> int:
        return rows_at_once(self.model, self.tensors, most, least, propagated=propagated, recomputed=self.recomputed, apart=apart)

    @property
    def _rerun(self) -> Rerun:
        return rerunner(self.model, self.tensors, self._check, recomputed=self.recomputed)

    @property
    def _answer(self) -> Answer:
        model, tensors = self.model, self.tensors

        def answer(
            sample: int,
            repeats: int,
            change: Callable[[str, Tensor], Tensor],
            forward: Callable[[Mapping[str, Tensor]], Tensor] = model.forward,
        ) -> Tensor:
            self._check()
            of_sample = {k: v[sample : sample + 1] if model.is_sample(k) else v for k, v in tensors.items()}
            repeated = model.repeat(of_sample, repeats)
            check_memory(model, repeated, recorded=False)
            with answering(model.module):
                return forward({k: change(k, v) for k, v in repeated.items()})

        return answer


def rerunner(model: Model, tensors: dict[str, Tensor], check: Check, *, recomputed: bool | None = None) -> Rerun:
    """Return a function that records ``model`` on ``tensors`` again, with the arguments of :meth:`Trace.rerun`; ``check`` is called before
    each recording, and ``recomputed`` is as in :class:`Session`.
    """
    recomputes = recomputes_here(model) if recomputed is None else recomputed

    def rerun(
        repeats: int = 1, *, change: Callable[[str, Tensor], Tensor] | None = None, kind: type[Recording] = Recording, **options: Any
    ) -> Recording:
        check()
        repeated = model.repeat(tensors, repeats)
        if change is not None:
            repeated = {k: change(k, v) for k, v in repeated.items()}
        if kind is Recording:
            check_memory(model, repeated, recomputed=recomputes)
            options |= {"recomputed": recomputes}
        recording = kind(model, repeated, **options)
        if kind is Recording and len(recording.logits) % repeats:
            raise ExplainerError(
                f"{model.name} takes the inputs of a batch one by one, so that copies of an input cannot run at once: choose a method that "
                "runs the model once, such as input_x_gradient or fullgrad_plus:libra."
            )
        return recording

    return rerun


def content_of(record: ImageInput | TextInput, layout: Layout, tokens: int) -> Tensor:
    """Return which of the ``tokens`` of an input stand for patches or words, bool (tokens,): by ``record`` for a text, by ``layout`` for a
    picture.
    """
    if isinstance(record, TextInput):
        return torch.tensor([not t.special for t in record.tokens], dtype=torch.bool)
    content = torch.zeros(tokens, dtype=torch.bool)
    rows, cols = layout.grid or (0, 0)
    content[layout.prefix : layout.prefix + rows * cols] = True
    return content


def _strip_padding(record: ImageInput | TextInput, mask: list[bool]) -> ImageInput | TextInput:
    return record.without_padding(mask[: len(record.tokens)]) if isinstance(record, TextInput) else record
