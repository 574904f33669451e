"""What ``calibration.json`` says of ``reviews-bert``: where a text holds no opinion, and above which score it is not English.

Whether a text holds an opinion is told by a direction in the space of its mean token: two classes give the logits no way to say so.

The temperature is divided out of the classifier's weights, so that the logits are calibrated wherever the model is loaded.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor
from torch.nn import functional

from explainers.models.inputs.texts import TextReader
from recipes.reviews.data import Review, read
from recipes.reviews.mined_sentences import definitions
from recipes.reviews.questions import read_questions, strangeness
from recipes.reviews.text_predictions import MAX_REVIEWS, answers, sample, token_means

REVIEWS, NEUTRAL = 400, 400  # how many reviews and definitions
OPINION_SHARE = 0.985  # the share of reviews, and of held-out phrases, that must not be answered "no opinion"
PHRASES, HELD_OUT = 1500, 500  # number of SST-2's training phrases that the direction is fitted to, and that the threshold is fitted to
MIN_WORDS = 4  # words of such a phrase
SHRINKAGE = 0.01  # C of the logistic regression
TEMPERATURES = np.linspace(0.5, 4.0, 141)
ROUNDING_STEP = 0.05  # the threshold for other languages is rounded down to a multiple of this


def texts(data: Path, wordnet: Path) -> tuple[list[Review], list[str]]:
    """Return reviews from the folder ``data``, and definitions from the folder ``wordnet``, that neither training nor the figures use.

    Reviews are ERASER's validation set and test reviews of IMDB outside the measured sample; definitions are the held-out ones.
    """
    every = read(data, "imdb", ["test"])
    measured = set(sample(every, MAX_REVIEWS))
    rest = [review for review in every if review not in measured]
    chosen = np.random.default_rng(1).choice(len(rest), min(REVIEWS, len(rest)), replace=False)
    facts = definitions(wordnet, held_out=True)
    apart = max(1, len(facts) // NEUTRAL)
    return [*read(data, "eraser", ["val"]), *(rest[row] for row in chosen)], facts[::apart][:NEUTRAL]


def temperature(logits: Tensor, labels: Tensor) -> float:
    """Return the number that ``logits`` (N, C) must be divided by so that the ``labels`` (N,) are likeliest. Guo et al., ICML 2017, arXiv
    1706.04599.
    """
    return float(min(TEMPERATURES, key=lambda value: float(functional.cross_entropy(logits / value, labels))))


def cool_(model: Any, by: float) -> None:
    """Divide the logits of ``model``, a classifier, by ``by``, in place, through the weights of its last layer."""
    with torch.no_grad():
        model.classifier.weight /= by
        model.classifier.bias /= by


def neutral_facts(held_back: bool) -> list[str]:
    """Return sentences without an opinion, of many kinds: the half that the threshold is fitted to, or, if ``held_back``, the half that is
    only measured.
    """
    kinds = tomllib.loads(Path(__file__).with_name("neutral_facts.toml").read_text("utf-8"))["sentences"]
    return [text for texts in kinds.values() for text in (texts[len(texts) // 2 :] if held_back else texts[: len(texts) // 2])]


def phrases(data: Path) -> tuple[list[str], list[str]]:
    """Return `PHRASES` phrases with an opinion and `HELD_OUT` others, drawn at random from SST-2's training set in the folder ``data``."""
    every = [review.text for review in read(data, "sst2", ["train"]) if len(review.text.split()) >= MIN_WORDS]
    chosen = [every[row] for row in np.random.default_rng(0).permutation(len(every))[: PHRASES + HELD_OUT]]
    cut = len(chosen) * PHRASES // (PHRASES + HELD_OUT)
    return chosen[:cut], chosen[cut:]


def opinion_direction(opinions: Tensor, *neutral: Tensor) -> Tensor:
    """Fit a logistic regression that separates ``opinions`` (N, D) from texts that are ``neutral``; return its weights and constant, (D +
    1,).

    Each kind of neutral texts, (M, D), counts half as much as the opinions do.
    """
    mean, spread = opinions.mean(0), opinions.std(0, correction=0) + 1e-6
    features = torch.cat([opinions, *neutral])
    labels = np.repeat([1, 0], [len(opinions), len(features) - len(opinions)])
    weights = np.concatenate([np.ones(len(opinions)), *(np.full(len(part), len(opinions) / 2 / len(part)) for part in neutral)])
    fitted = LogisticRegression(C=SHRINKAGE, max_iter=1000).fit(((features - mean) / spread).numpy(), labels, sample_weight=weights)
    slopes = torch.from_numpy(fitted.coef_[0]).float() / spread
    return torch.cat([slopes, torch.from_numpy(fitted.intercept_).float() - slopes @ mean])


def opinion_threshold(scores: Mapping[str, Tensor], facts: Tensor) -> dict[str, Any]:
    """Return, as an entry of ``calibration.json``, the threshold below which a text holds no opinion: the share `OPINION_SHARE` of each set
    of texts with an opinion, whose scores are in ``scores``, lies above it.

    facts   scores of neutral sentences
    """
    line = round(min(float(values.quantile(1 - OPINION_SHARE)) for values in scores.values()), 3)
    lost = ", ".join(f"{float((values < line).float().mean()):.1%} of {len(values)} {what}" for what, values in scores.items())
    below = float((facts < line).float().mean())
    measured = f"Below it are {below:.0%} of {len(facts)} neutral sentences that it was fitted with, and {lost}."
    return {"score": "opinion_evidence", "line": line, "below": True, "measured": measured}


def fit_opinions(
    model: Any, tokenizer: Any, data: Path, reviews: Sequence[Review], definitions: Sequence[str]
) -> tuple[Tensor, dict[str, Any]]:
    """Fit the direction (D + 1,) that separates texts with an opinion from neutral ones, and the threshold on it; return both. ``reviews``
    and ``definitions`` are texts that ``model`` was not trained on; phrases are read from ``data``. ``tokenizer`` is the model's.
    """
    fitted, held_out = phrases(data)
    facts = token_means(model, tokenizer, neutral_facts(held_back=False))
    direction = opinion_direction(token_means(model, tokenizer, fitted), token_means(model, tokenizer, definitions), facts)

    def score(features: Tensor) -> Tensor:
        return features @ direction[:-1] + direction[-1]

    texts = {"reviews": [review.text for review in reviews], "phrases of SST-2's training set held out": held_out}
    scores = {what: score(token_means(model, tokenizer, part)) for what, part in texts.items()}
    return direction, opinion_threshold(scores, score(facts))


def calibrate_(
    model: Any, tokenizer: Any, data: Path, reviews: Sequence[Review], neutral: Sequence[str]
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Divide the temperature out of ``model``, a review classifier with its ``tokenizer``, in place, and fit the thresholds of its
    abstentions, on ``reviews`` with an opinion, phrases in the folder ``data``, and ``neutral`` texts without one.

    Returns the contents of ``calibration.json`` and of ``calibration.safetensors``.
    """
    logits = answers(model, tokenizer, [review.text for review in reviews])
    cool_(model, temperature(logits, torch.tensor([int(review.label) for review in reviews])))
    reader = TextReader(tokenizer, tokenizer.model_max_length)
    languages = read_questions()["languages"]
    foreign = [score for sentences in languages.values() for score in strangeness(reader, sentences[::2])]
    edge = round(math.floor(min(foreign) / ROUNDING_STEP) * ROUNDING_STEP, 2)
    english = fmean(score > edge for score in strangeness(reader, [review.text for review in reviews]))
    direction, no_opinion = fit_opinions(model, tokenizer, data, reviews, neutral)
    unreadable = {
        "score": "strange_words",
        "line": edge,
        "below": False,
        "measured": f"Above it are all of {len(foreign)} sentences in {len(languages)} languages and {english:.1%} of "
        f"{len(reviews)} English reviews.",
    }
    lines = {"unreadable_language": unreadable, "no_opinion": no_opinion}
    return {"temperature": 1.0, "lines": lines}, {"opinion_evidence": direction}
