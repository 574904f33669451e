"""A run in three sentences, computed from its figures: which methods to trust, which are no better than chance, how sure that is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated

from explainers.json_records import INLINE, Record, describe
from vitrine_server.method_ranking import RankingMetric
from vitrine_server.verdicts import PlacedMethod, Ranking

#: Runs of fewer inputs are trials, which rank no method.
MIN_RANKED_INPUTS = 5
#: The most methods that a sentence names.
MOST_NAMED = 3
#: The most words of a sentence.
MOST_WORDS = 20
_NO_RANKING = "No metric of this run says which map is right, so it ranks no method."


@dataclass(frozen=True)
class RunSummary(Record):
    """The ranking of a run and what it means, in sentences of at most 20 words."""

    ranking: Annotated[Ranking, INLINE]
    sentences: Annotated[list[str], describe("What to trust, what is no better than chance, how sure that is.")]


def summarize(ranking: Ranking) -> RunSummary:
    """Return the ranking of a run with the sentences that sum it up."""
    return RunSummary(ranking, sentences(ranking))


def sentences(ranking: Ranking | None) -> list[str]:
    """Return the sentences that sum up a run: what to trust, what is no better than chance, how sure that is; one sentence for a run that
    ranks no method (None).
    """
    if ranking is None:
        return [_NO_RANKING]
    if not ranking.places:
        return [f"No method of this run has a value by {ranking.metric.title}."]
    return [_what_to_trust(ranking), _what_is_chance(ranking), _how_sure(ranking)]


def _what_to_trust(ranking: Ranking) -> str:
    names, of = [method.method.title for method in ranking.trust], ranking.of
    first = sum(place.group == "first" for place in ranking.places)
    if ranking.cannot_tell is not None:
        return f"Trust no method by this run: {ranking.metric.title} does not tell the best one from random numbers."
    if of == 1:
        return f"Only one method was measured, {ranking.places[0].method.title}, so nothing can be compared."
    if not names:
        return f"Trust no method by this run: none ties for first by {ranking.metric.title} and beats random numbers."
    if first == 1:
        return f"Trust {names[0]}: it alone is first of {of} methods."

    def trust(named: list[str]) -> str:
        if first == len(named):
            return f"Trust {_join(named, 'and')}: they tie for first among {of} methods."
        return f"Trust {_join(named, 'or')}: {first} of {of} methods tie for first."

    return _in_few_words(trust, names)


def _what_is_chance(ranking: Ranking) -> str:
    by_chance, worse = ([place.method.title for place in ranking.places if place.group == group] for group in ("chance", "worse"))
    if ranking.random is None:
        return "No map of random numbers was measured, so it is not known what chance would give."
    if not by_chance and not worse:
        return "Every method beats a map of random numbers." if ranking.of > 1 else "It beats a map of random numbers."
    if len(by_chance) + len(worse) == ranking.of:
        return "No method is better than chance."
    if len(by_chance) + len(worse) <= MOST_NAMED:
        return f"No better than chance: {_join([*by_chance, *worse], 'and')}."
    if not by_chance:
        return f"Worse than chance: {len(worse)} of {ranking.of} methods, among them {_join(worse[:2], 'and')}."
    said = f"No better than chance: {len(by_chance)} of {ranking.of} methods, such as {_join(by_chance[:2], 'and')}"
    return f"{said}; {len(worse)} {'is' if len(worse) == 1 else 'are'} worse." if worse else f"{said}."


def _how_sure(ranking: Ranking) -> str:
    count = int(ranking.inputs.split()[0])
    if count < MIN_RANKED_INPUTS:
        noun = "1 " + ranking.inputs.split()[1].removesuffix("s") if count == 1 else ranking.inputs
        return f"This is a trial: {noun} {'is' if count == 1 else 'are'} too few to rank methods."
    widths = _half_widths(ranking.places)
    if not widths:
        return f"How sure this is cannot be said: the run has no intervals ({ranking.inputs})."
    level = f"{100 * ranking.level:g}\u2009%"
    if intervals := _intervals(ranking):
        by = ranking.metric.title
        said = _in_few_words(lambda named: f"{by} on {ranking.inputs}: {', '.join(named)} ({level} intervals).", intervals)
        if len(said.split()) <= MOST_WORDS:  # else a name is too long for it
            return said
    amount = _amount(widths, ranking.metric)
    return f"Values may be off by {amount} ({ranking.inputs}, {level} intervals)."


def _intervals(ranking: Ranking) -> list[str]:
    """Return the interval of each method to trust, as "LIME 53 to 63 %"; empty unless all have one."""
    factor, unit = (100, "\u2009%") if ranking.metric.unit == "share" else (1, "")
    places = [(trusted.method.title, trusted.place.low, trusted.place.high) for trusted in ranking.trust]
    if ranking.cannot_tell is not None:
        return []
    ends = [(title, low, high) for title, low, high in places if low is not None and high is not None]
    if len(ends) < len(places):
        return []
    return [f"{title} {factor * low:.3g} to {factor * high:.3g}{unit}" for title, low, high in ends]


def _half_widths(places: Iterable[PlacedMethod]) -> list[float]:
    """Return half the lengths of the intervals, shortest first; empty if no method has one."""
    return sorted(
        (place.place.high - place.place.low) / 2 for place in places if place.place.low is not None and place.place.high is not None
    )


def _amount(widths: list[float], metric: RankingMetric) -> str:
    """Return in words how far values may be off: from the least of ``widths`` to the largest, or about as much if they are alike."""
    factor, unit = (100, " points") if metric.unit == "share" else (1, "")
    least, most = (f"{factor * width:.2g}" for width in (widths[0], widths[-1]))
    return f"about {most}{unit}" if least == most else f"{least} to {most}{unit}, by method"


def _in_few_words(sentence: Callable[[list[str]], str], names: list[str]) -> str:
    """Return the ``sentence`` about the first of ``names``: as many as leave it at most :data:`MOST_WORDS`, at least one."""
    said = (sentence(names[:count]) for count in range(len(names), 0, -1))
    return next((words for words in said if len(words.split()) <= MOST_WORDS), sentence(names[:1]))


def _join(names: list[str], last: str) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {last} {names[-1]}"
