"""What worlds of known truth say of metrics, in sentences made of the figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

KINDS = {"image": "pictures", "text": "sentences"}
MOST_NAMED = 5  # metrics in a sentence


def agreement_in_words(figure: dict[str, Any]) -> str:
    """An agreement with its interval: ``0.81 (0.74 to 0.86)``."""
    return f"{figure['tau']:.2f} ({figure['low']:.2f} to {figure['high']:.2f})"


def metrics_without_marks(document: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    """The metrics that are not told the truth and have an agreement with it on this kind of input, the nearest to it first."""
    compared = [metric for metric in document["metrics"] if not metric["reads_marks"] and metric["kinds"].get(kind) is not None]
    return sorted(compared, key=lambda metric: -metric["kinds"][kind]["tau"])


def conclusions(document: dict[str, Any]) -> list[str]:
    """Sentences on the worlds, and on each kind of input."""
    sentences = [_of_world(world) for world in document["worlds"]]
    for kind in KINDS:
        if metrics := metrics_without_marks(document, kind):
            sentences += _of_kind(metrics, kind)
    return sentences


def _of_world(world: dict[str, Any]) -> str:
    methods, truth = world["methods"], world["truth"]
    first, control = methods[0], next((place for place, method in enumerate(methods, 1) if method["spec"] == "random"), None)
    random = "" if control is None else f", and a map of random numbers is {_ordinal(control)} of {len(methods)}"
    return (
        f"{world['dataset']} with {world['model']} ({world['inputs']} inputs): by truth {first['title']} is first "
        f"({truth['title']} {first['value']:.2f}){random}."
    )


def _of_kind(metrics: Sequence[dict[str, Any]], kind: str) -> list[str]:
    """Which metrics follow the truth best, which cannot be told from chance, which go against it, and which do both."""
    figures = [metric["kinds"][kind] for metric in metrics]
    worlds = max(figure["worlds"] for figure in figures)
    on = f"On {KINDS[kind]}"
    nearest = [f"{metric['title']} {agreement_in_words(metric['kinds'][kind])}" for metric in metrics[:MOST_NAMED]]
    sentences = [
        f"{on} ({worlds} {'world' if worlds == 1 else 'worlds'}), of {len(metrics)} metrics that are not told the truth, these put methods "
        f"most nearly in its order: {_listed(nearest)}."
    ]
    groups = (
        ("No interval above chance", [m for m in metrics if m["kinds"][kind]["low"] <= 0 <= m["kinds"][kind]["high"]]),
        ("Against the truth", [m for m in metrics if m["kinds"][kind]["high"] < 0]),
        ("With the truth in one world and against it in another", [m for m in metrics if _splits(m)] if worlds > 1 else []),
    )
    for words, of_group in groups:
        if of_group:
            sentences.append(f"{words} on {KINDS[kind]}: {_listed([metric['title'] for metric in of_group])}.")
    return sentences


def _splits(metric: dict[str, Any]) -> bool:
    """Whether its interval is above zero in one world and below it in another."""
    figures = [figure for figure in metric["worlds"].values() if figure is not None]
    return any(figure["low"] > 0 for figure in figures) and any(figure["high"] < 0 for figure in figures)


def _listed(items: Iterable[str]) -> str:
    *before, last = items
    return f"{', '.join(before)} and {last}" if before else last


def _ordinal(number: int) -> str:
    ending = "th" if 10 < number % 100 < 14 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
