"""What a run measures: a model, a data set, methods and metrics, checked before anything is computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from explainers.datasets import Dataset
from explainers.errors import ExplainerError
from explainers.evaluation.claims import ASKED_FOR_CLAIMS
from explainers.evaluation.controls import find_controls
from explainers.evaluation.explained_classes import prompts_of
from explainers.evaluation.graded_answers import ASKED_AGAIN
from explainers.evaluation.rows import RUN, temporary_path
from explainers.evaluation.sanity_maps import MAPS_OF_CHANGED_INPUTS
from explainers.evaluation.token_sets import ASKED_ABOUT_SETS
from explainers.installation import not_installed
from explainers.json_records import Record, describe
from explainers.methods import Request, parse
from explainers.methods.presets import specs_called
from explainers.methods.requests import distinct_specs
from explainers.methods.requirements import for_probability, variants
from explainers.metrics import METRICS, Metric, find_metrics
from explainers.metrics.registry import TENTHS_OF_ALL
from explainers.metrics.removed_parts import PART_NEEDS
from explainers.models.model import Model
from explainers.models.removal.ways import How, ways_for
from explainers.models.resizing import Resize, with_resize
from explainers.models.superpixels import can_find_superpixels
from explainers.pipeline.long_texts import LONG_TEXTS, LongTexts
from explainers.records.targets.target import ExplainedNumber

__all__ = ["Plan", "make_plan"]

ExplainedTarget = Literal["predicted", "second", "gold", "each", "together", "contrast"]
RightLabels = Literal["any", "first"]
#: The meaning of each choice of a protocol, by the option's name: for messages, reports and help.
CHOICES: dict[str, dict[str, str]] = {
    "target": {
        "predicted": "the predicted class",
        "second": "the class with the second largest score",
        "gold": "the class that the data set gives",
        "each": "each class that the data set gives",
        "together": "each class that the data set gives, with the prompts of these classes alone",
        "contrast": "the class that the data set gives rather than the one that it is set against",
    },
    "explains": {"logit": "its logit", "probability": "its probability"},
    "right": {"any": "any of the labels of an input", "first": "the first label of an input alone"},
}
#: For each need of a metric the annotation that a data set must give.
_ANNOTATION_OF_NEED = {
    "gold": "class",
    "mask": "mask",
    "labelled": "mask",
    "others": "others",
    "cell": "cell",
    "rationale": "rationale",
    "passages": "rationale",
    **dict.fromkeys(PART_NEEDS, "parts"),
}
#: For each choice the treatment of texts that are longer than the model takes.
LONG_TEXTS_IN_WORDS: dict[str, str] = {"windows": "read in windows", "cut": "cut to what it reads"}
MAX_STEPS = 100
#: The families of metrics that read a map and the number that it explains, and no probability of a class.
FAMILIES_WITHOUT_CLASSES = {"completeness", "concentration"}
_METRICS_OF_SEVERAL_METHODS = {"agreement"}  # metrics that compare the maps of several methods


#: A field that the plans of earlier versions lack.
_LATER = describe(is_required=False)


@dataclass(frozen=True, kw_only=True)
class Plan(Record, name="RunPlan"):
    """The choices of a run: model, data set, methods, metrics and protocol.

    model       a name or path that ``explainers.load`` takes
    dataset     a name of ``explainers.datasets``
    methods     specs
    metrics     names
    limit       number of inputs, drawn with ``seed``; None: all
    target      the explained class: the one that the model predicts; the one with the second largest score; the one that the data set
                names; each one that it names, in turn, with the prompts of all classes for a model of prompts, or (``together``) only those
                of the named classes; or the difference of the named class and the one that the data set compares it with
    explains    the number of that class that is explained: its logit, or its probability
    resize      how pictures are brought to the model's size (:data:`explainers.models.resizing.RESIZES`); None: as the model was trained
    how         way of removing tokens; None: the model's default
    right       which labels of an input count as right: any, or the first alone
    steps       number of equal steps in which tokens are removed, for metrics that remove them by tenths
    long_texts  how a text that is too long for the model is read, see ``explainers.explain``
    controls    names of :data:`explainers.evaluation.controls.CONTROLS`, whose maps are measured like those of the methods
    """

    model: str
    dataset: str
    methods: Annotated[tuple[str, ...], _LATER]
    metrics: Annotated[tuple[str, ...], _LATER]
    limit: Annotated[int | None, _LATER] = None
    target: Annotated[ExplainedTarget, describe(kind=str)] = "predicted"
    explains: Annotated[ExplainedNumber, describe(kind=str, is_required=False)] = "logit"
    resize: Annotated[Resize | None, describe(kind=str | None, is_required=False)] = None
    how: Annotated[How | None, describe(kind=str | None)] = None
    right: Annotated[RightLabels, describe(kind=str, is_required=False)] = "any"
    steps: Annotated[int, _LATER] = TENTHS_OF_ALL
    seed: int = 0
    long_texts: Annotated[LongTexts, describe(kind=str, is_required=False)] = "windows"
    controls: Annotated[
        tuple[str, ...], describe("Maps whose place is known, which were measured besides the methods.", is_required=False)
    ] = ()

    @property
    def requests(self) -> list[Request]:
        """The methods of the plan, each parsed to a :class:`Request`."""
        return [parse(spec) for spec in self.methods]

    @property
    def measured(self) -> list[Metric]:
        """The metrics, looked up by their names."""
        return find_metrics(self.metrics)


def make_plan(
    model: Model,
    data: Dataset,
    methods: Sequence[str],
    metrics: Sequence[str],
    *,
    limit: int | None = None,
    target: ExplainedTarget = "predicted",
    explains: ExplainedNumber = "logit",
    resize: Resize | None = None,
    how: How | None = None,
    right: RightLabels = "any",
    steps: int = TENTHS_OF_ALL,
    seed: int = 0,
    long_texts: LongTexts | None = None,
    controls: Sequence[str] = (),
) -> Plan:
    """Check the choices of a run of ``model`` on ``data`` and return its plan.

    ``methods`` are specs or names of sets (``default``, ``quick``, ...; ``all``: every listed method that can run); ``metrics`` are names,
    or ``all``: those that the data set allows. If ``long_texts`` is None, it becomes ``cut`` if a metric needs new answers of the model,
    which windows do not allow, else ``windows``. ``controls`` are names, or ``all``: those for the inputs of the data set. ``limit``,
    ``target``, ``explains``, ``resize``, ``how``, ``right``, ``steps`` and ``seed`` are fields of :class:`Plan`. Raises ExplainerError for
    an unknown name, a model of another kind than the data set, and a metric that needs an annotation which the data set lacks.
    """
    kind = "molecule" if model.kind == "molecule" else "text" if model.reads_text else "image"
    if data.kind != kind:
        raise ExplainerError(f"{model.name} reads {kind}s, and {data.name} holds {data.kind}s: choose another data set.")
    if (reason := reason_against_task(None if model.task is None else model.task.name, data)) is not None:
        raise ExplainerError(f"{data.name} does not suit {model.name}: {reason}.")
    if model.output == "regression":
        raise ExplainerError(f"{model.name} gives values, not classes, and these metrics are about classes.")
    if not len(data):
        raise ExplainerError(f"{data.name} holds no inputs: there is nothing to measure.")
    _check_options(
        model, data, target=target, explains=explains, resize=resize, how=how, right=right, steps=steps, limit=limit, long_texts=long_texts
    )
    if model.kind == "clip":
        prompts_of(data)  # which refuses what has no names
    specs = tuple(distinct_specs(specs_called(methods, lambda: variants(model)), len(model.blocks)))
    if not specs:
        raise ExplainerError("No method is left to measure: name one, or a set such as default.")
    if explains == "probability" and target == "contrast":
        raise ExplainerError("A contrast is a difference of logits: leave out explains=probability (--explains), or choose target=gold.")
    if explains == "probability" and (note := for_probability(specs)[1]):
        raise ExplainerError(f"{note} Measure them in a run of logits, or choose methods by name.")
    chosen_metrics = _metrics(metrics, data, len(specs))
    return Plan(
        model=model.name,
        dataset=data.name,
        methods=specs,
        metrics=tuple(metric.name for metric in chosen_metrics),
        limit=limit,
        target=target,
        explains=explains,
        resize=resize,
        how=how,
        right=right,
        steps=steps,
        seed=seed,
        long_texts=long_texts or ("cut" if kind == "text" and asks_again(chosen_metrics) else "windows"),
        controls=find_controls(controls, data),
    )


def _check_options(model: Model, data: Dataset, **options: Any) -> None:
    """Raise ExplainerError for an option with an unknown value, or one that the model or the data set does not allow."""
    limit, how, long_texts, steps = (options[name] for name in ("limit", "how", "long_texts", "steps"))
    if limit is not None and limit < 1:
        raise ExplainerError("The limit must be at least 1 input.")
    if how is not None and how not in ways_for(data.kind):
        raise ExplainerError(f"how={how!r} is not a way to remove tokens from {data.kind}s: choose {', '.join(ways_for(data.kind))}.")
    if long_texts is not None and long_texts not in LONG_TEXTS:
        raise ExplainerError(f"long_texts={long_texts!r}: choose one of {', '.join(LONG_TEXTS)}.")
    for name, choices in CHOICES.items():
        if options[name] not in choices:
            raise ExplainerError(f"{name}={options[name]!r}: choose one of {', '.join(choices)}.")
    if not MAX_STEPS >= steps >= 2:
        raise ExplainerError(f"steps={steps}: tokens are removed in 2 to {MAX_STEPS} steps.")
    if (reason := reason_against_target(options["target"], data, model.kind)) is not None:
        raise ExplainerError(f"{reason}: choose target=predicted.")
    if options["resize"] is not None:
        with_resize(model, options["resize"])  # which refuses what cannot be resized


def reason_against_task(task: str | None, data: Dataset) -> str | None:
    """Return why a data set cannot be used with models of this task (None: models with one answer to an input); None if it can."""
    if data.task is None or data.task == task:
        return None
    return f"its inputs need a model of the task {data.task}"


def reason_against_target(target: str, data: Dataset, kind: str) -> str | None:
    """Return why the way ``target`` of choosing the explained class does not go with the data set ``data`` and a model of this ``kind``;
    None if it does.
    """
    if target == "together" and kind != "clip":
        return "only models that compare pictures with prompts can be asked for some classes alone"
    if target in ("gold", "each", "together") and "class" not in data.gives:
        return f"{data.name} names no classes, so only those that the model says can be explained"
    if target == "contrast" and "against" not in data.gives:
        return f"{data.name} sets no class against another"
    return None


def asks_again(metrics: Sequence[Metric]) -> bool:
    """Return whether one of the ``metrics`` needs answers of the model beyond that to the input: to a part of it, with other weights, or to
    a changed input.
    """
    return any(
        metric.curves or metric.needs & (MAPS_OF_CHANGED_INPUTS.keys() | ASKED_AGAIN | ASKED_ABOUT_SETS | ASKED_FOR_CLAIMS)
        for metric in metrics
    )


def _metrics(names: Sequence[str], data: Dataset, methods: int) -> list[Metric]:
    """Return the metrics called ``names`` ("all": every possible one) for a run of this number of ``methods`` on ``data``. Raises
    ExplainerError for one that the data set does not allow, and for none.
    """
    possible_names = [metric.name for metric in METRICS.values() if reason_against_metric(metric, data, methods) is None]
    chosen_metrics = find_metrics([each for name in names for each in (possible_names if name == "all" else [name])])
    if not chosen_metrics:
        raise ExplainerError("No metric is named: name one, or all.")
    for metric in chosen_metrics:
        if (reason := reason_against_metric(metric, data, methods)) is not None:
            raise ExplainerError(f"{metric.name} cannot be measured here: {reason}.")
    return chosen_metrics


def facts_needed(metric: Metric) -> list[str]:
    """Return the annotations that a data set must give for a metric: keys of ``explainers.datasets.registry.GIVES``."""
    return sorted({_ANNOTATION_OF_NEED[need] for need in metric.needs if need in _ANNOTATION_OF_NEED})


def reason_against_metric(metric: Metric, data: Dataset, methods: int) -> str | None:
    """Return why ``metric`` cannot be measured on ``data`` with this number of ``methods``; None if it can."""
    if data.kind not in metric.kinds:
        return f"it is for {' and '.join(f'{kind}s' for kind in metric.kinds)}, and {data.name} holds {data.kind}s"
    for fact in facts_needed(metric):
        if fact not in data.gives:
            return f"{data.name} gives no {fact}"
    if data.task is not None and "class" not in data.gives and metric.family not in FAMILIES_WITHOUT_CLASSES:
        return f"it is about classes, and {data.name} names none: the whole answer of a model is explained"
    if any(curve.superpixels for curve in metric.curves.values()) and not can_find_superpixels():
        return not_installed("it cuts pictures into superpixels by scikit-image", "segments").rstrip(".")
    if metric.name in _METRICS_OF_SEVERAL_METHODS and methods < 2:
        return "it compares several methods"
    return None


def run_folder_of(path: Path) -> Path:
    """Return ``path``, the folder of a run, created if it does not exist.

    Raises ExplainerError if it is a file, holds other things than a run, or cannot be created.
    """
    if path.is_file():
        raise ExplainerError(f"{path} is a file: name a folder for the run.")
    run_file = path / RUN
    if path.is_dir() and not run_file.is_file() and any(other != temporary_path(run_file) for other in path.iterdir()):
        raise ExplainerError(f"{path} holds other things than a run: name an empty folder, or one that a run began.")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise ExplainerError(f"No folder can be made at {path} ({problem.strerror}): name another one for the run.") from None
    return path
