"""What a classifier of texts answers to many texts, and how much of it is right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from recipes.reviews.data import Review, Special, batches_by_length, collate, head_and_tail, pieces_of

BATCH_TOKENS = 4096  # most tokens of a batch
SEED = 0  # of the sample and of the masks
MAX_REVIEWS = 2000  # most reviews measured of a held-out set; IMDB's 25,000 are sampled


def answers(model: Any, tokenizer: Any, texts: Sequence[str], masked: float = 0.0, seed: int = SEED) -> Tensor:
    """Return the logits (N, classes) of ``model``, with its ``tokenizer``, for each of ``texts``, in order; each word is masked with the
    probability ``masked``, drawn by ``seed``.
    """
    return _run_in_batches(lambda batch: model(**batch).logits, model.config.num_labels, model, tokenizer, texts, masked, seed)


def token_means(model: Any, tokenizer: Any, texts: Sequence[str]) -> Tensor:
    """Return the mean of the tokens of each of ``texts`` in the last layer of ``model``, with its ``tokenizer``, (N, width), in order."""

    def mean(batch: dict[str, Tensor]) -> Tensor:
        mask = batch["attention_mask"][..., None].float()
        tokens: Tensor = model.base_model(**batch).last_hidden_state
        return (tokens * mask).sum(1) / mask.sum(1)

    return _run_in_batches(mean, model.config.hidden_size, model, tokenizer, texts)


@torch.no_grad()
def _run_in_batches(
    ask: Callable[[dict[str, Tensor]], Tensor],
    width: int,
    model: Any,
    tokenizer: Any,
    texts: Sequence[str],
    masked: float = 0.0,
    seed: int = SEED,
) -> Tensor:
    """Return the output of ``ask``, a function from a batch of tensors, for each of ``texts``, (texts, width), in order, on the device of
    ``model``; texts of similar length share a batch. ``masked`` is the share of words, drawn by ``seed``, that ``tokenizer``'s mask
    replaces.
    """
    special, rng = Special.of(tokenizer), np.random.default_rng(seed)
    pieces = [head_and_tail(p, tokenizer.model_max_length - 2) for p in pieces_of(tokenizer, texts)]
    gathered = torch.empty(len(pieces), width)
    with tqdm(total=len(pieces), desc="reading", unit="review", leave=False, disable=None) as bar:
        for batch_rows in batches_by_length(pieces, BATCH_TOKENS):
            batch = collate([pieces[row] for row in batch_rows], [0.0] * len(batch_rows), special, [masked] * len(batch_rows), rng)
            del batch["labels"]
            gathered[batch_rows] = ask({name: value.to(model.device) for name, value in batch.items()}).float().cpu()
            bar.update(len(batch_rows))
    return gathered


def predictions(model: Any, tokenizer: Any, reviews: Sequence[Review], masked: float = 0.0, seed: int = SEED) -> list[int]:
    """Return the index of the class that ``model``, with its ``tokenizer``, gives each of ``reviews``, in order; the share ``masked`` of
    their words is masked first.
    """
    chosen: list[int] = answers(model, tokenizer, [review.text for review in reviews], masked, seed).argmax(1).tolist()
    return chosen


def accuracy(reviews: Sequence[Review], answers: Sequence[int], label: int | None = None) -> float:
    """Return the share of right answers, among the reviews of this label where one is given; 0 where there are none."""
    right = [answer == review.label for review, answer in zip(reviews, answers, strict=True) if label in (None, review.label)]
    return sum(right) / len(right) if right else 0.0


def sample(reviews: list[Review], most: int) -> list[Review]:
    """Return ``most`` random reviews, always the same; all where there are no more."""
    if len(reviews) <= most:
        return reviews
    return [reviews[row] for row in np.random.default_rng(SEED).choice(len(reviews), most, replace=False)]
