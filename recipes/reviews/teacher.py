"""The teacher of ``reviews-bert``: a larger pretrained encoder, tuned on SST-2, whose answers soften labels and label single sentences.

The encoder is all-mpnet-base-v2 (12 layers of width 768; K. Song et al., "MPNet", NeurIPS 2020). A small model learns more of what a larger
one answers than of labels alone: G. Hinton et al., "Distilling the Knowledge in a Neural Network", 2015.
"""

from __future__ import annotations

import explainers.models.libraries.torchvision_ops  # noqa: F401  (before transformers)

# isort: split
import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from transformers import AutoModel, AutoTokenizer, PreTrainedTokenizerBase
from transformers.modeling_outputs import SequenceClassifierOutput

from recipes.reviews.data import Batch, Review, Special, Stream, collate, pieces_of, sentences_of
from recipes.reviews.text_predictions import answers
from recipes.training import fit

LENGTH = 128  # pieces; phrases and sentences are shorter
BATCH, RATE = 32, 3e-5
MIN_WORDS = 5  # words of a phrase that the teacher learns from: shorter ones would take half of its time and teach it little
TEACHER_SHARE = 0.7  # weight of the teacher's answer in the label of a phrase; the rest is the label that people gave
SENTENCE_WORDS = (4, 40)  # least and most words of a sentence
LABELLED_SENTENCES = 104_000  # sentences of reviews that the teacher labels


class Teacher(nn.Module):
    """A text encoder with a head on the mean of its tokens that gives the logits of negative and positive; called as transformers' own
    models are.
    """

    def __init__(self, encoder: Path) -> None:
        super().__init__()
        self.encoder = AutoModel.from_pretrained(encoder, dtype=torch.float32, local_files_only=True)
        self.encoder.get_input_embeddings().requires_grad_(False)
        self.config = self.encoder.config
        width = self.config.hidden_size
        self.dense, self.out = nn.Linear(width, width), nn.Linear(width, 2)

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return self.out.weight.device

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> SequenceClassifierOutput:
        """Return the logits (B, 2), in float32, for ``input_ids`` and ``attention_mask``, both (B, S)."""
        with torch.autocast(self.device.type, torch.bfloat16):
            tokens = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
            read = attention_mask.unsqueeze(-1).to(tokens.dtype)
            mean = (tokens * read).sum(1) / read.sum(1)
            return SequenceClassifierOutput(logits=self.out(torch.tanh(self.dense(mean))).float())


def tune_teacher(args: argparse.Namespace, phrases: Sequence[Review]) -> tuple[Teacher, PreTrainedTokenizerBase]:
    """Train a teacher on the encoder ``args.teacher`` with phrases for ``args.teacher_minutes``; return it and its tokenizer."""
    torch.manual_seed(args.seed)
    teacher = Teacher(args.teacher).to(args.device)
    tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(args.teacher, local_files_only=True)
    tokenizer.model_max_length = LENGTH
    special = Special.of(tokenizer)
    learned = [phrase for phrase in phrases if len(phrase.text.split()) >= MIN_WORDS]
    stream = Stream(pieces_of(tokenizer, [r.text for r in learned]), [r.label for r in learned], BATCH, ((LENGTH, 1.0),), args.seed)

    def batches(first: int) -> Iterator[Batch]:
        while True:
            texts, labels = stream.batch(first)
            yield collate(texts, labels, special, [0.0] * len(texts), np.random.default_rng(0))
            first += 1

    def loss(batch: Batch, progress: float, step: int) -> tuple[Tensor, float]:
        labels = batch.pop("labels").long().to(args.device)
        logits = teacher(**{name: value.to(args.device) for name, value in batch.items()}).logits
        return functional.cross_entropy(logits, labels), float((logits.argmax(1) == labels).float().mean())

    fit(
        teacher,
        batches,
        loss,
        checkpoint=args.out / "teacher.pt",
        minutes=args.teacher_minutes,
        resume=args.resume,
        rate=RATE,
        weight_decay=0.01,
        warm_up=60,
    )
    return teacher, tokenizer


def sentences(reviews: Sequence[Review], count: int, seed: int) -> list[str]:
    """Return at most ``count`` single sentences of reviews, drawn at random, each once."""
    ordered = sorted({sentence for review in reviews for sentence in sentences_of(review.text, *SENTENCE_WORDS)})
    drawn = np.random.default_rng(seed).permutation(len(ordered))[:count]
    return [ordered[row] for row in drawn]


def soften(phrases: Sequence[Review], positive: NDArray[np.float32]) -> list[Review]:
    """Return the phrases with each label replaced by a weighted mean of the label that people gave and the teacher's probability of a
    positive one, ``positive`` (N,).
    """
    pairs = zip(phrases, positive.tolist(), strict=True)
    return [Review(phrase.text, TEACHER_SHARE * answer + (1 - TEACHER_SHARE) * phrase.label) for phrase, answer in pairs]


def label_with_teacher(args: argparse.Namespace, phrases: Sequence[Review], reviews: Sequence[Review]) -> tuple[list[Review], list[Review]]:
    """Train a teacher and return two lists of reviews: ``phrases`` with labels softened by its answers, and sentences drawn from
    ``reviews`` with its answers as labels. ``args`` are the parsed arguments of the training.

    The teacher's answers are stored in ``args.out / "teacher.npz"``; with ``args.resume`` they are read from there.
    """
    found = sentences(reviews, LABELLED_SENTENCES, args.seed)
    stored = args.out / "teacher.npz"
    if not (args.resume and stored.exists()):
        teacher, tokenizer = tune_teacher(args, phrases)
        groups = {"phrases": [phrase.text for phrase in phrases], "sentences": found}
        positive = {name: answers(teacher, tokenizer, texts).softmax(1)[:, 1].numpy() for name, texts in groups.items()}
        np.savez(stored, **positive)  # type: ignore[arg-type]
    with np.load(stored) as kept:
        labels: list[float] = kept["sentences"].tolist()
        return soften(phrases, kept["phrases"]), [Review(*pair) for pair in zip(found, labels, strict=True)]
