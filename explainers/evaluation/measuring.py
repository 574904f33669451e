"""One input measured: every method's map and every metric of it, as rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from explainers.datasets import AnnotatedObject, Dataset, Sample
from explainers.errors import ExplainerError
from explainers.evaluation.broken_inputs import BrokenInput, read_sample
from explainers.evaluation.claims import claimed_shares
from explainers.evaluation.conservation import BLOCK_COLUMNS
from explainers.evaluation.controls import control_map, for_controls, known_input
from explainers.evaluation.costs import INPUTS_FOR_MEMORY, device_name, memory_of_maps
from explainers.evaluation.curve_logits import CurveLogits
from explainers.evaluation.explained_classes import ClassLookup, ExplainedClass, labels_of, prompts_of
from explainers.evaluation.graded_answers import GradedAnswers
from explainers.evaluation.marked_parts import explained_mask, marked_words, other_masks
from explainers.evaluation.plan import FAMILIES_WITHOUT_CLASSES, Plan, asks_again
from explainers.evaluation.removed_parts import RemovedParts
from explainers.evaluation.sanity_maps import MAPS_OF_CHANGED_INPUTS
from explainers.evaluation.token_sets import TokenSetAnswers
from explainers.metrics import Metric, RemovalCurve
from explainers.metrics.registry import COMPUTED_NEEDS
from explainers.models.eval_mode import answering
from explainers.models.inputs.types import ImageInput
from explainers.models.model import Model
from explainers.models.resizing import with_resize
from explainers.models.tasks import GeneratedAnswer
from explainers.pipeline.explain import explain
from explainers.pipeline.long_texts import window_logits
from explainers.records.result import Attribution, Explanation
from explainers.records.session import checker
from explainers.records.targets import TargetLike

#: The names of the curves that reports draw, as metrics take them.
REPORT_CURVES = ("most", "left")
EvaluationRow = dict[str, Any]


@dataclass(frozen=True)
class EvaluationSetup:
    """The objects and options that all inputs of a run share.

    ``cancelled`` is called between forward passes; when true, :class:`explainers.Cancelled` is raised. ``loaded`` is the model as it was
    loaded; ``model`` is the same with pictures resized as the plan says. ``prompt_indices`` are those of the data set's classes that a CLIP
    model is asked for; None: all. ``at_once`` is the maximum number of tokens in one forward pass of inputs with removed parts; None: as
    many as the device can hold. With ``skip_broken`` inputs that cannot be read are left out, and the run goes on.
    """

    loaded: Model
    data: Dataset
    plan: Plan
    cancelled: Callable[[], bool] | None = None
    at_once: int | None = None
    skip_broken: bool = False
    prompt_indices: tuple[int, ...] | None = None

    @cached_property
    def model(self) -> Model:
        """The model that is measured, which resizes pictures as the plan says."""
        return self.loaded if self.plan.resize is None else with_resize(self.loaded, self.plan.resize)

    @cached_property
    def metrics(self) -> list[Metric]:
        """The metrics of the plan, with curves in its number of steps."""
        return [metric.in_steps(self.plan.steps) for metric in self.plan.measured]

    @cached_property
    def needs(self) -> set[str]:
        """The keys of the values that the metrics take, except removal curves."""
        return {need for metric in self.metrics for need in metric.needs}

    @cached_property
    def curves(self) -> list[RemovalCurve]:
        """The curves that the metrics take, each once."""
        return list(dict.fromkeys(curve for metric in self.metrics for curve in metric.curves.values()))

    @cached_property
    def classes(self) -> ClassLookup:
        """The lookup from labels of the data set to classes of the model."""
        return ClassLookup(self.model, self.data, prompts_of(self.data) if self.model.kind == "clip" else None, self.prompt_indices)

    @cached_property
    def inputs_for_memory(self) -> frozenset[int]:
        """The indices of the inputs for which the memory of each map is measured."""
        return frozenset(self.data.choose(self.plan.limit, self.plan.seed)[:INPUTS_FOR_MEMORY])

    @cached_property
    def of_controls(self) -> EvaluationSetup:
        """The same setup with only the metrics that can be measured on controls."""
        return replace(self, plan=replace(self.plan, metrics=tuple(metric.name for metric in self.metrics if for_controls(metric))))

    @property
    def prompts(self) -> list[str] | None:
        """The prompts that a CLIP model compares pictures with; None for other models."""
        return self.classes.prompt_texts

    def explained_classes(self, sample: Sample) -> list[ExplainedClass] | None:
        """Return the classes of an input, ``sample``, that the plan explains; None if it explains a class that the model predicts."""
        return None if self.plan.target in ("predicted", "second") else self.classes.explained_classes(sample, self.plan.target)

    def answered_class(self, logits: Tensor) -> ExplainedClass:
        """Return the class with the largest of the ``logits`` (C,), or with the second largest if the plan explains that one."""
        order = logits.argsort(descending=True, stable=True).tolist()
        return ExplainedClass((order[1 if self.plan.target == "second" and len(order) > 1 else 0],))

    def at_place_of(self, sample: Sample) -> EvaluationSetup:
        """Return this setup for a model that is asked about the place of its output that ``sample`` names. If it names none, a language
        model is asked about the answer that it writes; for other models the setup itself is returned.

        Raises ExplainerError if the model has no such place, and for metrics of classes of an answer, which is several words.
        """
        if sample.at is None:
            if not isinstance(self.model.task, GeneratedAnswer):
                return self
            if about_classes := [metric.name for metric in self.metrics if metric.family not in FAMILIES_WITHOUT_CLASSES]:
                raise ExplainerError(
                    f"{self.data.name} names no word of the answer of {self.model.name}, and the whole answer is no class, about which "
                    f"{', '.join(about_classes)} {'is' if len(about_classes) == 1 else 'are'}: measure completeness."
                )
        return replace(self, loaded=self.model.at(sample.at, self.model.prepare(sample.model_input)))

    def with_prompts_of(self, sample: Sample) -> EvaluationSetup:
        """Return this setup with only the classes of the input ``sample`` as the prompts of a CLIP model, if the plan's target is
        "together"; else the setup itself.
        """
        if self.plan.target != "together":
            return self
        indices = {index for label in labels_of(sample) for index in self.classes.classes_of(label)}
        return replace(self, prompt_indices=tuple(sorted(indices)))

    def read(self, index: int) -> Sample:
        """Return the input number ``index`` of the data set. Raises BrokenInput if the data set or the model cannot read it."""
        sample = read_sample(self.data, index)
        try:
            self.model.prepare(sample.model_input)
        except ExplainerError as problem:
            raise BrokenInput(self.data, index, sample.name, problem) from problem
        return sample

    def readable(self, indices: Iterable[int]) -> Iterator[Sample]:
        """Yield the inputs with these indices. Raises BrokenInput for one that cannot be read, unless such are skipped."""
        for index in indices:
            try:
                yield self.read(index)
            except BrokenInput:
                if not self.skip_broken:
                    raise

    def target_of(self, explained_class: ExplainedClass) -> TargetLike:
        """Convert a class to a target of ``explain``, its logit or its probability as the plan says, and return it."""
        return self.classes.target_of(explained_class, self.plan.explains)

    def tensors(self, sample_input: Any) -> dict[str, Tensor]:
        """Return one input as tensors of the model, with the prompts that a CLIP model compares it with."""
        tensors = self.model.prepare(sample_input).tensors  # with the answer of a language model
        if self.prompts is not None and self.model.prompt_inputs is not None:
            tensors = {**tensors, **self.model.prompt_inputs(self.prompts).tensors}
        return tensors

    def answers(self, sample_input: Any) -> Tensor:
        """Run the model on one input and return its logits (C,); for a text that is read in windows, their mean over the windows."""
        windows = self.model.windows(sample_input) if self.plan.long_texts == "windows" else None
        if windows is not None:
            return window_logits(self.model, windows, checker(self.cancelled)).mean(0)
        with answering(self.model.module):
            return self.model.forward(self.tensors(sample_input))[0].float().cpu()


def rows_of(setup: EvaluationSetup, index: int) -> list[EvaluationRow]:
    """Measure input number ``index`` of the data set of ``setup`` and return its rows: one for each explained class and method, followed
    for each class by one for each control.

    A row holds index, name, explained class, values of the metrics, curves and scores. If every class is explained, it also holds the
    labels for which the model has neither a class nor a group (``unknown``).

    A value is None if it has no meaning: if no object of the explained class is visible, or if a method promises no sum. Random draws
    depend on ``index`` alone, so rows are the same whichever were computed before, except for the costs of the maps
    (:data:`~explainers.evaluation.costs.COST_COLUMNS`). If the data set's classes are explained and the model knows none of them, there is
    no row. Raises BrokenInput if the input cannot be read, and ExplainerError if a metric needs new answers about a text that is read in
    windows.
    """
    sample = setup.read(index)
    setup = setup.at_place_of(sample).with_prompts_of(sample)
    explained_classes = setup.explained_classes(sample)
    if explained_classes is not None and not explained_classes:
        return []
    if setup.plan.long_texts == "windows" and asks_again(setup.metrics) and setup.model.windows(sample.model_input) is not None:
        raise ExplainerError(
            f"{sample.name} is longer than {setup.model.name} takes and is read in windows, and some of the metrics ask the model again "
            "with a part of its input: choose long_texts=cut (--long-texts cut)."
        )
    logits = setup.answers(sample.model_input)
    order = logits.argsort(descending=True, stable=True).tolist()
    targets = [setup.answered_class(logits)] if explained_classes is None else explained_classes
    runners_up = [ExplainedClass((_first_outside(target, order),)) for target in targets]
    classes_to_explain = {entry.indices: entry for entry in [*targets, *(runners_up if "other" in setup.needs else [])]}
    places = {indices: place for place, indices in enumerate(classes_to_explain)}

    def explain_with(specs: Sequence[str]) -> Explanation:
        explanation: Explanation = explain(
            setup.model,
            sample.model_input,
            [setup.target_of(explained_class) for explained_class in classes_to_explain.values()],
            list(specs),
            prompts=setup.prompts,
            seed=index,
            long_texts=setup.plan.long_texts,
            cancelled=setup.cancelled,
        )
        return explanation

    try:
        explanation = explain_with(setup.plan.methods)
    except ExplainerError as problem:
        raise ExplainerError(f"{sample.name} cannot be explained: {problem}") from problem
    device, specs = setup.model.device, setup.plan.methods if index in setup.inputs_for_memory else ()
    memory = memory_of_maps(device, specs, lambda spec: explain_with([spec]))
    rows: list[EvaluationRow] = []
    for target, runner_up in zip(targets, runners_up, strict=True):
        maps, others = (
            [explanation[spec, places[explained_class.indices]] for spec in setup.plan.methods] if explained_class.indices in places else []
            for explained_class in (target, runner_up)
        )
        measurement = Measurement(setup=setup, sample=sample, index=index, target=target, explanation=explanation, maps=maps, others=others)
        rows += [*measurement.rows(), *measurement.control_rows()]
    return [{**row, "device": device_name(device), "memory": memory.get(row["method"])} for row in rows]


def _first_outside(target: ExplainedClass, order: Sequence[int]) -> int:
    """Return the first class in ``order`` that is not part of the target; the first one of the target if there is no other."""
    return next((other for other in order if other not in target.indices), target.indices[0])


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """The measurement of one explained class of one input (``sample``, number ``index`` of the data set), from which the values of all
    metrics are computed. The arguments of metrics are computed when first needed.

    setup        what all inputs of the run share: model, data set, plan and metrics
    target       the explained class or group
    explanation  the model's answer and its maps
    maps         of the explained class, one for each method
    others       the maps of the runner-up class; empty if no metric takes them
    """

    setup: EvaluationSetup
    sample: Sample
    index: int
    target: ExplainedClass
    explanation: Explanation
    maps: list[Attribution]
    others: list[Attribution]

    @cached_property
    def scores(self) -> Tensor:
        """The scores of patches or word pieces by method, (M, N)."""
        return _content_scores(self.maps)

    def rows(self) -> list[EvaluationRow]:
        """Return one row for each method."""
        columns: dict[str, list[float | None]] = {}
        for metric in self.setup.metrics:
            arguments = self._arguments_of(metric)
            values = None if arguments is None else metric(**arguments).double().reshape(len(self.maps), len(metric.columns))
            for i, column in enumerate(metric.columns):
                columns[column] = [None] * len(self.maps) if values is None else [_number(value) for value in values[:, i].tolist()]
        report_curves = self._report_curves()
        unknown = self.setup.classes.unknown_labels(self.sample) if self.setup.plan.target in ("each", "together") else []
        return [
            {
                "index": self.index,
                "input": self.sample.name,
                "target": attribution.target,
                "method": attribution.method,
                "unknown": unknown,
                **{column: column_values[i] for column, column_values in columns.items()},
                **{f"curve.{name}": curve[i].tolist() for name, curve in report_curves.items()},
                **self._sums_at_blocks(i),
                "scores": self._scores_to_draw(attribution),
                "seconds": attribution.seconds,
            }
            for i, attribution in enumerate(self.maps)
        ]

    def control_rows(self) -> list[EvaluationRow]:
        """Return one row for each control of the plan, without values if this input has no such map."""
        names, mask = self.setup.plan.controls, None if self.masks is None else self.masks[0]
        known = known_input(self.sample, self.maps[0], mask, self.index) if names else None
        maps = [] if known is None else [each for name in names if (each := control_map(name, known, self.maps[0])) is not None]
        measured = replace(self, setup=self.setup.of_controls, maps=maps, others=[]).rows() if maps else []
        rows = {row["method"]: row for row in measured}
        same = {"index": self.index, "input": self.sample.name, "target": self.maps[0].target}
        return [rows.get(name, {**same, "method": name}) for name in names]

    def _sums_at_blocks(self, method: int) -> dict[str, list[float] | None]:
        """Return the sums that a method's rule passes on at the input of each block, by column; empty if no metric needs them, None for a
        method without a rule.
        """
        if "block_sums" not in self.setup.needs:
            return {}
        sums = self.block_sums[method]
        return {column: None if sums.isnan().any() else of.tolist() for column, of in zip(BLOCK_COLUMNS, sums, strict=True)}

    def _scores_to_draw(self, attribution: Attribution) -> list[float]:
        """Return the scores of the map ``attribution`` from which a picture of it is drawn: one for each patch or each word."""
        return (
            attribution.scores[attribution.content].tolist()
            if attribution.patches is not None
            else [word.score for word in attribution.words()]
        )

    def _report_curves(self) -> dict[str, Tensor]:
        """Return the probability of the explained class along each curve that reports draw, (M, steps)."""
        curves = {name: curve for metric in self.setup.metrics for name, curve in metric.curves.items() if name in REPORT_CURVES}
        return {name: self._curve_answers[curve][..., list(self.target.indices)].sum(-1) for name, curve in curves.items()}

    def _arguments_of(self, metric: Metric) -> dict[str, Tensor] | None:
        """Return the arguments of ``metric`` by name, each as a tensor; None if this input lacks an argument, such as a mask."""
        arguments: dict[str, Tensor] = {}
        for name, need in metric.takes.items():
            value = self._curve_answers[need] if isinstance(need, RemovalCurve) else COMPUTED_NEEDS[need](self)
            if value is None:
                return None
            arguments[name] = value
        return arguments

    @cached_property
    def _curve_answers(self) -> dict[RemovalCurve, Tensor]:
        """The answers along every curve of the run, (M, steps, C): probabilities or logits."""
        first, setup = self.maps[0], self.setup
        answers: dict[RemovalCurve, Tensor] = {}
        for special in (False, True):
            curves = [curve for curve in setup.curves if curve.special == special]
            if not curves:
                continue
            content = torch.ones_like(first.content) if special else first.content
            scores = torch.stack([attribution.scores for attribution in self.maps]) if special else self.scores
            for curve, logits in zip(curves, self._curve_logits(content).along(curves, scores), strict=True):
                answers[curve] = logits if curve.of == "logits" else self.probabilities(logits)
        return answers

    def _curve_logits(self, content: Tensor) -> CurveLogits:
        setup = self.setup
        return CurveLogits(
            setup.model, self.explanation.tensors, self.maps[0].patches, content, setup.plan.how, setup.cancelled, setup.at_once
        )

    @cached_property
    def graded_answers(self) -> GradedAnswers:
        """The source of the model's answers about inputs that are removed by degrees."""
        logits, as_probability = self._curve_logits(self.maps[0].content), self.setup.plan.explains == "probability"
        against = () if self.target.against is None else self.target.against.indices
        return GradedAnswers(logits, self.scores, self.target.indices, self.probabilities, as_probability, self.index, against)

    @cached_property
    def token_sets(self) -> TokenSetAnswers:
        """The source of the model's answers about the input without sets of its tokens."""
        return TokenSetAnswers(self.graded_answers)

    @cached_property
    def claimed_shares(self) -> Tensor:
        """The share of the input's parts that the claim of each map is about, (M,); 0 for a map that earns none."""
        return claimed_shares(self.setup.model, self.explanation, self.maps, self.index, self.setup.cancelled)

    @cached_property
    def removed_parts(self) -> RemovedParts | None:
        """The source of answers about the picture without its parts; None if the data set cannot leave any out."""
        record, setup = self.explanation.input, self.setup
        if self.sample.removable is None or not isinstance(record, ImageInput):
            return None
        stop = checker(setup.cancelled)

        def ask(picture: Image.Image) -> Tensor:
            stop()
            return setup.answers(picture)

        return RemovedParts(
            parts=self.sample.removable,
            record=record,
            target=self.target,
            whole=self.explanation.logits.float().cpu().flatten(),
            maps=self.maps,
            ask=ask,
            explain=self._maps_of,
            class_of=setup.classes.class_of,
        )

    def _maps_of(self, others: Sequence[ExplainedClass]) -> list[list[Attribution]]:
        """Return the maps of other classes of the same input: for each class one for each method."""
        setup = self.setup
        explanation: Explanation = explain(
            setup.model,
            self.sample.model_input,
            [setup.target_of(other) for other in others],
            list(setup.plan.methods),
            prompts=setup.prompts,
            seed=self.index,
            cancelled=setup.cancelled,
        )
        return [[explanation[spec, place] for spec in setup.plan.methods] for place in range(len(others))]

    def probabilities(self, logits: Tensor) -> Tensor:
        """Return calibrated probabilities for logits (..., C), as the model reports them."""
        return self.setup.model.calibration.probabilities(logits, self.explanation.output)

    def classes_of(self, need: str) -> frozenset[int]:
        """Return the indices of the classes that a need names: the explained ones (``target``), the right ones (``gold``), or those that
        count as the same ``answer``.
        """
        takes_labels = need == "gold" or (need == "answer" and self.setup.plan.target in ("gold", "contrast"))
        if not takes_labels:
            return frozenset(self.target.indices)
        return self.setup.classes.right_classes(self.sample, first_alone=self.setup.plan.right == "first")

    @cached_property
    def block_sums(self) -> Tensor:
        """The sums that each method's rule passes on at the input of each block, (M, 3, L)."""
        return self.explain_again("block_sums")

    @cached_property
    def randomised_scores(self) -> Tensor:
        """The scores (M, L, N) of N tokens by the same M methods after the weights of 1 to L layers were shuffled."""
        return self.explain_again("randomised")

    def explain_again(self, need: str) -> Tensor:
        """Explain a changed model or a changed input and return the scores; ``need``, a key of `MAPS_OF_CHANGED_INPUTS`, says which
        change.
        """
        target = self.setup.target_of(self.target)
        return MAPS_OF_CHANGED_INPUTS[need](self.setup.model, self.explanation.tensors, target, self.setup.plan.methods, self.index)

    @property
    def other_scores(self) -> Tensor:
        """The scores (M, N) for the runner-up class."""
        return _content_scores(self.others)

    @cached_property
    def masks(self) -> tuple[Tensor, Tensor] | None:
        """The mask of the explained object and that of the labelled area, as the model saw the picture; None if the object is not
        visible.
        """
        record = self.explanation.input
        return explained_mask(self.sample, self._objects(), record) if isinstance(record, ImageInput) else None

    @cached_property
    def other_masks(self) -> Tensor | None:
        """The masks (1, K, height, width) of the objects of other classes, as the model saw the picture; None if none of them is
        visible.
        """
        record = self.explanation.input
        return other_masks(self.sample, self._objects(), record) if isinstance(record, ImageInput) else None

    def _objects(self) -> list[AnnotatedObject]:
        """Return the objects of the sample that belong to the explained class."""
        indices = set(self.target.indices)
        return [obj for obj in self.sample.objects if obj.label is None or indices & self.setup.classes.classes_of(obj.label)]

    @property
    def cell(self) -> Tensor | None:
        """The row and column (M, 2) of the explained class in a mosaic; None for other inputs."""
        cells = [obj.cell for obj in self._objects() if obj.cell is not None]
        return torch.tensor(cells[:1] * len(self.maps)) if cells else None

    @cached_property
    def words(self) -> tuple[Tensor, Tensor] | None:
        """The scores (M, W) of words and the words that each passage marks, (P, W); None for a picture."""
        return marked_words(self.setup.model, self.sample, self.maps)


def _content_scores(maps: Sequence[Attribution]) -> Tensor:
    """Return the scores (M, N) of M maps of one input, special tokens left out."""
    return torch.stack([attribution.scores[attribution.content] for attribution in maps])


def _number(value: float) -> float | None:
    """Return ``value`` as a row of a file stores it: None for NaN."""
    return None if np.isnan(value) else float(value)
