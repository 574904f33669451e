"""Ranks of methods on a model, by a run of ``vitrine evaluate`` that ships with Vitrine: how far each method can be trusted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Annotated, Any, Literal

import explainers
from explainers.evaluation.marks import best_methods, cannot_tell
from explainers.evaluation.statistics import rank_methods
from explainers.json_records import Record, describe
from explainers.methods.presets import MOST_IN_A_PRESET, PRESETS
from explainers.methods.prompt_cosines import depends_on_other_prompts
from explainers.methods.registry import METHODS, is_control
from explainers.methods.specs import Spec
from explainers.methods.variants import Variant
from vitrine_server.metric_lines import metric_line
from vitrine_server.metric_truth import deciding_metric, why_it_decides
from vitrine_server.run_reports import CONTROL, RunReport, read_run_reports

#: The result of a method by each ranking metric, in plain words: ``{value}`` is its value times 100, ``{random}`` that of a random map.
SAYS = {
    "srg": "hiding what it marks cost {value} points more than hiding the rest (random: {random} points)",
    "mif": "hiding what it marks changed the answer in {value}\u2009% of cases (random: {random}\u2009%)",
    "comprehensiveness": "hiding what it marks first cost {value} points (random: {random} points)",
    "own_object": "it marked the one of two things that the prompt names in {value}\u2009% of cases (chance: {random}\u2009%)",
    "ap": "its strongest parts lie on the thing that the prompt names: average precision {value}\u2009% (random: {random}\u2009%)",
}
#: For a ranking metric, a second one by which a method must also tie with the best, where the run has it: a map may lie on the thing that
#: a prompt names because that is the most striking of the picture, whatever is asked.
NOR_BY = {"ap": "own_object"}
#: For each kind of input, the embedded model whose ranks are used for a model that was not measured.
REFERENCE_MODELS = {"image": "photos-vit", "clip": "clip", "text": "reviews-bert", "molecule": "molecules"}
#: Two methods differ where the p-value of their paired test is below this.
SIGNIFICANCE = 0.05
#: What a page with room for one map shows where no shipped run says which method is best.
UNMEASURED_METHOD = "fullgrad_plus:libra"
#: For each kind of data set, the plural noun for its inputs.
INPUTS_IN_WORDS = {"image": "pictures", "text": "texts", "molecule": "molecules"}


@dataclass(frozen=True)
class RankingMetric(Record):
    """A metric by which methods are ranked, with its unit and direction, and the sentence that reports its value for a method."""

    name: str
    title: str
    unit: str
    direction: str
    says: Annotated[
        str,
        describe("What it found of a method, in words, with ``{value}`` and ``{random}`` in per cent; empty where it has none."),
    ]
    line: Annotated[str, describe("What it measures, in one line.")]


@dataclass(frozen=True)
class Place(Record):
    """The rank of a method in a run (``rank`` of ``of``), its value by the metric with an interval, and its value by a second metric.

    low, high     ends of the interval; None if it has none
    second_value  None if there is no second metric, or no value by it
    recommended   whether it is one of `MethodRanking.recommended`
    """

    rank: int
    of: int
    value: float
    low: float | None
    high: float | None
    tied: Annotated[bool, describe("Whether it cannot be told from the best.")]
    second_value: float | None
    recommended: Annotated[bool, describe("Whether pages may recommend it.")]


@dataclass(frozen=True)
class Standing(Record):
    """The ranks of methods in one run that ships with Vitrine, as a measure of how far each can be trusted: the run, its metrics, and what
    random scores have by them.
    """

    run: str
    model: str
    measured: Annotated[str, describe("On what, in words.")]
    inputs: Annotated[str, describe("On how many inputs, in words: the beginning of ``measured``.")]
    metric: RankingMetric
    second: Annotated[RankingMetric | None, describe("By what those that are tied with the best are no worse either.")]
    random: Annotated[float | None, describe("What random scores have.")]
    random_second: float | None
    ranks: dict[str, Place]
    here: Annotated[bool, describe("Whether it was measured on this very model.")]


@dataclass(frozen=True)
class MethodRanking:
    """The ranks of methods in one run by one metric. Methods that tie with the best, also by a second metric, come first."""

    run: RunReport
    metric: dict[str, Any]

    @cached_property
    def _figures(self) -> dict[str, dict[str, Any]]:
        """The figures of each method that has a value, best first, by spec; the control is left out."""
        results = self.run.report["results"][self.metric["name"]]
        marked = best_methods(self.run.report, self.metric)
        order = [spec for spec in rank_methods(self.run.report, self.metric) if not is_control(spec)]
        if self.second is not None:
            marked &= best_methods(self.run.report, self.second)
            order.sort(key=lambda spec: spec not in marked)
        return {spec: {**results[spec], "tied": spec in marked} for spec in order}

    @property
    def second(self) -> dict[str, Any] | None:
        """The second metric by which a method must tie with the best to come first; None if the run has none."""
        name = NOR_BY.get(self.metric["name"])
        return next((metric for metric in self.run.report.get("metrics", ()) if metric["name"] == name), None)

    def _second_value(self, spec: str) -> float | None:
        return None if self.second is None else self._value(self.second, spec)

    def _value(self, metric: dict[str, Any], spec: str) -> float | None:
        value: float | None = self.run.report["results"][metric["name"]].get(spec, {}).get("value")
        return value

    @property
    def has_chance(self) -> bool:
        """True if the run measured a map of random numbers by the metric."""
        return self._value(self.metric, CONTROL) is not None

    @cached_property
    def ranks(self) -> dict[str, int]:
        """The rank of each method that has a value, by spec. Equal values share a rank; the control has none."""
        values = [(figures["value"], self.second is not None and figures["tied"]) for figures in self._figures.values()]
        return {spec: 1 + values.index(value) for spec, value in zip(self._figures, values, strict=True)}

    def rank(self, spec: str) -> int | None:
        """Return the rank of the method ``spec``, 1 for the best; None if it was not measured, and for the control."""
        return self.ranks.get(spec)

    def is_best(self, spec: str) -> bool:
        """Return whether the method ``spec`` ties with the best, by the second metric too."""
        is_tied: bool = self._figures[spec]["tied"]
        return is_tied

    def can_tell_apart(self, first: str, second: str, level: float) -> bool:
        """Return whether the specs ``first`` and ``second`` differ significantly in the run: whether the p value of their paired test is
        below ``level``.
        """
        report = self.run.report
        specs = [method["spec"] for method in report["methods"]]
        p = report["apart"][self.metric["name"]][specs.index(first)][specs.index(second)]
        return p is not None and p < level

    def compare_with_chance(self, spec: str) -> Literal["better", "same", "worse"] | None:
        """Return how the method ``spec`` compares with a map of random numbers, by the paired test; None if the run has no such map."""
        if not self.has_chance:
            return None
        if not self.can_tell_apart(spec, CONTROL, SIGNIFICANCE):
            return "same"
        order = rank_methods(self.run.report, self.metric)
        return "better" if order.index(spec) < order.index(CONTROL) else "worse"

    @cached_property
    def recommended(self) -> tuple[str, ...]:
        """The specs that pages may recommend, best first: those that tie with the best and are better than a random map.

        Maps that depend on the other prompts of a question are left out. Empty where the metric cannot tell methods apart.
        """
        if cannot_tell(self.run.report, self.metric) is not None:
            return ()
        return tuple(
            spec
            for spec in self.ranks
            if self.is_best(spec)
            and self.compare_with_chance(spec) in ("better", None)
            and not depends_on_other_prompts(Spec.parse(spec).options)
        )

    @property
    def why(self) -> str:
        """Sentences on why the metric decides, and how far it may be believed."""
        return why_it_decides(self.metric["name"], self.run.report.get("metrics", ()), self.run.report["kind"])

    def _describe_metric(self, metric: dict[str, Any]) -> RankingMetric:
        return RankingMetric(
            metric["name"], metric["title"], metric["unit"], metric["direction"], SAYS.get(metric["name"], ""), metric_line(metric)
        )

    def standing(self, model: str | None = None) -> Standing:
        """Return the run, the metrics, the control's values by them, and for each method its rank, value and interval; ``model`` is the
        name of the model that is asked about.

        ``tied`` is true for a method that ties with the best by all of the metrics.
        """
        report = self.run.report
        inputs = f"{report['inputs']} {INPUTS_IN_WORDS[report['kind']]}"
        return Standing(
            run=self.run.id,
            model=report["plan"]["model"],
            measured=f"{inputs} of {report['dataset']['title']}",
            inputs=inputs,
            metric=self._describe_metric(self.metric),
            second=None if self.second is None else self._describe_metric(self.second),
            random=self._value(self.metric, CONTROL),
            random_second=self._second_value(CONTROL),
            ranks={spec: self._place(spec, figures) for spec, figures in self._figures.items()},
            here=report["plan"]["model"] == model,
        )

    def _place(self, spec: str, figures: dict[str, Any]) -> Place:
        value, low, high, is_tied = (figures[name] for name in ("value", "low", "high", "tied"))
        is_recommended = spec in self.recommended
        return Place(self.ranks[spec], len(self._figures), value, low, high, is_tied, self._second_value(spec), is_recommended)


@cache
def method_rankings() -> dict[str, MethodRanking]:
    """Return, by model, the ranking from its run with the most methods, then inputs, that has the control and a ranking metric.

    A run that asked a CLIP model for all things of a picture together is left out: a map that depends on the other prompts does not say
    how good the map of one prompt is.
    """
    best: dict[str, MethodRanking] = {}
    for run in sorted(read_run_reports([])[0], key=lambda run: (len(run.report["methods"]), run.report["inputs"])):
        metrics = [metric for metric in run.report["metrics"] if CONTROL in run.report["results"][metric["name"]]]
        metric = deciding_metric(metrics, run.report["kind"])
        if metric is not None and run.report["plan"].get("target") != "together":
            best[run.report["plan"]["model"]] = MethodRanking(run, metric)
    return best


def ranking_of_run(run: RunReport) -> MethodRanking | None:
    """Return the ranking of a run by the metric that decides on its pages: the `deciding_metric`, else its first metric that says which map
    is better; None if it has none.
    """
    metrics = [metric for metric in run.report["metrics"] if metric["direction"] is not None and metric.get("family") != "sanity"]
    chosen = deciding_metric(metrics, run.report["kind"]) or next(iter(metrics), None)
    return None if chosen is None else MethodRanking(run, chosen)


def default_specs(ranking: MethodRanking | None, variants: Iterable[Variant]) -> list[str]:
    """Return the specs that a page shows by default, by their ranks in ``ranking`` (None: not measured): `MOST_IN_A_PRESET` methods at
    most, and the controls.

    The method with the best rank in each family comes first, then the methods declared as default by their ranks. Only ``variants`` that
    can run and are not slow count, and specs without options.
    """
    able = {variant.spec: variant for variant in variants if variant.reason is None}
    best: dict[str, str] = {}
    known = {} if ranking is None else ranking.ranks
    ranks = {spec: rank for spec, rank in known.items() if not Spec.parse(spec).options}
    for spec in sorted(ranks, key=ranks.__getitem__):
        variant = able.get(Spec.parse(spec).variant)
        if variant is not None and not variant.slow:
            best.setdefault(METHODS[variant.method_name].family, spec)
    declared = [spec for spec, variant in able.items() if variant.default]
    methods = sorted((spec for spec in declared if not is_control(spec)), key=lambda spec: ranks.get(spec, len(ranks) + 1))
    chosen = list(dict.fromkeys([*best.values(), *methods]))[:MOST_IN_A_PRESET]
    shown = {*chosen, *(spec for spec in declared if is_control(spec))}
    return [spec for spec in able if spec in shown]


#: The presets that hold the methods of the three papers that Vitrine implements and those that they compare with.
PAPER_PRESETS = ("chefer", "libragrad", "lrp-family")


@cache
def asides() -> dict[str, str]:
    """Return, by name, why a method is listed behind the others: it was measured and is among the best on no model. Methods of the three
    papers are never listed behind.
    """
    papers = {
        variant.method_name
        for preset in PRESETS
        if preset.name in PAPER_PRESETS
        for variant in explainers.variants()
        if preset.has(variant)
    }
    measured, best = Counter[str](), set[str]()
    for ranking in method_rankings().values():
        places = ranking.standing().ranks
        measured.update({Spec.parse(spec).method for spec in places})
        best |= {Spec.parse(spec).method for spec, place in places.items() if place.tied}
    return {
        name: f"Measured on {count} model{'s' if count > 1 else ''}, and among the best on none."
        for name, count in measured.items()
        if name not in best | papers
    }


def ranking_for(kind: str, model: str | None = None) -> MethodRanking | None:
    """Return the ranking for a model of a ``kind``: from its own run, else from the embedded model of the kind; None if neither exists."""
    measured = method_rankings()
    return measured.get(model or "") or measured.get(REFERENCE_MODELS[kind])


def recommended_spec(kind: str, model: str | None = None, *, signed: bool = False) -> str:
    """Return the spec of the method to look at first for a model of a ``kind``, as the pages and the leaderboard recommend it;
    with ``signed`` the first one whose scores have a sign. `UNMEASURED_METHOD` where no shipped run recommends any.
    """
    ranking = ranking_for(kind, model)
    able = () if ranking is None else ranking.recommended
    return next((spec for spec in able if not signed or METHODS[Spec.parse(spec).method].signed), UNMEASURED_METHOD)
