"""The teacher of ``reviews-bert``: a larger pretrained encoder, tuned on SST-2, whose answers soften labels and label single sentences.

The encoder is all-mpnet-base-v2 (12 layers of width 768; K. Song et al., "MPNet", NeurIPS 2020). A small model learns more of what a larger
one answers than of labels alone: G. Hinton et al., "Distilling the Knowledge in a Neural Network", 2015.
"""

from __future__ import annotations

import explainers.models.libraries.torchvision_ops  # noqa: F401  (before transformers)

# isort: split
import argparse
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from transformers import AutoModel, AutoTokenizer, PreTrainedTokenizerBase

from embedded.recipes.reviews.data import Batch, Review, Special, Stream, batches_by_length, collate, pieces_of
from embedded.recipes.training import fit

LENGTH = 128  # pieces; phrases and sentences are shorter
BATCH, RATE = 32, 3e-5
SHORTEST = 5  # words of a phrase that the teacher learns from: shorter ones would take half of its time and teach it little
TOKENS = 4096  # in a batch that is only answered
SHARE = 0.7  # of the teacher's answer in the label of a phrase; the rest is what people said
WORDS = (4, 40)  # of a sentence
SENTENCES = 104_000  # of reviews that the teacher answers


class Teacher(nn.Module):
    """An encoder whose outputs, averaged over the tokens, give the logits of negative and positive."""

    def __init__(self, encoder: Path) -> None:
        super().__init__()
        self.encoder = AutoModel.from_pretrained(encoder, dtype=torch.float32, local_files_only=True)
        self.encoder.get_input_embeddings().requires_grad_(False)
        width = self.encoder.config.hidden_size
        self.dense, self.out = nn.Linear(width, width), nn.Linear(width, 2)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """The logits (B, 2) of ``input_ids`` and ``attention_mask``, both (B, S)."""
        tokens = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        read = attention_mask.unsqueeze(-1).to(tokens.dtype)
        mean = (tokens * read).sum(1) / read.sum(1)
        logits: Tensor = self.out(torch.tanh(self.dense(mean))).float()
        return logits


def tuned(args: argparse.Namespace, phrases: Sequence[Review]) -> tuple[Teacher, PreTrainedTokenizerBase]:
    """The teacher on the encoder ``args.teacher``, trained on phrases for ``args.teacher_minutes``, and its tokenizer."""
    torch.manual_seed(args.seed)
    teacher = Teacher(args.teacher).to(args.device)
    tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(args.teacher, local_files_only=True)
    special = Special.of(tokenizer)
    learned = [phrase for phrase in phrases if len(phrase.text.split()) >= SHORTEST]
    stream = Stream(pieces_of(tokenizer, [r.text for r in learned]), [r.label for r in learned], BATCH, ((LENGTH, 1.0),), args.seed)

    def batches(first: int) -> Iterator[Batch]:
        while True:
            texts, labels = stream.batch(first)
            yield collate(texts, labels, special, [0.0] * len(texts), np.random.default_rng(0))
            first += 1

    def loss(batch: Batch, progress: float, step: int) -> tuple[Tensor, float]:
        labels = batch["labels"].long().to(args.device)
        logits = _logits(teacher, batch)
        return functional.cross_entropy(logits, labels), float((logits.argmax(1) == labels).float().mean())

    checkpoint = args.out / "teacher.pt"
    fit(
        teacher,
        batches,
        loss,
        checkpoint=checkpoint,
        minutes=args.teacher_minutes,
        resume=args.resume,
        rate=RATE,
        weight_decay=0.01,
        warm_up=60,
    )
    return teacher, tokenizer


def _logits(teacher: Teacher, batch: Batch) -> Tensor:
    device = teacher.out.weight.device
    with torch.autocast(device.type, torch.bfloat16):
        logits: Tensor = teacher(batch["input_ids"].to(device), batch["attention_mask"].to(device))
    return logits


@torch.no_grad()
def answers(teacher: Teacher, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> NDArray[np.float32]:
    """The probability (N,) of "positive" that the teacher gives to each of N texts."""
    special, rng = Special.of(tokenizer), np.random.default_rng(0)
    pieces = [numbers[: LENGTH - 2] for numbers in pieces_of(tokenizer, texts)]
    positive = np.empty(len(texts), np.float32)
    for rows in batches_by_length(pieces, TOKENS):
        batch = collate([pieces[row] for row in rows], [0.0] * len(rows), special, [0.0] * len(rows), rng)
        positive[rows] = _logits(teacher, batch).softmax(1)[:, 1].cpu().numpy()
    return positive


def sentences(reviews: Sequence[Review], count: int, seed: int) -> list[str]:
    """``count`` single sentences of reviews at most, drawn at random, each once."""
    found = {
        sentence
        for review in reviews
        for sentence in re.split(r"(?<=[.!?])[\"')]*\s+", review.text)
        if WORDS[0] <= len(sentence.split()) <= WORDS[1]
    }
    ordered = sorted(found)
    drawn = np.random.default_rng(seed).permutation(len(ordered))[:count]
    return [ordered[row] for row in drawn]


def softened(phrases: Sequence[Review], positive: NDArray[np.float32]) -> list[Review]:
    """The phrases with labels between what people said and the teacher's answers ``positive`` (N,)."""
    pairs = zip(phrases, positive.tolist(), strict=True)
    return [Review(phrase.text, SHARE * answer + (1 - SHARE) * phrase.label) for phrase, answer in pairs]


def taught(args: argparse.Namespace, phrases: Sequence[Review], reviews: Sequence[Review]) -> tuple[list[Review], list[Review]]:
    """The phrases softened, and sentences of the reviews labelled, by a teacher that is tuned for it.

    Its answers are kept in ``args.out / "teacher.npz"``; with ``args.resume`` they are read from there.
    """
    found = sentences(reviews, SENTENCES, args.seed)
    stored = args.out / "teacher.npz"
    if not (args.resume and stored.exists()):
        teacher, tokenizer = tuned(args, phrases)
        groups = {"phrases": [phrase.text for phrase in phrases], "sentences": found}
        np.savez(stored, **{name: answers(teacher, tokenizer, texts) for name, texts in groups.items()})  # type: ignore[arg-type]
    with np.load(stored) as kept:
        labels: list[float] = kept["sentences"].tolist()
        return softened(phrases, kept["phrases"]), [Review(*pair) for pair in zip(found, labels, strict=True)]
