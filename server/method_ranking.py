"""How far each method can be trusted on a model: its place in a run of ``vitrine evaluate`` that ships with Vitrine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from explainers.evaluation.marks import best_methods
from explainers.evaluation.statistics import rank_methods
from explainers.methods.registry import METHODS, is_control
from explainers.methods.variants import Variant
from server.run_reports import CONTROL, RunReport, read_run_reports

#: What methods are ranked by, the first of these metrics that a run has. Both hold what is right against what a random map gets.
RANKED_BY = ("srg", "own_object")
#: What each metric that methods are ranked by found of one, in plain words: ``{value}`` is in per cent, as ``{random}`` of a random map is.
SAYS = {
    "srg": "hiding what its map marks most takes {value} points more from the answer’s probability than hiding what it marks least; with "
    "a random map it is {random}",
    "own_object": "of two things in a photo, it lights more the one that the prompt names in {value}\u2009% of the cases, a random map in "
    "{random}\u2009%",
    "ap": "the strongest parts of its map lie on the thing",
}
#: The same where a model was asked for the things of a picture together.
SAYS_TOGETHER = {
    "own_object": "asked for both of two things in a photo, it lights for each prompt its own thing more in {value}\u2009% of the cases, a "
    "random map in {random}\u2009%",
}
#: By what a method must not be worse than the best either, where the run has it: of two objects the right one may be lit a little more by
#: a map that is strongest elsewhere.
NOR_BY = {"own_object": "ap"}
#: Whose ranks hold for a model that nobody measured: those of the embedded model that reads real inputs of its kind.
REFERENCE_MODELS = {"image": "photos-vit", "clip": "clip", "text": "reviews-bert", "molecule": "molecules"}
#: What inputs of a kind of data set are called.
INPUTS_IN_WORDS = {"image": "pictures", "text": "texts", "molecule": "molecules"}


@dataclass(frozen=True)
class MethodRanking:
    """The places of methods in one run by one metric. Those come first that cannot be told from the best, by it nor by a second one."""

    run: RunReport
    metric: dict[str, Any]

    @cached_property
    def _figures(self) -> dict[str, dict[str, Any]]:
        """Of each method that has a value, best first; the control is none."""
        results = self.run.report["results"][self.metric["name"]]
        marked = best_methods(self.run.report, self.metric)
        order = [spec for spec in rank_methods(self.run.report, self.metric) if not is_control(spec)]
        if self.second is not None:
            marked &= best_methods(self.run.report, self.second)
            order.sort(key=lambda spec: spec not in marked)
        return {spec: {**results[spec], "tied": spec in marked} for spec in order}

    @property
    def second(self) -> dict[str, Any] | None:
        """The metric by which the best must not be worse than others either; None where the run has none."""
        name = NOR_BY.get(self.metric["name"])
        return next((metric for metric in self.run.report.get("metrics", ()) if metric["name"] == name), None)

    def _second_value(self, spec: str) -> float | None:
        return None if self.second is None else self.run.report["results"][self.second["name"]][spec]["value"]

    @cached_property
    def ranks(self) -> dict[str, int]:
        """The place of each method that has a value. Equal values share the place of the first of them; the control has none."""
        values = [(figures["value"], self.second is not None and figures["tied"]) for figures in self._figures.values()]
        return {spec: 1 + values.index(value) for spec, value in zip(self._figures, values, strict=True)}

    def rank(self, spec: str) -> int | None:
        """The place of a method, 1 for the best; None where it was not measured, and for the control."""
        return self.ranks.get(spec)

    def apart(self, first: str, second: str, level: float) -> bool:
        """Whether the paired test tells two methods of the run apart at a level."""
        report = self.run.report
        specs = [method["spec"] for method in report["methods"]]
        p = report["apart"][self.metric["name"]][specs.index(first)][specs.index(second)]
        return p is not None and p < level

    @property
    def is_together(self) -> bool:
        """Whether a CLIP model was asked for the things of a picture alone."""
        return bool(self.run.report["plan"].get("target") == "together")

    def _said(self, metric: dict[str, Any]) -> dict[str, Any]:
        says = {**SAYS, **(SAYS_TOGETHER if self.is_together else {})}
        return {**{name: metric[name] for name in ("name", "title", "unit", "direction")}, "says": says[metric["name"]]}

    def to_json(self) -> dict[str, Any]:
        """The run, the metrics, what the control has by them, and for each method its rank among how many, its value with the interval, and
        whether it is ``tied``: cannot be told from the best by any of the metrics.
        """
        report = self.run.report
        inputs = f"{report['inputs']} {INPUTS_IN_WORDS[report['kind']]}"
        return {
            "run": self.run.id,
            "model": report["plan"]["model"],
            "measured": f"{inputs} of {report['dataset']['title']}",
            "inputs": inputs,
            "metric": self._said(self.metric),
            "second": self.second and self._said(self.second),
            "random": report["results"][self.metric["name"]][CONTROL]["value"],
            "random_second": self._second_value(CONTROL),
            "ranks": {
                spec: {"rank": self.ranks[spec], "of": len(self._figures)}
                | {name: figures[name] for name in ("value", "low", "high", "tied")}
                | {"second_value": self._second_value(spec)}
                for spec, figures in self._figures.items()
            },
        }


def method_rankings(together: bool = False) -> dict[str, MethodRanking]:
    """Of each model that was measured, its run with most methods, then inputs, of those that have the control and one of these metrics.

    ``together``: the runs in which a CLIP model was asked for the things of a picture alone, as somebody asks who writes several prompts.
    """
    return _method_rankings(together)


@cache
def _method_rankings(together: bool) -> dict[str, MethodRanking]:
    best: dict[str, MethodRanking] = {}
    for run in sorted(read_run_reports([])[0], key=lambda run: (len(run.report["methods"]), run.report["inputs"])):
        metrics = {metric["name"]: metric for metric in run.report["metrics"]}
        name = next((name for name in RANKED_BY if name in metrics and CONTROL in run.report["results"][name]), None)
        if name is not None and (ranking := MethodRanking(run, metrics[name])).is_together == together:
            best[run.report["plan"]["model"]] = ranking
    return best


def shown_first(ranking: MethodRanking | None, variants: Iterable[Variant]) -> list[str]:
    """The specs that a page shows where nobody chose any: the declared ones, and of each family the one with the best rank, of
    several prompts with options where it was measured so, if its variant is among the ``variants`` that can run and takes no long time.
    """
    able = {variant.spec: variant for variant in variants if variant.reason is None}
    best: dict[str, str] = {}
    ranks = {} if ranking is None else {spec: rank for spec, rank in ranking.ranks.items() if ranking.is_together or "?" not in spec}
    for spec in sorted(ranks, key=ranks.__getitem__):
        variant = able.get(spec.partition("?")[0])
        if variant is not None and not variant.slow:
            best.setdefault(METHODS[variant.method_name].family, spec)
    shown = [spec for spec, variant in able.items() if variant.default or spec in best.values()]
    return [*shown, *(spec for spec in best.values() if spec not in able)]


def ranking_for(kind: str, model: str | None = None, together: bool = False) -> MethodRanking | None:
    """What holds for a model of a ``kind``: its own run, else that of the embedded model that reads such inputs, else None."""
    measured = method_rankings(together) or method_rankings()
    return measured.get(model or "") or measured.get(REFERENCE_MODELS[kind])
