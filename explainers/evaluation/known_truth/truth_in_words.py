"""What worlds of known truth say of metrics, in sentences made of the figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

KINDS = {"image": "pictures", "text": "sentences"}
#: For each kind of input the control that knows the input and not the model, and its name in a sentence.
INPUT_CONTROLS = {"image": ("edges", "edges of the picture"), "text": ("word_length", "the length of words")}
MAX_NAMED_METRICS = 5  # most metrics named in a sentence


def agreement_in_words(figure: dict[str, Any]) -> str:
    """Format the agreement ``figure`` (JSON of a truth comparison) with its interval, ``0.81 (0.74 to 0.86)``, and with the number of
    methods that it compares, if some have no value.
    """
    of = "" if figure["methods"] == figure["of"] else f"; {figure['methods']} of {figure['of']} methods"
    return f"{figure['tau']:.2f} ({figure['low']:.2f} to {figure['high']:.2f}{of})"


def metrics_without_marks(document: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    """Return the metrics in ``document`` (JSON of a truth comparison) that do not read the truth and have an agreement with it on this
    ``kind`` of input, the closest first.
    """
    compared = [metric for metric in document["metrics"] if not metric["reads_marks"] and metric["kinds"].get(kind) is not None]
    return sorted(compared, key=lambda metric: -metric["kinds"][kind]["tau"])


def conclusions(document: dict[str, Any]) -> list[str]:
    """Return sentences on the comparison of metrics with the truth, from its JSON ``document``: on its worlds, and on
    each kind of input.
    """
    sentences = [_of_world(world) for world in document["worlds"]]
    for kind in KINDS:
        if metrics := metrics_without_marks(document, kind):
            worlds = [world["name"] for world in document["worlds"] if world["kind"] == kind]
            sentences += [*_of_kind(metrics, kind, worlds), *_of_controls(document, metrics, kind)]
    return [*sentences, *_in_all_worlds(document)]


def place_in_words(about: dict[str, Any] | None, control: str) -> str:
    """Return the rank that a metric gives the control called ``control`` in a world (``about``, JSON) among the methods that are measurably
    truer or less true, ``1 of 21``; a dash without one.
    """
    place = None if about is None else about["places"].get(control)
    return "–" if place is None else f"{place['place']} of {place['of'] + 1}"


#: The possible doubts about a metric, each as a predicate and the key of the worlds in which it applies.
_DOUBTS = (
    ("puts the truth below random numbers", "below_random"),
    ("cannot tell the truth from random numbers", "like_random"),
    ("puts the truth below its inverse", "below_inverted"),
    ("cannot tell the truth from its inverse", "like_inverted"),
)


def doubts(document: dict[str, Any], metric: dict[str, Any], kind: str) -> list[str]:
    """Return the reasons, from the comparison in ``document``, not to trust a metric on a kind of input. Each is a predicate followed by
    the data sets for which it holds; empty if there is none.
    """
    about = metric["controls"]["kinds"].get(kind)
    if about is None:
        return []
    titles = {world["name"]: world["dataset"] for world in document["worlds"]}
    return [f"{words} ({join([titles[name] for name in about[key]])})" for words, key in _DOUBTS if about[key]]


def usable_metrics(document: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    """Return the faithfulness metrics in ``document`` (JSON of a truth comparison) by which methods can be chosen on this ``kind`` of
    input, the best agreement with the truth first.

    They are not told the truth, agree with it above chance in every world of the kind for half of the methods or more, and are not in
    doubt.
    """
    worlds = [world["name"] for world in document["worlds"] if world["kind"] == kind]
    return [
        metric
        for metric in metrics_without_marks(document, kind)
        if metric["family"] == "faithfulness"
        and all(_is_above_chance(metric["worlds"][name]) for name in worlds)
        and not doubts(document, metric, kind)
    ]


def advice(document: dict[str, Any]) -> list[str]:
    """Return sentences on which metric to use on each kind of input, from the JSON ``document`` of a comparison with the truth: the one
    that agrees best, the next ones, and those to be left alone.
    """
    sentences = []
    for kind, words in KINDS.items():
        if usable := usable_metrics(document, kind):
            best, *others = (f"{metric['title']} ({metric['kinds'][kind]['tau']:.2f})" for metric in usable)
            following = f" Next come {join(others[:MAX_NAMED_METRICS])}." if len(others) > 1 else ""
            sentences.append(f"To choose a method on {words} by one metric, measure {best}: it agrees best with the truth.{following}")
    metrics = [metric for metric in document["metrics"] if not metric["reads_marks"]]
    for kind, words in KINDS.items():
        of_kind = [(metric, about) for metric in metrics if (about := metric["controls"]["kinds"].get(kind)) is not None]
        below = [metric["title"] for metric, about in of_kind if about["below_random"] or about["below_inverted"]]
        alike = [metric["title"] for metric, about in of_kind if about["like_random"] or about["like_inverted"]]
        alike = [title for title in alike if title not in below]
        if below:
            sentences.append(
                f"Do not choose a method on {words} by {join(below)}: in some world the truth itself comes out measurably below random "
                "numbers, or below its own inverse."
            )
        if alike:
            sentences.append(
                f"Do not rely on {join(alike)} alone on {words}: in some world the truth cannot be told from random numbers or from its "
                "inverse at so many inputs."
            )
    return sentences


def _of_world(world: dict[str, Any]) -> str:
    methods, truth = world["methods"], world["truth"]
    best = [method["title"] for method in methods if method["value"] == methods[0]["value"]]
    control = next((place for place, method in enumerate(methods, 1) if method["spec"] == "random"), None)
    random = "" if control is None else f", and a map of random numbers is {_ordinal(control)} of {len(methods)}"
    first = f"{join(best)} {'is' if len(best) == 1 else 'are'} first ({truth['title']} {methods[0]['value']:.2f})"
    return f"{world['dataset']} with {world['model']} ({world['inputs']} inputs): by truth {first}{random}."


def _of_kind(metrics: Sequence[dict[str, Any]], kind: str, worlds: Sequence[str]) -> list[str]:
    """Return sentences on ``metrics`` for one ``kind`` of input, over all of ``worlds``: which follow the truth best, which are not above
    chance, which go against the truth, and which do both.
    """
    of_most = [metric for metric in metrics if _is_of_most(metric["kinds"][kind])]
    nearest = [f"{metric['title']} {agreement_in_words(metric['kinds'][kind])}" for metric in of_most[:MAX_NAMED_METRICS]]
    on = f"On {KINDS[kind]} ({len(worlds)} {'world' if len(worlds) == 1 else 'worlds'})"
    sentences = [
        f"{on}, of {len(of_most)} metrics that are not told the truth and have a value for half of the methods or more, these put methods "
        f"most nearly in its order: {join(nearest)}."
    ]
    groups = (
        ("Cannot be told from chance", [m for m in metrics if m["kinds"][kind]["low"] <= 0 <= m["kinds"][kind]["high"]]),
        ("Against the truth", [m for m in metrics if m["kinds"][kind]["high"] < 0]),
        ("With the truth in one world and against it in another", [m for m in metrics if _disagrees_between_worlds(m, worlds)]),
    )
    for words, of_group in groups:
        if of_group:
            sentences.append(f"{words} on {KINDS[kind]}: {join([metric['title'] for metric in of_group])}.")
    return sentences


def _of_controls(document: dict[str, Any], metrics: Sequence[dict[str, Any]], kind: str) -> list[str]:
    """Return sentences on where the ``metrics`` of a comparison (``document``) rank the controls in worlds of this ``kind`` of input, and
    on which metrics are in doubt; an empty list if no world has controls.
    """
    compared = [metric for metric in metrics if metric["controls"]["kinds"].get(kind) is not None]
    alone = sum(world["kind"] == kind and world["marks_alone"] and bool(world["controls"]) for world in document["worlds"])
    sentences = []
    if compared and alone:
        first = [metric["title"] for metric in compared if metric["controls"]["kinds"][kind]["first"]]
        where = "the world" if alone == 1 else f"the {alone} worlds"
        sentences.append(
            f"The truth itself on {KINDS[kind]}, given to the metrics like a method in {where} where answers come from "
            f"what is marked alone: {len(first)} of {len(compared)} metrics put it above every method that is measurably less true, and "
            f"its inverse below every method{f': {join(first)}' if first else ''}."
        )
    titles = {world["name"]: world["dataset"] for world in document["worlds"]}
    for predicate, key in _DOUBTS:
        doubtful = [
            f"{metric['title']} ({join([titles[name] for name in names])})"
            for metric in compared
            if (names := metric["controls"]["kinds"][kind][key])
        ]
        if doubtful:
            sentences.append(f"What {predicate} on {KINDS[kind]}: {join(doubtful)}.")
    control, words = INPUT_CONTROLS[kind]
    misled = [
        f"{metric['title']} ({figure['right']} of {figure['of']} right)"
        for metric in compared
        if (figure := metric["controls"]["kinds"][kind]["controls"].get(control)) is not None and 2 * figure["right"] < figure["of"]
    ]
    if misled:
        sentences.append(f"A map of {words} knows no model, and these metrics still rank it wrongly against most methods: {join(misled)}.")
    return sentences


def _in_all_worlds(document: dict[str, Any]) -> list[str]:
    """Return a list with one sentence on the metrics that are above chance in every world of the comparison ``document``; an empty list if
    there is only one world, or no such metric.
    """
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
    return [f"Above chance in each of the {len(worlds)} worlds, with the least agreement in any of them: {join(named)}."]


def _is_of_most(figure: dict[str, Any]) -> bool:
    """Return whether ``figure``, an agreement of a metric with the truth, compares at least half of the methods; one over fewer methods
    says little.
    """
    return bool(2 * figure["methods"] >= figure["of"])


def _is_above_chance(figure: dict[str, Any] | None) -> bool:
    """Return whether ``figure``, an agreement of a metric with the truth in one world, compares at least half of the methods and has an
    interval above zero.
    """
    return figure is not None and _is_of_most(figure) and figure["low"] > 0


def _disagrees_between_worlds(metric: dict[str, Any], worlds: Sequence[str]) -> bool:
    """Return whether a metric's interval is above zero in one of these worlds and below it in another."""
    figures = [figure for name in worlds if (figure := metric["worlds"][name]) is not None]
    return any(figure["low"] > 0 for figure in figures) and any(figure["high"] < 0 for figure in figures)


def join(items: Iterable[str]) -> str:
    """Join ``items`` to a list in words, ``a; b and c``, and return it."""
    *before, last = items
    return f"{'; '.join(before)} and {last}" if before else last


def _ordinal(number: int) -> str:
    ending = "th" if 10 < number % 100 < 14 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
