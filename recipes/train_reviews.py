"""``reviews``: a pretrained encoder fine-tuned to tell positive from negative reviews on ERASER's movies, as Chefer et al. did with BERT.

Its test reviews have the words marked that people gave as reasons, so that maps of the model can be held against them. The model learns
from whole reviews and their class, cut to the first 512 tokens; it is never told which words are marked.

After the configuration and the code that Chefer et al. published (CVPR 2021): Adam at 1e-5 throughout, batches of 10, cross-entropy
summed over the batch, gradients of a norm of 1 at most, ten epochs, the weights of the epoch with the best accuracy on the validation
split, of equal ones that with the least loss.
"""

from __future__ import annotations

import explainers.models.libraries.torchvision_ops  # noqa: F401  (before transformers)

# isort: split
import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from tqdm import tqdm
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from explainers.datasets import open_dataset
from explainers.errors import ExplainerError
from explainers.models.libraries import hub
from explainers.models.loading import device_named
from recipes.training import CHECKPOINT_SECONDS, save_checkpoint

DATASET = "eraser-movies"
CLASSES = ("negative", "positive")
LENGTH = 512  # tokens, [CLS] and [SEP] included
MEASURED_AT_ONCE = 32  # reviews in one pass where the model is measured
MAX_GRADIENT_NORM = 1.0


@dataclass(frozen=True)
class Review:
    """A film review: its text and the index of its class (``label``)."""

    text: str
    label: int


def read_reviews(data: Path, split: str) -> list[Review]:
    """Return the reviews of ``split`` of ERASER's movies, read from the folder ``data``. Raises ExplainerError if the folder does not hold
    them.
    """
    return [Review(str(one.text), CLASSES.index(str(one.labels[0]))) for one in open_dataset(DATASET, data, split)]


def pretrained_folder(name: str) -> Path:
    """Return the folder of an encoder: a folder itself, or ``hf/<organisation>/<name>`` from the local cache or the hub.

    Raises ExplainerError for a name that is neither.
    """
    if Path(name).is_dir():
        return Path(name)
    if name.startswith("hf/"):
        return hub.fetch(name.removeprefix("hf/"))
    raise ExplainerError(f"there is no encoder {name!r}; send hf/<organisation>/<name>, such as hf/bert-base-uncased, or a folder")


def answers(model: Any, tokenizer: Any, reviews: Sequence[Review]) -> tuple[Tensor, Tensor]:
    """Return the logits (B, 2) of ``model`` for ``reviews``, cut to their first tokens where too long, and the indices (B,) of their
    classes. ``tokenizer`` is the model's.
    """
    encoded = tokenizer([review.text for review in reviews], truncation=True, padding=True, return_tensors="pt")
    return model(**encoded.to(model.device)).logits, torch.tensor([review.label for review in reviews], device=model.device)


@torch.no_grad()
def measure_reviews(model: Any, tokenizer: Any, reviews: Sequence[Review]) -> tuple[float, float]:
    """Return the share of ``reviews`` that ``model`` classifies right, from 0 to 1, and its mean cross-entropy in nats. ``tokenizer`` is
    the model's.
    """
    model.eval()
    right, loss = 0, 0.0
    for start in tqdm(range(0, len(reviews), MEASURED_AT_ONCE), desc="measuring", unit="batch", leave=False, disable=None):
        logits, labels = answers(model, tokenizer, reviews[start : start + MEASURED_AT_ONCE])
        right += int((logits.argmax(1) == labels).sum())
        loss += float(functional.cross_entropy(logits, labels, reduction="sum"))
    return right / len(reviews), loss / len(reviews)


class FineTuning:
    """The training of the text classifier in ``folder`` on ``reviews``, step by step, with the settings in ``args``.

    Each step depends on the seed and its number alone, so that a training goes on from a checkpoint as if nothing had stopped it.
    """

    def __init__(self, folder: Path, reviews: Sequence[Review], args: argparse.Namespace) -> None:
        self.reviews, self.seed, self.batch = reviews, args.seed, args.batch
        torch.manual_seed(args.seed)  # of the new layers
        self.tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        self.tokenizer.init_kwargs.pop("long_texts", None)  # reviews-bert reads both ends; what is learned here are beginnings
        names = dict(enumerate(CLASSES))
        self.model: Any = AutoModelForSequenceClassification.from_pretrained(
            folder,
            dtype=torch.float32,
            id2label=names,
            label2id={name: index for index, name in names.items()},
            ignore_mismatched_sizes=True,  # a head of other classes is replaced by a new one
            local_files_only=True,
        ).to(device_named(args.device))
        self.tokenizer.model_max_length = min(LENGTH, self.tokenizer.model_max_length, self.model.config.max_position_embeddings)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=args.rate)
        self.step = 0
        self.history: list[tuple[float, float]] = []  # of each epoch the accuracy on the validation split and its loss

    @property
    def steps_per_epoch(self) -> int:
        """The number of batches in an epoch, of which the last may be smaller."""
        return -(-len(self.reviews) // self.batch)

    def learn(self) -> float:
        """Run one training step and return its loss."""
        epoch, number = divmod(self.step, self.steps_per_epoch)
        order = np.random.default_rng((self.seed, epoch)).permutation(len(self.reviews))
        chosen = [self.reviews[row] for row in order[number * self.batch : (number + 1) * self.batch]]
        torch.manual_seed(int(np.random.default_rng((self.seed, 1, self.step)).integers(2**63)))  # of dropout
        self.model.train()
        loss = functional.cross_entropy(*answers(self.model, self.tokenizer, chosen), reduction="sum")
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), MAX_GRADIENT_NORM)
        self.optimizer.step()
        self.step += 1
        return float(loss.detach()) / len(chosen)

    def is_best(self) -> bool:
        """Return whether the last epoch is the best so far."""
        return max(self.history, key=lambda figures: (figures[0], -figures[1])) is self.history[-1]

    def save(self, out: Path) -> None:
        """Write the model and its tokenizer to the folder ``out``, which ``explainers.load`` takes."""
        self.model.save_pretrained(out)
        self.tokenizer.save_pretrained(out)

    def state(self) -> dict[str, Any]:
        """Return the contents of a checkpoint: weights, optimizer, step and history."""
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), "step": self.step, "history": self.history}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore weights, optimizer, step and history from ``state``, the contents of a checkpoint."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.history = state["step"], [(float(right), float(loss)) for right, loss in state["history"]]


def train(args: argparse.Namespace) -> None:
    """Train the model and write the weights of its best epoch into the folder ``args.out``. ``args`` are the parsed arguments that
    ``add_arguments`` declares.

    Raises ExplainerError for an encoder, data or a device that is not there, and for less than one epoch or review a step.
    """
    if args.epochs < 1 or args.batch < 1:
        raise ExplainerError("--epochs and --batch must be at least 1")
    tuning = FineTuning(pretrained_folder(args.encoder), read_reviews(args.data, "train"), args)
    validation = read_reviews(args.data, "val")
    checkpoint = args.out / "checkpoint.pt"
    if args.resume and checkpoint.is_file():
        tuning.restore(torch.load(checkpoint, map_location="cpu", weights_only=True))
    args.out.mkdir(parents=True, exist_ok=True)
    for _ in _epochs(tuning, args.epochs, checkpoint):
        tuning.history.append(measure_reviews(tuning.model, tuning.tokenizer, validation))
        right, loss = tuning.history[-1]
        print(f"epoch {len(tuning.history)}: {right:.1%} of the validation reviews right, loss {loss:.3f}", file=sys.stderr)
        if tuning.is_best():
            tuning.save(args.out)
        save_checkpoint(tuning.state(), checkpoint)
    checkpoint.unlink(missing_ok=True)


def _epochs(tuning: FineTuning, epochs: int, checkpoint: Path) -> Iterator[int]:
    """Train ``tuning`` until it has run ``epochs`` epochs, and yield the number of each epoch, from 0, at its end. Epochs that are already
    in its history are neither run nor yielded. The state is saved to the file ``checkpoint`` from time to time within an epoch.
    """
    written = time.monotonic()
    for epoch in range(len(tuning.history), epochs):
        last = (epoch + 1) * tuning.steps_per_epoch
        with tqdm(total=last, initial=tuning.step, desc=f"epoch {epoch + 1} of {epochs}", unit="step", disable=None) as bar:
            while tuning.step < last:
                bar.set_postfix_str(f"loss {tuning.learn():.3f}", refresh=False)
                bar.update()
                if time.monotonic() - written > CHECKPOINT_SECONDS:
                    save_checkpoint(tuning.state(), checkpoint)
                    written = time.monotonic()
        yield epoch


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command-line arguments that ``train`` reads, on ``parser``."""
    parser.add_argument(
        "--from",
        dest="encoder",
        metavar="MODEL",
        required=True,
        help="the pretrained encoder: hf/<organisation>/<name>, such as hf/bert-base-uncased, or a folder",
    )
    parser.add_argument("--data", type=Path, required=True, help="folder that holds movies/, as ERASER publishes it")
    parser.add_argument("--out", type=Path, required=True, help="folder the model is written to")
    parser.add_argument("--epochs", type=int, default=10, help="how often each review is learned from (default 10)")
    parser.add_argument("--batch", type=int, default=10, help="reviews in a step (default 10)")
    parser.add_argument("--rate", type=float, default=1e-5, help="learning rate (default 1e-5)")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint in --out")
