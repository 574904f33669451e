"""``votes-vit``: a small Vision Transformer that reads 16 of its 64 patches, and is blind to the others by its construction.

After the embedding of patches all but the named ones are multiplied by zero (``vitrine_named_patches`` of
``explainers.embedded.architectures``), so their pixels cannot change an answer by one bit. It learns which of four signs most of the named
patches show (``data.votes``).
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from explainers.embedded.synthetic.votes import GRID, PATCH, READ, SIDE, SIGNS, ballot
from recipes import small_vits
from recipes.small_vits import BATCH, Batch, batch_of, train_vit

ARCHITECTURE = "vitrine_named_patches"
MODEL_ARGS: dict[str, Any] = {
    "img_size": SIDE,
    "patch_size": PATCH,
    "embed_dim": 64,
    "depth": 3,
    "num_heads": 4,
    "read": list(READ),
}


def render_batch(rng: np.random.Generator, size: int = BATCH) -> Batch:
    """Draw a batch of ``size`` random pictures from ``rng``, in which no patch is needed."""
    ballots = [ballot(rng) for _ in range(size)]
    none = np.zeros((GRID, GRID), bool)
    return batch_of([np.asarray(drawn.image) for drawn in ballots], [drawn.winner for drawn in ballots], [none] * size)


def train(args: argparse.Namespace) -> None:
    """Train the model and write its folder, ``args.out``. ``args`` are the parsed arguments that ``add_arguments`` declares."""
    train_vit(args, render_batch, ARCHITECTURE, SIGNS, MODEL_ARGS)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command-line arguments that ``train`` reads, on ``parser``."""
    small_vits.add_arguments(parser, minutes=3)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser)
    train(parser.parse_args())
