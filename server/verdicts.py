"""When to trust a method, in sentences made of what was measured: its place against the best and against a random map, model by model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from explainers.evaluation.html import ranked
from server.method_ranking import MethodRanking
from server.run_reports import CONTROL, RunReport

#: Two methods whose paired test gives less than this are told apart.
APART = 0.05
#: A map that keeps this rank correlation with itself under random weights is said to.
STUCK = 0.5
#: Runs of fewer inputs say nothing here.
FEW = 3
#: The metrics of maps under random weights: where all are random, else the mean over the layers.
_RANDOMISED = ("randomisation_end", "randomisation")


@dataclass(frozen=True)
class Verdict:
    """What was measured of one spec, in a sentence that says of which models it holds."""

    spec: str
    text: str


def verdicts(specs: Iterable[str], rankings: Mapping[str, MethodRanking], runs: Iterable[RunReport]) -> list[Verdict]:
    """For each of ``specs`` that was measured: how it stands on each model, and on which models its map outlives random weights."""
    runs = list(runs)
    sentences: list[Verdict] = []
    for spec in specs:
        places: dict[int, list[str]] = {}
        for model, ranking in rankings.items():
            if (rank := ranking.rank(spec)) is not None:
                of = len(ranking.ranks)
                places.setdefault(_level(ranking, spec), []).append(f"{model} ({rank} of {of})")
        parts = [f"{_LEVELS[level]} on {_listed(models)}" for level, models in sorted(places.items())]
        if stuck := _stuck(spec, runs):
            parts.append(f"with random weights it keeps a rank correlation of {_listed(stuck)} with itself")
        if parts:
            sentences.append(Verdict(spec, "; ".join(parts) + "."))
    return sentences


#: Best first.
_LEVELS = (
    "cannot be told from the best",
    "in the best third",
    "in the middle third",
    "in the last third",
    "no better than a random map",
    "worse than a random map",
)
_BEST, _THIRDS, _CHANCE, _WORSE = 0, 1, 4, 5  # places of these


def _level(ranking: MethodRanking, spec: str) -> int:
    """The place in ``_LEVELS`` of a method that has a value."""
    report = ranking.run.report
    order = ranked(report, ranking.metric)
    if not ranking.apart(spec, CONTROL, APART):
        return _CHANCE
    if order.index(spec) > order.index(CONTROL):
        return _WORSE
    if report["results"][ranking.metric["name"]][spec]["tied"]:
        return _BEST
    return _THIRDS + 3 * (ranking.ranks[spec] - 1) // len(ranking.ranks)


def _stuck(spec: str, runs: list[RunReport]) -> list[str]:
    """Correlations of maps with themselves under random weights that are large, each with its model, by the first metric that it has."""
    correlations: dict[str, float] = {}
    for name in reversed(_RANDOMISED):
        for run in runs:
            if run.report["inputs"] < FEW:
                continue
            value = run.report["results"].get(name, {}).get(spec, {}).get("value")
            if value is not None:
                correlations[run.report["plan"]["model"]] = value
    return [f"{value:.2f} ({model})" for model, value in correlations.items() if value >= STUCK]


def _listed(items: list[str]) -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"
