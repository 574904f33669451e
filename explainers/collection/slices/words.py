"""A slice in words: what it says, what it leaves open, what to do next, and the figures of its tests."""

from __future__ import annotations

from dataclasses import dataclass

from explainers.collection.intervals import Mean, Share
from explainers.collection.report_parts import with_interval
from explainers.collection.slices.records import CopyTest, HidingTest, Slice, Slices
from explainers.collection.slices.search import LEAST_ROWS
from explainers.evaluation.statistics import ALPHA

MIN_NEEDED_SHARE = 0.5  # of the answers that change without what a slice names, from which most count as needing it


@dataclass(frozen=True)
class Finding:
    """What a slice says, what it leaves open and what to do next, each as sentences for people."""

    says: str
    leaves_open: str
    next_step: str


def in_words(result: Slices) -> list[str]:
    """Return sentences on the search: how many slices there are, of how many that were tried; where none could be tried, what it needs."""
    if not result.tried:
        return [_nothing_tried(result)]
    count = len(result.slices)
    sentences = [
        f"{'No slice' if not count else '1 slice' if count == 1 else f'{count} slices'} in {result.inputs} rows. "
        f"{result.wrong} wrong and {result.doubtful} right rows were searched, and {result.tried} slices tried. "
        f"By chance at most {ALPHA:.0%} of such searches find a slice.".replace("%", " %")
    ]
    if result.without_effect:
        were = "1 more was" if result.without_effect == 1 else f"{result.without_effect} more were"
        sentences.append(f"{were} left out: copied into rows with other answers, what they name does not carry the answer over.")
    return sentences


def _nothing_tried(result: Slices) -> str:
    """Return sentences on a search that had nothing to try: how many rows there are, how many it needs, and what to do."""
    return (
        f"Nothing could be searched in {result.inputs} rows, {result.wrong} of them wrong. "
        f"A search needs about {2 * LEAST_ROWS} rows of a kind, such as wrong ones, with a word or a place in common: {LEAST_ROWS} in the "
        "half that is searched, the others for the test. Make a collection of more inputs with labels, and search again."
    )


def finding_of(each: Slice) -> Finding:
    """Return what a slice says, what it leaves open and what to do next."""
    return Finding(_says(each), _leaves_open(each), _next_step(each))


def figures_in_words(each: Slice) -> list[str]:
    """Return sentences with the figures of a slice: how far chance explains it, and those of its tests."""
    others = "rows with other answers" if each.kind == "right" else _rows_to_compare_with(each)
    sentences = [
        f"In the half of the rows that was not searched, {with_interval(each.share)} of the {each.share.of} rows do so, and "
        f"{with_interval(each.others)} of the {each.others.of} {others}: p = {each.p:.2g}."
    ]
    if each.copy_test is not None:
        sentences += _copy_in_words(each, each.copy_test)
    if each.test is not None:
        sentences += _hiding_in_words(each.test)
    return sentences


def _says(each: Slice) -> str:
    rule = "have as much of their evidence there" if each.word is None else "stand on it"
    others = "right rows" if each.answer is None else "rows with other answers"
    sentences = [f"Of the {others} that it was compared with, {each.others.count} of {each.others.of} {rule}."]
    copied = each.copy_test
    if copied is not None and copied.copied.value is not None and copied.elsewhere.value is not None:
        answer = "their answer" if each.answer is None else f"“{each.answer}”"
        what = "What these pictures show there" if each.word is None else f"The word “{each.word}”"
        into, other = ("pictures", "as much from elsewhere in them") if each.word is None else ("texts", "another word in its place")
        sentences.append(
            f"{what} pushes the model to {answer}. Put into {into} with other answers, it makes this answer "
            f"{_hundredfold(copied.copied.value)} % probable, against {_hundredfold(copied.elsewhere.value)} % by {other}."
        )
    if each.test is not None and not _most_keep(each.test):
        sentences.append(f"Most of the answers need it: without it, {each.test.changed.count} of {each.test.changed.of} become another.")
    return " ".join(sentences)


def _leaves_open(each: Slice) -> str:
    may_be_right = (
        "Whether that is a mistake: what is to be recognised may itself lie there."
        if each.word is None
        else "Whether that is a mistake: the word may be a good reason."
    )
    sentences = [may_be_right]
    if each.test is None:
        sentences.append("Whether the model answers by it: it was not asked.")
    elif not each.test.changed.of:
        sentences.append("Whether the answer needs it: without it, too little is left of these inputs to ask the model.")
    elif _most_keep(each.test):
        rest = "the rest of the picture" if each.word is None else "the rest of the text"
        box = " The place may also be larger than was found." if each.word is None else ""
        sentences.append(
            f"Whether the answer needs it: without it, {_kept(each.test.changed)} of {each.test.changed.of} answers stay. "
            f"That does not clear it, for {rest} can be enough as well.{box}"
        )
    elif each.copy_test is None:
        sentences.append("Whether it would bring the answer about elsewhere: that was not tested.")
    return " ".join(sentences)


def _next_step(each: Slice) -> str:
    named = "the class" if each.answer is None else f"“{each.answer}”"
    if each.word is None:
        look = f"Look at this place in the examples. Do most show the same thing, and is it no part of {named}?"
        mend = "Then train without it, painted over or cropped away, and compare both models (vitrine diff)."
    else:
        look = f"Read the examples. Is the word “{each.word}” no reason for {named}?"
        mend = "Then train without the word, or with it in texts of all classes, and compare both models (vitrine diff)."
    return f"{look} {mend} If not, put this slice aside."


def _most_keep(test: HidingTest) -> bool:
    """Return whether most answers stay without what a slice names, or none could be asked."""
    return test.changed.value is None or test.changed.value < MIN_NEEDED_SHARE


def _kept(changed: Share) -> int:
    return changed.of - changed.count


def _rows_to_compare_with(each: Slice) -> str:
    return "right rows" if each.answer is None else "rows with other answers that were chosen in the same way"


def _copy_in_words(each: Slice, test: CopyTest) -> list[str]:
    if test.copied.value is None or test.elsewhere.value is None:
        return []
    copied, others, elsewhere = (
        ("Copied into pictures with other answers, the place", "what lies elsewhere", "what lies elsewhere")
        if each.word is None
        else (f"Put into texts with other answers, the word {each.word!r}", "another word of its text", "another word")
    )
    return [
        f"{copied} makes the answer {_hundredfold(test.copied.value)} % probable, {others} {_hundredfold(test.elsewhere.value)} %: "
        f"{_points(test.difference)} more.",
        f"They get this answer: {_count(test.changed)}; by {elsewhere}: {_count(test.changed_elsewhere)}.",
    ]


def _hiding_in_words(test: HidingTest) -> list[str]:
    if test.fall.value is None or test.elsewhere.value is None:
        return []
    return [
        f"Without it the probability of the answer falls by {_hundredfold(test.fall.value)} points, with as much hidden elsewhere by "
        f"{_hundredfold(test.elsewhere.value)}: {_points(test.difference)} more.",
        f"Another answer without it: {_count(test.changed)}; with as much hidden elsewhere: {_count(test.changed_elsewhere)}.",
    ]


def _hundredfold(value: float) -> str:
    """Format 100 times a value with one digit, without the sign of a rounded zero."""
    return f"{round(100 * value, 1) + 0.0:.1f}"


def _points(mean: Mean) -> str:
    """Format a difference of probabilities in points, with its interval."""
    if mean.value is None:
        return "–"
    ends = "" if mean.low is None or mean.high is None else f" ({_hundredfold(mean.low)} to {_hundredfold(mean.high)})"
    return f"{_hundredfold(mean.value)} points{ends}"


def _count(each: Share) -> str:
    return "–" if each.value is None else f"{each.count} of {each.of}, {with_interval(each)}"
