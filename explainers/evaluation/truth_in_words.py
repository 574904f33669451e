"""What worlds of known truth say of metrics, in sentences made of the figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

KINDS = {"image": "pictures", "text": "sentences"}
MOST_NAMED = 5  # metrics in a sentence


def agreement_in_words(figure: dict[str, Any]) -> str:
    """An agreement with its interval, ``0.81 (0.74 to 0.86)``, and of how many methods it is where others have no value."""
    of = "" if figure["methods"] == figure["of"] else f"; {figure['methods']} of {figure['of']} methods"
    return f"{figure['tau']:.2f} ({figure['low']:.2f} to {figure['high']:.2f}{of})"


def metrics_without_marks(document: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    """The metrics that are not told the truth and have an agreement with it on this kind of input, the nearest to it first."""
    compared = [metric for metric in document["metrics"] if not metric["reads_marks"] and metric["kinds"].get(kind) is not None]
    return sorted(compared, key=lambda metric: -metric["kinds"][kind]["tau"])


def conclusions(document: dict[str, Any]) -> list[str]:
    """Sentences on the worlds, and on each kind of input."""
    sentences = [_of_world(world) for world in document["worlds"]]
    for kind in KINDS:
        if metrics := metrics_without_marks(document, kind):
            worlds = [world["name"] for world in document["worlds"] if world["kind"] == kind]
            sentences += _of_kind(metrics, kind, worlds)
    return [*sentences, *_in_all_worlds(document)]


def _of_world(world: dict[str, Any]) -> str:
    methods, truth = world["methods"], world["truth"]
    best = [method["title"] for method in methods if method["value"] == methods[0]["value"]]
    control = next((place for place, method in enumerate(methods, 1) if method["spec"] == "random"), None)
    random = "" if control is None else f", and a map of random numbers is {_ordinal(control)} of {len(methods)}"
    first = f"{_listed(best)} {'is' if len(best) == 1 else 'are'} first ({truth['title']} {methods[0]['value']:.2f})"
    return f"{world['dataset']} with {world['model']} ({world['inputs']} inputs): by truth {first}{random}."


def _of_kind(metrics: Sequence[dict[str, Any]], kind: str, worlds: Sequence[str]) -> list[str]:
    """Which metrics follow the truth best, which cannot be told from chance, which go against it, and which do both."""
    of_most = [metric for metric in metrics if _is_of_most(metric["kinds"][kind])]
    nearest = [f"{metric['title']} {agreement_in_words(metric['kinds'][kind])}" for metric in of_most[:MOST_NAMED]]
    on = f"On {KINDS[kind]} ({len(worlds)} {'world' if len(worlds) == 1 else 'worlds'})"
    sentences = [
        f"{on}, of {len(of_most)} metrics that are not told the truth and have a value for half of the methods or more, these put methods "
        f"most nearly in its order: {_listed(nearest)}."
    ]
    groups = (
        ("Cannot be told from chance", [m for m in metrics if m["kinds"][kind]["low"] <= 0 <= m["kinds"][kind]["high"]]),
        ("Against the truth", [m for m in metrics if m["kinds"][kind]["high"] < 0]),
        ("With the truth in one world and against it in another", [m for m in metrics if _splits(m, worlds)]),
    )
    for words, of_group in groups:
        if of_group:
            sentences.append(f"{words} on {KINDS[kind]}: {_listed([metric['title'] for metric in of_group])}.")
    return sentences


def _in_all_worlds(document: dict[str, Any]) -> list[str]:
    """Which metrics are above chance wherever they were asked, of those that were asked in every world; nothing of one world alone."""
    worlds = [world["name"] for world in document["worlds"]]
    everywhere = [
        metric
        for metric in document["metrics"]
        if not metric["reads_marks"] and all(_is_above_chance(metric["worlds"][name]) for name in worlds)
    ]
    if len(worlds) == 1 or not everywhere:
        return []
    everywhere.sort(key=lambda metric: -min(float(metric["worlds"][name]["tau"]) for name in worlds))
    named = [f"{metric['title']} {min(float(metric['worlds'][name]['tau']) for name in worlds):.2f}" for metric in everywhere]
    return [f"Above chance in each of the {len(worlds)} worlds, with the least agreement in any of them: {_listed(named)}."]


def _is_of_most(figure: dict[str, Any]) -> bool:
    """Whether an agreement is of half of the methods or more: of fewer it says little."""
    return bool(2 * figure["methods"] >= figure["of"])


def _is_above_chance(figure: dict[str, Any] | None) -> bool:
    """Whether an agreement in a world is one of most methods, with its interval above zero."""
    return figure is not None and _is_of_most(figure) and figure["low"] > 0


def _splits(metric: dict[str, Any], worlds: Sequence[str]) -> bool:
    """Whether its interval is above zero in one of these worlds and below it in another."""
    figures = [figure for name in worlds if (figure := metric["worlds"][name]) is not None]
    return any(figure["low"] > 0 for figure in figures) and any(figure["high"] < 0 for figure in figures)


def _listed(items: Iterable[str]) -> str:
    *before, last = items
    return f"{'; '.join(before)} and {last}" if before else last


def _ordinal(number: int) -> str:
    ending = "th" if 10 < number % 100 < 14 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
