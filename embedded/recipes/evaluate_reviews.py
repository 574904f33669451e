"""Measure ``reviews-bert`` on reviews it was never trained on: the table that its model card quotes.

``python -m embedded.recipes.evaluate_reviews --data DIR`` prints, for each held-out set, the accuracy on the texts as they are
and with each word masked with a chance of one half. Of texts longer than the model takes it reads the beginning and the end.
"""

from __future__ import annotations

import explainers.torchvision_ops  # noqa: F401  (before transformers)

# isort: split
import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from embedded.recipes.reviews_data import HELD_OUT, Review, Special, batches_by_length, collate, head_and_tail, pieces_of, read

MODEL = Path(__file__).parent.parent / "models" / "reviews-bert"
TOKENS = 4096  # in a batch
SEED = 0  # of the sample and of the masks


@torch.no_grad()
def predictions(model: Any, tokenizer: Any, reviews: Sequence[Review], masked: float = 0.0, seed: int = SEED) -> list[int]:
    """The label that the model gives each review, in order; each word is masked with the chance ``masked``."""
    special, rng = Special.of(tokenizer), np.random.default_rng(seed)
    texts = [head_and_tail(p, tokenizer.model_max_length - 2) for p in pieces_of(tokenizer, [review.text for review in reviews])]
    answers = [-1] * len(texts)
    with tqdm(total=len(texts), unit="review", disable=None) as bar:
        for rows in batches_by_length(texts, TOKENS):
            batch = collate([texts[row] for row in rows], [reviews[row].label for row in rows], special, [masked] * len(rows), rng)
            del batch["labels"]
            logits = model(**{name: value.to(model.device) for name, value in batch.items()}).logits
            for row, answer in zip(rows, logits.argmax(1).tolist(), strict=True):
                answers[row] = answer
            bar.update(len(rows))
    return answers


def accuracy(reviews: Sequence[Review], answers: Sequence[int]) -> float:
    """The share of right answers."""
    return sum(review.label == answer for review, answer in zip(reviews, answers, strict=True)) / len(reviews)


def figures(model: Any, tokenizer: Any, data: Path, imdb: int) -> Iterator[tuple[str, int, float, float]]:
    """For each held-out set its name, its size, and the accuracies on whole and on half-masked texts; ``imdb`` texts of IMDB."""
    for title, (source, split) in HELD_OUT.items():
        name, reviews = title, read(data, source, [split])
        if source == "imdb" and imdb < len(reviews):
            chosen = np.random.default_rng(SEED).choice(len(reviews), imdb, replace=False)
            reviews = [reviews[row] for row in chosen]
            name = f"{title}, random sample"
        whole, half = (accuracy(reviews, predictions(model, tokenizer, reviews, masked)) for masked in (0.0, 0.5))
        yield name, len(reviews), whole, half


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds sst2, imdb and eraser_movies (.jsonl.xz)")
    parser.add_argument("--model", type=Path, default=MODEL, help="model folder (default: the embedded one)")
    parser.add_argument("--imdb", type=int, default=2000, help="how many of IMDB's 25,000 test reviews to take (default 2000)")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    if not args.model.is_dir():
        parser.error(f"{args.model} is no folder; --model must name one with config.json and model.safetensors")
    model = AutoModelForSequenceClassification.from_pretrained(args.model, dtype=torch.float32, local_files_only=True)
    tokenizer = AutoTokenizer.from_pretrained(args.model, local_files_only=True)
    print("| held-out set | reviews | accuracy | with half the words masked |\n|---|---|---|---|")
    for name, count, whole, half in figures(model.to(args.device).eval(), tokenizer, args.data, args.imdb):
        print(f"| {name} | {count:,} | {whole:.1%} | {half:.1%} |", flush=True)


if __name__ == "__main__":
    main()
