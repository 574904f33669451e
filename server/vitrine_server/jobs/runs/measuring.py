"""What a run of the page measures: which choices a model and a data set leave, and the run itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import explainers
from explainers.errors import ExplainerError
from explainers.json_records import Record, describe
from vitrine_server.jobs.catalogue.model_facts import ModelFacts
from vitrine_server.jobs.runs.data_sources import source_from_json, without_paths
from vitrine_server.metric_lines import metric_line

if TYPE_CHECKING:
    from explainers.datasets import Dataset

#: What a plan takes of a request.
PLANNED = ("limit", "target", "explains", "resize", "how", "right", "steps", "seed", "long_texts")
_UNSET = {"resize": "as the model was trained", "how": "as suits the model", "long_texts": "as the metrics need"}
_MANY = 2  # methods: a metric that compares several is offered


@dataclass(frozen=True)
class MeasurableMetric(Record):
    """A metric: its name, title and family, what it needs of a data set, and the reason if it cannot be measured on one."""

    name: str
    title: str
    line: Annotated[str, describe("What it measures, in one line.")]
    family: str
    needs: Annotated[list[str], describe("What a data set has to give, in words.")]
    reason: Annotated[str | None, describe("Why it cannot be measured here.")]


@dataclass(frozen=True)
class RunOptionValue(Record):
    """A value that an option of a run can have, its title, and the reason if it cannot be chosen here."""

    value: str | None
    title: str
    reason: Annotated[str | None, describe("Why it cannot be chosen here.")]


def reason_against_dataset(kind: str, data: Dataset, task: str | None = None) -> str | None:
    """Return the reason why a model of this ``kind`` and ``task`` cannot be measured on a data set; None if it can."""
    from explainers.evaluation.plan import reason_against_task

    reads = "image" if kind == "clip" else kind
    if data.kind != reads:
        return f"it holds {data.kind}s, and the model reads {reads}s"
    if kind == "clip" and not data.classes:
        return "it names no classes, which the model needs to compare pictures with"
    return reason_against_task(task, data)


def given_in_words(data: Dataset) -> list[str]:
    """List in words the facts that ``data``, a data set, gives about its inputs, such as classes or masks."""
    from explainers.datasets.registry import GIVES

    return [GIVES[fact] for fact in data.gives]


def metric_choices(data: Dataset) -> list[MeasurableMetric]:
    """List the metrics for the kind of input of ``data``, a data set, each with what it needs, and the reason if this data set does not
    give it.
    """
    from explainers.datasets.registry import GIVES
    from explainers.evaluation.plan import facts_needed, reason_against_metric
    from explainers.metrics import METRICS

    return [
        MeasurableMetric(
            name=metric.name,
            title=metric.title,
            line=metric_line(metric.to_json()),
            family=metric.family,
            needs=[GIVES[fact] for fact in facts_needed(metric)],
            reason=reason_against_metric(metric, data, _MANY),
        )
        for metric in METRICS.values()
        if data.kind in metric.kinds
    ]


def option_choices(facts: ModelFacts, data: Dataset) -> dict[str, list[RunOptionValue]]:
    """List the values of each option of a run on ``data``, by option, in words, each with the reason if it cannot be chosen for the model
    with these ``facts``.
    """
    from explainers.evaluation.plan import CHOICES, LONG_TEXTS_IN_WORDS, reason_against_target
    from explainers.models.removal.ways import REMOVAL_WAYS, ways_for
    from explainers.models.resizing import RESIZES

    words: dict[str, Mapping[str, str]] = {**CHOICES, "how": {way: REMOVAL_WAYS[way].words for way in ways_for(data.kind)}}
    reasons: dict[str, Callable[[str], str | None]] = {"target": lambda value: reason_against_target(value, data, facts.kind)}
    if data.kind == "image":
        words["resize"] = {str(name): text for name, text in RESIZES.items()}
        reasons["resize"] = lambda value: facts.reason_against_resize
    else:
        words["long_texts"] = LONG_TEXTS_IN_WORDS
    options = {}
    for name, values in words.items():
        reason = reasons.get(name, _no_reason)
        unset = [RunOptionValue(None, _UNSET[name], None)] if name in _UNSET else []
        options[name] = unset + [RunOptionValue(value, title, reason(value)) for value, title in values.items()]
    return options


def _no_reason(value: str) -> None:
    """Return None for every value of an option: there is no reason why it could not be chosen."""


def check(model: explainers.Model, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Make the plan of a run of ``model`` from the request ``wanted`` and return it as JSON. Raises ExplainerError, without any path in its
    message, for what cannot be measured.
    """
    from explainers.evaluation.plan import make_plan

    source = source_from_json(wanted["source"])
    data = source.open()
    try:
        plan = make_plan(model, data, wanted["methods"], wanted["metrics"], **{name: wanted[name] for name in PLANNED})
    except ExplainerError as problem:
        raise without_paths(problem, source.folder) from None
    return plan.to_json()


def evaluate(
    model: explainers.Model,
    wanted: Mapping[str, Any],
    folder: Path,
    tell: Callable[[int, int], None],
    cancelled: Callable[[], bool],
) -> bool:
    """Measure ``model`` as the request ``wanted`` says (which has the source of its data), and write rows and reports into ``folder``;
    return False if ``cancelled()`` stopped it before its end. ``tell`` is called with the numbers of inputs done and in total. Raises
    ExplainerError, without any path in its message, for what cannot be measured.
    """
    from explainers.evaluation.measuring import EvaluationSetup
    from explainers.evaluation.plan import make_plan
    from explainers.evaluation.reporting import write_reports
    from explainers.evaluation.running import run

    source = source_from_json(wanted["source"])
    data = source.open()
    try:
        plan = make_plan(model, data, wanted["methods"], wanted["metrics"], **{name: wanted[name] for name in PLANNED})
        skip = wanted["skip_broken"]
        finished = run(model, data, plan, folder, progress=tell, cancelled=cancelled, skip_broken=skip)
        if finished is None:
            return False
        write_reports(finished, EvaluationSetup(model, data, plan, skip_broken=skip), with_examples=wanted["examples"])
    except ExplainerError as problem:
        raise without_paths(problem, source.folder, folder) from None
    return True
