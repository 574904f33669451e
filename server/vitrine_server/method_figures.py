"""The figures of one method in the runs that measured it: values and ranks, for its page."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from explainers.evaluation.html import format_value
from explainers.evaluation.statistics import rank_methods
from explainers.methods.registry import is_control
from explainers.methods.specs import Spec
from vitrine_server.method_ranking import MethodRanking
from vitrine_server.metric_truth import deciding_metric
from vitrine_server.run_reports import RunReport

#: The metrics of agreement with people's marks on a method's page: the first of these that a run has, next to the metric that decides.
_AGREEMENT = ("ap", "auprc", "token_f1_20")


@dataclass(frozen=True)
class Figure:
    """The value of one spec by one metric in a run, with its interval, as text: ``rank`` among the ``of`` methods that have a value, 1 for
    the best.

    The control, which is no method, has rank None.
    """

    run: RunReport
    spec: str
    metric: dict[str, Any]
    value: str
    interval: str
    rank: int | None
    of: int


def ranks_by(run: RunReport, metric: dict[str, Any], decides: bool) -> dict[str, int]:
    """Return the rank of each method of a ``run`` that has a value by ``metric``, 1 for the best; equal values share a rank, and the
    control has none.

    By the metric that ``decides`` they are the ranks of the leaderboard, where methods that also tie by a second metric come first.
    """
    if decides:
        return MethodRanking(run, metric).ranks
    report = run.report
    order = [spec for spec in rank_methods(report, metric) if not is_control(spec)]
    values = [report["results"][metric["name"]][spec]["value"] for spec in order]
    return {spec: 1 + values.index(value) for spec, value in zip(order, values, strict=True)}


def figures_of(method_name: str, rules: Iterable[str], runs: Iterable[RunReport]) -> list[Figure]:
    """List the figures in ``runs`` of the method ``method_name`` alone and under these ``rules``, run by run, best first: by the metric
    that decides in the run, and by agreement with people's marks.

    If several runs measured a spec in the same setting, the one with the most methods counts, as its ranks say most.
    """
    specs = {method_name, *(f"{method_name}:{rule}" for rule in rules)}
    figures: list[Figure] = []
    known: set[tuple[str, ...]] = set()
    for run in sorted(runs, key=lambda run: -len(run.report["methods"])):
        report = run.report
        metrics = {metric["name"]: metric for metric in report["metrics"]}
        setting = [str(report["plan"].get(part)) for part in ("model", "dataset", "target", "how")]
        deciding = deciding_metric(report["metrics"], report["kind"])
        decides = None if deciding is None else deciding["name"]
        agreement = next((name for name in _AGREEMENT if name in metrics), None)
        for name in dict.fromkeys(name for name in (decides, agreement) if name is not None):
            metric, values = metrics[name], report["results"][name]
            ranks = ranks_by(run, metric, name == decides)
            for spec in rank_methods(report, metric):
                if Spec.parse(spec).variant not in specs or (key := (*setting, name, spec)) in known:
                    continue
                known.add(key)
                low, high = (format_value(values[spec][end], metric["unit"]) for end in ("low", "high"))
                value = format_value(values[spec]["value"], metric["unit"])
                figures.append(Figure(run, spec, metric, value, f"{low} to {high}", ranks.get(spec), len(ranks)))
    return figures
