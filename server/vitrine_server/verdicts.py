"""Sentences on which method to trust, made from measurements: its rank against the best and against a random map, model by model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from explainers.evaluation.marks import cannot_tell
from explainers.json_records import INLINE, Record, describe
from explainers.methods.prompt_cosines import depends_on_other_prompts
from explainers.methods.specs import Spec
from vitrine_server.method_ranking import MethodRanking, Place, RankingMetric
from vitrine_server.run_reports import RunReport, title_in_words

#: A map counts as insensitive to weights from this rank correlation with itself under random weights on.
MIN_STUCK_CORRELATION = 0.5
#: The fewest inputs of a run that is read for randomisation.
MIN_INPUTS = 3
#: The metrics of maps under random weights: where all are random, else the mean over the layers.
_RANDOMISED = ("randomisation_end", "randomisation")


@dataclass(frozen=True)
class Verdict:
    """A sentence (``text``) on the measurements of one spec, naming the models for which it holds."""

    spec: str
    text: str


def verdicts(specs: Iterable[str], rankings: Mapping[str, MethodRanking], runs: Iterable[RunReport]) -> list[Verdict]:
    """Return a verdict for each of ``specs`` that was measured in ``runs``: its level on each model, from that model's ranking in
    ``rankings``, and whether its map survives random weights.
    """
    runs = list(runs)
    sentences: list[Verdict] = []
    for spec in specs:
        places: dict[int, list[str]] = {}
        for model, ranking in rankings.items():
            if (rank := ranking.rank(spec)) is not None:
                of = len(ranking.ranks)
                places.setdefault(_level(ranking, spec), []).append(f"{model} ({rank} of {of})")
        parts = [f"{_LEVELS[level]} on {_join_with_and(models)}" for level, models in sorted(places.items())]
        if stuck := _maps_that_random_weights_leave(spec, runs):
            parts.append(f"with random weights it keeps a rank correlation of {_join_with_and(stuck)} with itself")
        if parts:
            sentences.append(Verdict(spec, "; ".join(parts) + "."))
    return sentences


def on_photos(spec: str, specs: Iterable[str], ranking: MethodRanking | None) -> str:
    """Return how the method ``spec`` ranks in ``ranking``, the run that ranks methods on photos (None: there is none), and, where another
    of ``specs``, the same method under other rules, ranks better there, that one too.
    """
    places = {} if ranking is None else {each: rank for each in specs if (rank := ranking.rank(each)) is not None}
    if ranking is None or not places:
        return "Not measured on photos. Judge it by its formula, and by the deletion test on your own input."
    report, best = ranking.run.report, min(places, key=lambda each: places[each])
    titles = {method["spec"]: method["title"] for method in report["methods"]}
    if spec not in places:
        return f"Not measured on photos with this rule. {titles[best]} ranks {places[best]} of {len(ranking.ranks)} there."
    measured = f"{report['inputs']} photos of {report['dataset']['title']}"
    place = f"{places[spec]} of {len(ranking.ranks)}, {_LEVELS[_level(ranking, spec)]}"
    better = f" With another rule, {titles[best]} ranks {places[best]}." if places[best] < places[spec] else ""
    return f"On photos {titles[spec]} ranks {place} ({ranking.metric['title']}, {measured}).{better}"


#: Number of methods that are named as trustworthy.
MOST_TRUSTED_NAMED = 3


@dataclass(frozen=True)
class RankedMethod(Record):
    """A method: its spec, title and rank."""

    spec: str
    readout: Annotated[str, describe("The part of the spec that names the method.")]
    title: str
    signed: Annotated[bool, describe("Whether its scores have a sign.")]
    rank: int


@dataclass(frozen=True)
class TrustedMethod(Record):
    """A method that a run gives reason to trust, with its rank and figures."""

    method: Annotated[RankedMethod, INLINE]
    place: Annotated[Place, INLINE]


Group = Literal["first", "behind", "chance", "worse"]


@dataclass(frozen=True)
class PlacedMethod(Record):
    """A method of a run with its rank, its figures and its group: tied for first, behind these, no better than a random map, or worse."""

    method: Annotated[RankedMethod, INLINE]
    place: Annotated[Place, INLINE]
    group: Group
    comparing: Annotated[bool, describe("Whether its map depends on the other prompts, so that no page recommends it.")]


@dataclass(frozen=True)
class Ranking(Record):
    """The result of one run by the metric by which the pages rank methods: the methods to trust, the methods that are no better than
    random, and the methods that are worse.
    """

    run: str
    model: str
    weights_digest: Annotated[str | None, describe("Of the model as it was measured; null where an early run did not say.")]
    date: Annotated[str | None, describe("The day on which it was measured, as 2026-11-29; null where an early run did not say.")]
    measured: str
    inputs: Annotated[str, describe("On how many inputs, in words.")]
    level: Annotated[float, describe("That of the intervals: 0.95.")]
    cannot_tell: Annotated[str | None, describe("Why the metric cannot tell methods apart here, where it cannot.")]
    metric: RankingMetric
    why: Annotated[str, describe("Why the metric decides, and how far it may be believed.")]
    second: RankingMetric | None
    random: float | None
    of: int
    tied: Annotated[int, describe("How many methods cannot be told from the best.")]
    trust: list[TrustedMethod]
    by_chance: Annotated[list[RankedMethod], describe("What cannot be told from a random map.")]
    worse: Annotated[list[RankedMethod], describe("What is worse than one.")]
    places: Annotated[list[PlacedMethod], describe("Every method that has a value, best first.")]


def verdict_in_words(ranking: MethodRanking) -> Ranking:
    """Return the verdict of a run, from its ``ranking`` of methods, as data for a sentence.

    ``trust`` has the first different methods among those that the ranking recommends, as every page does. ``tied`` says how many tie
    with the best, ``by_chance`` those no better than a random map, and ``worse`` those worse than one.
    """
    levels = {spec: _level(ranking, spec) for spec in ranking.ranks}
    methods = {method["spec"]: method for method in ranking.run.report["methods"]}
    trust: dict[str, str] = {}
    for spec in ranking.recommended:  # best first
        if len(trust) < MOST_TRUSTED_NAMED:
            trust.setdefault(Spec.parse(spec).method, spec)

    def ranked(spec: str) -> RankedMethod:
        return RankedMethod(spec, Spec.parse(spec).method, title_in_words(methods[spec]), methods[spec]["signed"], ranking.ranks[spec])

    standing, report = ranking.standing(), ranking.run.report
    return Ranking(
        run=standing.run,
        model=standing.model,
        weights_digest=report.get("weights_digest"),
        date=report.get("date"),
        measured=standing.measured,
        inputs=standing.inputs,
        level=report["interval"]["level"],
        cannot_tell=cannot_tell(report, ranking.metric),
        metric=standing.metric,
        why=ranking.why,
        second=standing.second,
        random=standing.random,
        of=len(levels),
        tied=sum(place.tied for place in standing.ranks.values()),
        trust=[TrustedMethod(ranked(spec), standing.ranks[spec]) for spec in trust.values()],
        by_chance=[ranked(spec) for spec, level in levels.items() if level == _CHANCE],
        worse=[ranked(spec) for spec, level in levels.items() if level == _WORSE],
        places=[
            PlacedMethod(ranked(spec), standing.ranks[spec], _group(level), depends_on_other_prompts(Spec.parse(spec).options))
            for spec, level in levels.items()
        ],
    )


def _group(level: int) -> Group:
    if level == _BEST:
        return "first"
    return "worse" if level == _WORSE else "chance" if level == _CHANCE else "behind"


#: Best first.
_LEVELS = (
    "tied for first",
    "in the best third",
    "in the middle third",
    "in the last third",
    "no better than a random map",
    "worse than a random map",
)
_BEST, _THIRDS, _CHANCE, _WORSE = 0, 1, 4, 5  # places of these


def _level(ranking: MethodRanking, spec: str) -> int:
    """Return how good the method of ``spec`` is in the run of ``ranking``, as an index in ``_LEVELS``: from its rank, its ties with the
    best, and the comparison with random scores.
    """
    compared = ranking.compare_with_chance(spec)
    if compared in ("same", "worse"):
        return _CHANCE if compared == "same" else _WORSE
    if ranking.is_best(spec):
        return _BEST
    return _THIRDS + 3 * (ranking.ranks[spec] - 1) // len(ranking.ranks)


def _maps_that_random_weights_leave(spec: str, runs: list[RunReport]) -> list[str]:
    """Return, for each model in ``runs`` on which the maps of ``spec`` stay similar when its weights are randomised, the correlation of
    both maps, as "0.70 (model)".
    """
    correlations: dict[str, float] = {}
    for name in reversed(_RANDOMISED):
        for run in runs:
            if run.report["inputs"] < MIN_INPUTS:
                continue
            value = run.report["results"].get(name, {}).get(spec, {}).get("value")
            if value is not None:
                correlations[run.report["plan"]["model"]] = value
    return [f"{value:.2f} ({model})" for model, value in correlations.items() if value >= MIN_STUCK_CORRELATION]


def _join_with_and(items: list[str]) -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"
