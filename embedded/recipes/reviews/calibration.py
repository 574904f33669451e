"""What ``calibration.json`` says of ``reviews-bert``: below which probability it has no opinion, above which score a text is not English.

The temperature is divided out of the classifier's weights, so that the logits are calibrated wherever the model is loaded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from embedded.recipes.reviews.data import Review, read
from embedded.recipes.reviews.mined_sentences import definitions
from embedded.recipes.reviews.questions import questions, strangeness
from embedded.recipes.reviews.text_predictions import MOST, answers, sample
from explainers.models.inputs.texts import TextReader

REVIEWS, NEUTRAL = 400, 400  # how many reviews and definitions
ANSWERED = 0.98  # the share of reviews of which "no opinion" must not be said; nearly all definitions lie below that line too
TEMPERATURES = np.linspace(0.5, 4.0, 141)
STEP = 0.05  # what the line for other languages is rounded down to


def texts(data: Path, wordnet: Path) -> tuple[list[Review], list[str]]:
    """Reviews and definitions that neither training nor the figures use: ERASER's validation set, test reviews of IMDB outside the sample
    that is measured, definitions held out."""
    every = read(data, "imdb", ["test"])
    measured = set(sample(every, MOST))
    rest = [review for review in every if review not in measured]
    chosen = np.random.default_rng(1).choice(len(rest), min(REVIEWS, len(rest)), replace=False)
    facts = definitions(wordnet, held_out=True)
    apart = max(1, len(facts) // NEUTRAL)
    return [*read(data, "eraser", ["val"]), *(rest[row] for row in chosen)], facts[::apart][:NEUTRAL]


def temperature(logits: Tensor, labels: Tensor) -> float:
    """What to divide ``logits`` (N, C) by so that the ``labels`` (N,) are likeliest. Guo et al., ICML 2017, arXiv 1706.04599."""
    return float(min(TEMPERATURES, key=lambda value: float(functional.cross_entropy(logits / value, labels))))


def cool_(model: Any, by: float) -> None:
    """Divide the logits of a classifier by ``by``, in place."""
    with torch.no_grad():
        model.classifier.weight /= by
        model.classifier.bias /= by


def calibrate_(model: Any, tokenizer: Any, reviews: Sequence[Review], neutral: Sequence[str]) -> dict[str, Any]:
    """Divide the temperature out of the model, and draw the lines: the content of ``calibration.json``."""
    logits = answers(model, tokenizer, [review.text for review in reviews])
    cooled = temperature(logits, torch.tensor([int(review.label) for review in reviews]))
    cool_(model, cooled)
    decided = (logits / cooled).softmax(1).amax(1)
    empty = answers(model, tokenizer, neutral).softmax(1).amax(1)
    line = round(float(decided.quantile(1 - ANSWERED)), 2)
    reader = TextReader(tokenizer, tokenizer.model_max_length)
    languages = questions()["languages"]
    foreign = [score for sentences in languages.values() for score in strangeness(reader, sentences[::2])]
    edge = round(math.floor(min(foreign) / STEP) * STEP, 2)
    english = fmean(score > edge for score in strangeness(reader, [review.text for review in reviews]))
    undecided, wrongly = (float((probability < line).float().mean()) for probability in (empty, decided))
    return {
        "temperature": 1.0,
        "lines": {
            "unreadable_language": {
                "score": "strange_words",
                "line": edge,
                "below": False,
                "measured": f"Above it are all of {len(foreign)} sentences in {len(languages)} languages and {english:.1%} of "
                f"{len(reviews)} English reviews.",
            },
            "no_opinion": {
                "score": "max_probability",
                "line": line,
                "below": True,
                "measured": f"Below it are {undecided:.0%} of {len(neutral)} dictionary definitions that training did not use and "
                f"{wrongly:.1%} of {len(reviews)} reviews. The logits were divided by {cooled:.2f} before.",
            },
        },
    }
