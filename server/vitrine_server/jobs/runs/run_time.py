"""An estimate of how long a run will take, before it begins: from the seconds that earlier runs of the same model took."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Annotated, Any

import explainers
from explainers.json_records import Record, describe
from explainers.methods.presets import specs_called
from vitrine_server.run_reports import RunReport


@dataclass(frozen=True)
class RunTime(Record):
    """An estimate of the time of a run, and the earlier runs that it is made of."""

    seconds: Annotated[float | None, describe("Null where no earlier run of the model says how long a map takes.")]
    methods: Annotated[int, describe("How many methods are measured.")]
    runs: Annotated[list[str], describe("The earlier runs, by id.")]


def specs_of(wanted: Iterable[str], variants: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the specs that a request for methods and sets of methods means on a model with these ``variants``, each once."""
    able = {variant["spec"] for variant in variants if variant["reason"] is None}
    return specs_called(wanted, lambda: [variant for variant in explainers.variants() if variant.spec in able])


def estimate_time(model: str, specs: Sequence[str], metrics: Sequence[str], inputs: int, runs: Iterable[RunReport]) -> RunTime:
    """Estimate the seconds of a run of ``model``: for each method what a map and its metrics took in the earlier run of the model that
    shares most metrics; a method that no run measured counts as the mean of the others.
    """
    timed = [run for run in runs if run.report["plan"]["model"] == model and run.report.get("seconds")]
    chosen = {spec: best for spec in specs if (best := _most_alike(spec, metrics, timed)) is not None}
    if not chosen:
        return RunTime(None, len(specs), [])
    known = [_seconds_of_map(spec, run.report) for spec, run in chosen.items()]
    per_input = sum(known) + (len(specs) - len(known)) * mean(known)
    return RunTime(round(inputs * per_input, 1), len(specs), list(dict.fromkeys(run.id for run in chosen.values())))


def _most_alike(spec: str, metrics: Sequence[str], runs: Iterable[RunReport]) -> RunReport | None:
    """Return the run that measured ``spec`` by most of these ``metrics`` and fewest others; of equal ones that of most inputs. None if no
    run measured it.
    """
    wanted = set(metrics)

    def likeness(run: RunReport) -> tuple[float, int]:
        names = {metric["name"] for metric in run.report["metrics"]}
        return len(wanted & names) / len(wanted | names), run.report["inputs"]

    measured = [run for run in runs if any(method["spec"] == spec for method in run.report["methods"])]
    return max(measured, key=likeness, default=None)


def _seconds_of_map(spec: str, report: Mapping[str, Any]) -> float:
    """Return the seconds that a run took for each map of a method: what all maps take alike, and what drawing this one takes."""
    alike: float = report["seconds"] / max(1, report["inputs"] * len(report["methods"]))
    costs = (report.get("costs") or {}).get("seconds", {})
    drawn = {name: cost["value"] for name, cost in costs.items() if cost["value"] is not None}
    return max(0.0, alike - mean(drawn.values())) + drawn[spec] if spec in drawn else alike
