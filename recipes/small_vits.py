"""How the small Vision Transformers of worlds with known truth are trained: on pictures made as they are asked for, some of whose patches
are left out.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from recipes.networks.vits import create, encode, paint_removed, plain_attention, save, tensors
from recipes.training import add_common_arguments, endless, fit, schedule

BATCH = 64
REMOVED_SHARES = (0.0, 0.0, 0.25, 0.5)  # shares of removed patches, one drawn for each batch: tests of maps remove patches, too
GREY_SHARE = 0.5  # share of such batches whose patches are painted grey and not removed


class Batch(NamedTuple):
    """Pictures with their classes.

    images  uint8 (B, side, side, 3)
    labels  int64 (B,)
    needed  bool (B, patches): those that are never left out, since without them the label would be wrong
    """

    images: Tensor
    labels: Tensor
    needed: Tensor


def batch_of(images: Sequence[NDArray[np.uint8]], labels: Sequence[int], needed: Sequence[NDArray[np.bool_]]) -> Batch:
    """Stack single pictures, ``images`` (H, W, 3), their ``labels`` and the masks of ``needed`` patches to one batch, and return it."""
    stacked = np.stack([mask.reshape(-1) for mask in needed])
    return Batch(torch.from_numpy(np.stack(images)), torch.tensor(labels), torch.from_numpy(stacked))


def kept_patches(needed: Tensor, share: float, rng: np.random.Generator) -> Tensor:
    """Return the numbers of the patches that stay, int64 (B, n), when the ``share`` is removed at random by ``rng``, but none that is
    ``needed`` bool (B, patches).
    """
    chance = torch.from_numpy(rng.random(needed.shape)) - needed.double()
    return chance.argsort(1)[:, : round(needed.shape[1] * (1 - share))]


def train_vit(
    args: argparse.Namespace,
    make: Callable[[np.random.Generator], Batch],
    architecture: str,
    labels: Sequence[str],
    model_args: dict[str, Any],
) -> None:
    """Train a classifier over ``labels`` of timm's ``architecture``, built with ``model_args``, on the batches that ``make(rng)`` draws,
    and write its folder ``args.out``.
    """
    torch.manual_seed(args.seed)
    model = create(architecture, labels, model_args).to(args.device)
    plain_attention(model, args.device)

    def loss(batch: Batch, progress: float, step: int) -> tuple[Tensor, float]:
        rng = np.random.default_rng([args.seed, 1, step])
        share = float(rng.choice(REMOVED_SHARES))
        kept = kept_patches(batch.needed, share, rng).to(args.device) if share else None
        pixels = tensors(batch.images, args.device)
        if kept is not None and rng.random() < GREY_SHARE:
            pixels, kept = paint_removed(pixels, kept, model_args["patch_size"]), None
        logits = model.head(encode(model, pixels, kept)[:, 0])
        targets = batch.labels.to(args.device)
        return F.cross_entropy(logits, targets), float((logits.argmax(1) == targets).float().mean())

    fit(
        model,
        lambda first: endless(make, [args.seed], first),
        loss,
        **schedule(args),
        rate=args.rate,
        warm_up=50,
        decay=0.99,
        muon=lambda name: name.startswith("blocks."),
    )
    save(model.cpu(), args.out, architecture, labels, model_args, prefix=1)


def add_arguments(parser: argparse.ArgumentParser, minutes: float) -> None:
    """Declare the command-line arguments of a recipe that trains a small Vision Transformer, for ``minutes`` by default, on ``parser``."""
    add_common_arguments(parser, minutes=minutes)
    parser.add_argument("--rate", type=float, default=2e-3, help="highest learning rate (default 2e-3)")
