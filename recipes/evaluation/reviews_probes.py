"""``reviews-bert`` on short sentences that say exactly one thing: negations, sentences without an opinion, names and identities swapped,
disturbed texts, other languages. The sentences are in ``recipes/reviews/questions.toml``; none is trained on.
"""

from __future__ import annotations

import explainers  # before transformers

# isort: split
from collections.abc import Callable, Sequence
from itertools import combinations, product
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import AutoTokenizer

from explainers.models.companion_files.calibration import CALIBRATION_FILE, read_calibration
from explainers.models.feature_scores import FEATURE_SCORES_FILE as DIRECTIONS
from explainers.models.feature_scores import read_directions
from explainers.models.inputs.texts import TextReader
from recipes.evaluation import Figure, Report, Setting, Table
from recipes.reviews.calibration import neutral_facts
from recipes.reviews.contrast import misspell
from recipes.reviews.data import Review, read, rows
from recipes.reviews.questions import read_questions, strangeness
from recipes.reviews.text_predictions import MAX_REVIEWS, accuracy, answers, sample, token_means

ASIDE = "What a great day."
REVIEWS_WITH_BREAKS = 60  # reviews with HTML line breaks
UNDECIDED_RANGE = (0.25, 0.75)  # a probability between these is "near one half"
# The keys in the questions of templates and of words in which people are swapped, by their description in the figures.
TEMPLATES = {"": "templates", " in later templates": "later_templates", " in the latest templates": "latest_templates"}
WORDS_SWAPPED = {"words of the training": "trained", "words held back": "held_back"}
Read = Callable[[Sequence[str]], Tensor]  # texts -> logits (N, 2)
WithoutOpinion = Callable[[Sequence[str], Tensor], Tensor]  # texts, their logits (N, 2) -> bool (N,)


def thresholds_of(folder: Path) -> dict[str, float]:
    """Return the abstention thresholds of a model folder by kind; empty if it has no calibration."""
    path = folder / CALIBRATION_FILE
    return {threshold.kind: threshold.value for threshold in read_calibration(path).thresholds} if path.is_file() else {}


def opinion_test(folder: Path, model: Any, tokenizer: Any) -> WithoutOpinion | None:
    """Return, for ``model`` and its ``tokenizer``, a function from N texts and their logits to bool (N,): which of them hold no opinion by
    the abstention threshold in ``folder``. None if that has no such threshold.
    """
    path = folder / CALIBRATION_FILE
    thresholds = read_calibration(path).thresholds if path.is_file() else ()
    threshold = next((threshold for threshold in thresholds if threshold.kind == "no_opinion"), None)
    if threshold is None:
        return None
    if threshold.score != "opinion_evidence":
        return lambda texts, logits: logits.softmax(1).amax(1) < threshold.value
    direction = read_directions(folder / DIRECTIONS)["opinion_evidence"]
    return lambda texts, logits: token_means(model, tokenizer, texts) @ direction[:-1] + direction[-1] < threshold.value


def measure(name: str, setting: Setting) -> Report:
    """Run all probes of the review classifier ``name`` in ``setting.folder`` and return a :class:`Report`: first the probes that need no
    data, then those on the reviews in ``setting.data``.
    """
    model = explainers.load(setting.folder).module
    tokenizer = AutoTokenizer.from_pretrained(setting.folder, local_files_only=True)

    def ask(texts: Sequence[str]) -> Tensor:
        return answers(model, tokenizer, texts)

    probes, thresholds = read_questions(), thresholds_of(setting.folder)
    empty = opinion_test(setting.folder, model, tokenizer)
    fair, by_template = fairness(name, ask, probes["fairness"])
    figures = [*negation(name, ask, probes["negation"]), *neutral(name, ask, probes["neutral"]["sentences"], empty), *fair]
    if empty is not None:
        facts = neutral_facts(held_back=True)
        note = f"{len(facts)} sentences that drew no line"
        figures.append(Figure(name, 'facts held back said to hold "no opinion"', float(empty(facts, ask(facts)).float().mean()), note=note))
    reader = TextReader(tokenizer, tokenizer.model_max_length)
    figures += languages(name, reader, probes["languages"], thresholds)
    if setting.data is not None:
        figures += disturbances(name, ask, setting.data, setting)
        figures += abstentions(name, ask, reader, setting.data, setting, thresholds, empty)
    return Report(figures, {f"Logit of positive, largest less smallest, {name}": by_template})


def negation(name: str, ask: Read, sides: dict[str, Any]) -> list[Figure]:
    """Return figures on the share of sentences with a negation for which the model names the right side, positive or negative; ``ask``
    returns its logits for texts.
    """
    figures = []
    rounds = (
        ("", sides, 0.9),
        (", an earlier list", sides["earlier"], None),
        (", a later list", sides["later"], None),
        (", known failures of the second edition", sides["known"], None),
    )
    for about, sentences, bar in rounds:
        texts = [(text, label) for label, side in enumerate(("negative", "positive")) for text in sentences[side]]
        right = [answer == label for answer, (_, label) in zip(ask([text for text, _ in texts]).argmax(1).tolist(), texts, strict=True)]
        wrong = [text for ok, (text, _) in zip(right, texts, strict=True) if not ok]
        note = f"{len(texts)} sentences" + (f"; wrong: {' / '.join(wrong)}" if wrong else "")
        figures.append(Figure(name, f"negation probes{about}", fmean(right), bar, note=note))
    return figures


def neutral(name: str, ask: Read, sentences: Sequence[str], empty: WithoutOpinion | None) -> list[Figure]:
    """Return figures on how many ``sentences`` without an opinion get an undecided probability from the model ``name`` (``ask``), and on
    how many of them the model says that they hold no opinion (by ``empty``).
    """
    logits = ask(sentences)
    positive = logits.softmax(1)[:, 1]
    low, high = UNDECIDED_RANGE
    near = ((positive > low) & (positive < high)).float().mean()
    note = f"{len(sentences)} sentences, P(positive) from {float(positive.min()):.2f} to {float(positive.max()):.2f}"
    figures = [Figure(name, f"neutral sentences between {low:.0%} and {high:.0%} positive", float(near), None, note=note)]
    if empty is not None:
        said = float(empty(sentences, logits).float().mean())
        figures.append(Figure(name, 'neutral sentences said to hold "no opinion"', said, None, note=note))
    return figures


def fairness(name: str, ask: Read, kinds: dict[str, Any]) -> tuple[list[Figure], Table]:
    """Return figures on how much the logit of "positive" differs between two words for people in the same template, and a table of it by
    template. ``ask`` returns the logits of texts for the model ``name``, ``kinds`` the templates and words by kind.
    """
    figures: list[Figure] = []
    table: Table = {}
    for (kind, probe), (of, templates), (about, words) in product(kinds.items(), TEMPLATES.items(), WORDS_SWAPPED.items()):
        gaps: list[float] = []
        for template in probe[templates]:
            logits = ask([template.replace("{}", word) for word in probe[words]])[:, 1].tolist()
            gaps += [abs(a - b) for a, b in combinations(logits, 2)]
            table.setdefault(template, {})[about] = max(logits) - min(logits)
        note = f"{len(probe[templates])} templates held back, {len(probe[words])} {about}, every pair"
        what = f"{kind} swapped{of}, {about}: change of the logit"
        figures.append(Figure(name, f"{what}, mean", fmean(gaps), 0.5, "score", True, note))
        figures.append(Figure(name, f"{what}, worst", max(gaps), 1.5, "score", True, note))
    return figures, table


def languages(name: str, reader: TextReader, sentences_of: dict[str, list[str]], thresholds: dict[str, float]) -> list[Figure]:
    """Return figures on how many sentences of other languages (``sentences_of``, by language) the model ``name`` recognises, by ``reader``
    and the line in ``thresholds``, as not English, among those to which the threshold was not fitted.
    """
    what = "sentences of other languages said to be unreadable"
    if "unreadable_language" not in thresholds:
        return [Figure(name, what, None, note="the model has no calibrated line")]
    detected = {
        language: fmean(score > thresholds["unreadable_language"] for score in strangeness(reader, sentences[1::2]))
        for language, sentences in sentences_of.items()
    }
    count = sum(len(sentences[1::2]) for sentences in sentences_of.values())
    least = min(detected, key=detected.__getitem__)
    note = f"{count} sentences of {len(detected)} languages; least of {least}: {detected[least]:.0%}"
    return [Figure(name, what, fmean(detected.values()), None, note=note)]


def disturbances(name: str, ask: Read, data: Path, setting: Setting) -> list[Figure]:
    """Return figures on how often the answer of the model ``name`` (``ask``) to a review in ``data`` changes under disturbances that should
    not matter: line breaks, capitals, an aside, typing mistakes. ``setting`` limits the number of texts.
    """
    rng = np.random.default_rng(0)
    raw = [row["text"] for row in rows(data, "imdb") if row["split"] == "test" and "<br />" in row["text"]]
    broken = [raw[row] for row in rng.choice(len(raw), min(len(raw), setting.limit_to(REVIEWS_WITH_BREAKS)), replace=False)]
    sentences = read(data, "sst2", ["test"])[: setting.limit_to(MAX_REVIEWS)]
    plain = [review.text for review in sentences]
    before = ask(plain).argmax(1)
    typed = [misspell(text, rng) for text in plain]
    note = f"{len(plain)} sentences of SST-2"

    def turned(texts: Sequence[str]) -> float:
        return float((ask(texts).argmax(1) != before).float().mean())

    without = ask([text.replace("<br />", " ") for text in broken]).argmax(1)
    figures = [
        Figure(name, "reviews that <br /> turns round", float((ask(broken).argmax(1) != without).float().mean()), 0.0, "share", True,
               f"{len(broken)} reviews of IMDB"),
        Figure(name, "sentences that capitals turn round", turned([text.upper() for text in plain]), 0.0, "share", True, note),
        Figure(name, f'sentences that "{ASIDE}" after them turns round', turned([f"{text} {ASIDE}" for text in plain]), None, note=note),
        Figure(name, "sentences that typing mistakes turn round", turned(typed), None, note=f"{note}, one word in six mistyped"),
    ]  # fmt: skip
    right = accuracy([Review(text, r.label) for text, r in zip(typed, sentences, strict=True)], ask(typed).argmax(1).tolist())
    return [*figures, Figure(name, "accuracy on SST-2, validation (GLUE), with typing mistakes", right, None, note=note)]


def abstentions(
    name: str, ask: Read, reader: TextReader, data: Path, setting: Setting, thresholds: dict[str, float], empty: WithoutOpinion | None
) -> list[Figure]:
    """Return figures on the English reviews with an opinion in ``data``: how many the model ``name`` (``ask``) wrongly says to hold none or
    to be in another language, and the calibration error. ``empty`` judges whether a text holds an opinion, ``reader`` and ``thresholds``
    its language.
    """
    figures = []
    for about, source in (("SST-2, validation (GLUE)", "sst2"), ("IMDB, test", "imdb")):
        reviews = sample(read(data, source, ["test"]), setting.limit_to(MAX_REVIEWS))
        texts = [review.text for review in reviews]
        logits = ask(texts)
        likelier, answer = logits.softmax(1).max(1)
        right = torch.tensor([review.label for review in reviews]) == answer
        note = f"{len(reviews):,} reviews"
        figures.append(
            Figure(name, f"expected calibration error on {about}", calibration_error(likelier, right), 0.05, at_most=True, note=note)
        )
        if empty is not None:
            abstains = empty(texts, logits)
            decided = f"{note}; right of the others: {float(right[~abstains].float().mean()):.1%}"
            figures.append(Figure(name, f'"no opinion" on {about}', float(abstains.float().mean()), None, note=decided))
        if "unreadable_language" in thresholds:
            strange = fmean(score > thresholds["unreadable_language"] for score in strangeness(reader, texts))
            figures.append(Figure(name, f"taken for another language, {about}", strange, None, note=note))
    return figures


def calibration_error(probability: Tensor, right: Tensor, bins: int = 10) -> float:
    """Return the mean distance of the probability of the answer from the share of right answers, over ``bins`` equal bins of [0.5, 1]."""
    place = ((probability - 0.5) * 2 * bins).long().clamp(0, bins - 1)
    in_bin = [(place == index) for index in range(bins)]
    return sum(float((probability[i].mean() - right[i].float().mean()).abs() * i.float().mean()) for i in in_bin if i.any())
