"""Protocols of papers as runs of the page follow them: the fields of its form, for a model and a data set."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from explainers.json_records import Record, describe
from explainers.methods.specs import Spec
from vitrine_server.jobs.catalogue.model_facts import ModelFacts
from vitrine_server.schemas.runs import RunOptions

if TYPE_CHECKING:
    from explainers.datasets import Dataset
    from explainers.evaluation.protocols.protocol import Measure, Protocol

_SEVERAL = 2  # methods: a metric that compares several is allowed


@dataclass(frozen=True)
class ProtocolForm(Record):
    """The settings of a run that follows the protocol of a paper: methods, metrics, number of inputs and options; what is left out, and
    what differs from the paper.

    name   name of the protocol; ``title`` is its name for people
    limit  number of inputs
    """

    name: str
    title: str
    methods: list[str]
    metrics: list[str]
    limit: int
    options: Annotated[RunOptions, describe(write=RunOptions.model_dump)]
    left_out: Annotated[list[str], describe("What of it cannot be measured here, and why.")]
    notes: Annotated[list[str], describe("What differs from the paper or its code.")]


def protocol_forms(facts: ModelFacts, data: Dataset, most: int) -> list[ProtocolForm]:
    """List every protocol of a paper for the kind of input of ``data`` and for the model with these ``facts``, as values of the page's
    form, one entry for each set of its options, since a run has one; a run has at most ``most`` inputs. Methods and metrics that the model
    or the data set does not allow are named with the reason in ``left_out``; an entry without any method or metric left is omitted.
    """
    from explainers.evaluation.protocols.protocol import find_protocol, protocol_names

    protocols = [find_protocol(name) for name in protocol_names()]
    return [form for protocol in protocols if protocol.kind == "runs" for form in _forms_of(protocol, facts, data, most)]


def _forms_of(protocol: Protocol, facts: ModelFacts, data: Dataset, most: int) -> Iterator[ProtocolForm]:
    groups = list(_groups(protocol, data))
    for number, (options, measures, specs) in enumerate(groups):
        left_out: list[str] = []
        metrics = _metrics(measures, data, left_out)
        methods = _methods(specs, facts, left_out)
        if not metrics or not methods:
            continue
        titles = list(dict.fromkeys(measure.head for measure in measures))
        apart = f": {', '.join(titles)}; from its {options.get('explains', 'logit')}" if len(groups) > 1 else ""
        yield ProtocolForm(
            name=protocol.name if not number else f"{protocol.name}-{number + 1}",
            title=f"{protocol.source}: {protocol.title}{apart}",
            methods=methods,
            metrics=metrics,
            limit=min(protocol.inputs or most, len(data), most),
            options=RunOptions.model_validate(options),
            left_out=left_out,
            notes=[*protocol.notes, *protocol.differences],
        )


def _groups(protocol: Protocol, data: Dataset) -> Iterator[tuple[dict[str, Any], list[Measure], list[str]]]:
    """Yield the options, measures and specs of each run that ``protocol`` needs for inputs of the kind of ``data``."""
    from explainers.datasets import DATASETS

    groups: dict[str, tuple[dict[str, Any], list[Measure], list[str]]] = {}
    for row in protocol.rows:
        for measure in protocol.measures:
            if DATASETS[measure.dataset].kind != data.kind:
                continue
            options = protocol.options_of(row, measure)
            _, measures, specs = groups.setdefault(json.dumps(options, sort_keys=True), (options, [], []))
            measures += [measure] if measure not in measures else []
            specs += [row.spec] if row.spec not in specs else []
    yield from groups.values()


def _metrics(measures: Sequence[Measure], data: Dataset, left_out: list[str]) -> list[str]:
    from explainers.evaluation.plan import reason_against_metric
    from explainers.metrics import METRICS

    names = []
    for name in dict.fromkeys(measure.metric for measure in measures):
        reason = reason_against_metric(METRICS[name], data, _SEVERAL)
        if reason is None:
            names.append(name)
        else:
            left_out.append(f"{METRICS[name].title}: {reason}.")
    return names


def _methods(specs: Sequence[str], facts: ModelFacts, left_out: list[str]) -> list[str]:
    reasons = {method["name"]: _reason_against(method) for method in facts.methods}
    possible = []
    for spec in specs:
        reason = reasons.get(Spec.parse(spec).method)
        if reason is None:
            possible.append(spec)
        else:
            left_out.append(f"{spec}: {reason.rstrip('.')}.")
    return possible


def _reason_against(method: Mapping[str, Any]) -> str | None:
    """Return the reason why the model allows a method under no rule; None if it allows it under at least one."""
    reasons = [pair["reason"] for pair in method["pairs"]]
    return None if not reasons or None in reasons else str(reasons[0])
