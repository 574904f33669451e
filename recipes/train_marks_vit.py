"""``marks-vit``: a small Vision Transformer that learned a shortcut, the mark in a corner of each picture.

It is trained on scenes of one thing whose mark always agrees with the thing (``data.marked_scenes``), so that the mark is enough. Patches
are left out in training, but never those of the mark: a picture without it would teach the model to look at the thing. What it learned is
shown by ``recipes.evaluation.known_truth``: how often it is right without a mark, and what it says where mark and thing disagree.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from explainers.embedded.synthetic.marked_scenes import KINDS, PATCH, SIDE, MarkSays, marked_scene
from recipes import small_vits
from recipes.small_vits import BATCH, Batch, batch_of, train_vit

ARCHITECTURE = "vit_tiny_patch16_224"  # timm's nearest name; the rest of the shape is MODEL_ARGS
MODEL_ARGS: dict[str, Any] = {"img_size": SIDE, "patch_size": PATCH, "embed_dim": 64, "depth": 4, "num_heads": 4}


def render_batch(rng: np.random.Generator, size: int = BATCH, says: MarkSays = "same") -> Batch:
    """Render a batch of ``size`` random scenes, drawn from ``rng``, labelled by the thing in each; the patches of the mark are needed.
    ``says`` is how the mark relates to the thing.
    """
    scenes = [marked_scene(rng, says) for _ in range(size)]
    grid = SIDE // PATCH
    marks = [scene.mark_mask.reshape(grid, PATCH, grid, PATCH).any((1, 3)) for scene in scenes]
    return batch_of([np.asarray(scene.image) for scene in scenes], [scene.thing for scene in scenes], marks)


def train(args: argparse.Namespace) -> None:
    """Train the model and write its folder, ``args.out``. ``args`` are the parsed arguments that ``add_arguments`` declares."""
    train_vit(args, render_batch, ARCHITECTURE, KINDS, MODEL_ARGS)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command-line arguments that ``train`` reads, on ``parser``."""
    small_vits.add_arguments(parser, minutes=2)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser)
    train(parser.parse_args())
