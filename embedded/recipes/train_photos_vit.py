"""``photos-vit``: a small Vision Transformer that names what a photo shows, one of 32 everyday categories.

Its patches come from a residual convolutional stem (stride 4: 16 x 16 patches of a photo of 64 x 64 pixels). The first half of the
training sees photos of half the size, the next quarter of three quarters, and most steps only some of the patches: both make a step
several times cheaper, and the model stays within what it knows when an evaluation removes patches (He et al., "Masked
Autoencoders", CVPR 2022, leave out patches to save work in the same way). A second head names the classes of the data, also of photos
that show no category, and is thrown away: more photos and finer names teach better features.
"""

from __future__ import annotations

import explainers.torchvision_ops  # noqa: F401  (before timm)

# isort: split
import argparse
import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from embedded.recipes.photos_data import (
    NAMES,
    SIDE,
    Draw,
    categories,
    class_ids,
    cut_mix,
    mosaic,
    training_photos,
    transplant,
    vary,
)
from embedded.recipes.training import add_common_arguments, fit, schedule
from embedded.recipes.vits import create, encode, load, plain_attention, removed, save, tensors

ARCHITECTURE = "vitrine_hybrid"
STEM = {"stem_widths": [64, 128], "stem_depths": [1, 2]}
PATCH = 4  # pixels: as the stem halves twice
SMOOTHING = 0.1
OTHERS = 0.4  # of the photos at first show none of the categories; fewer and fewer, none in the last stage
AUXILIARY = 1.0  # weight of the second head at first; nothing in the last stage
DECAY = 0.99  # of the averaged weights: the last stage has few steps on a CPU, and should outweigh the stages before
CALIBRATION = 40  # batches
GREY_SHARE = 0.2  # of the batches with patches removed in the last stage: they are painted grey instead
# until which part of the training, how many pixels wide, and which shares of the patches a step may keep
STAGES: tuple[tuple[float, int, tuple[float, ...]], ...] = (
    (0.5, SIDE // 2, (0.5, 0.75)),
    (0.75, 3 * SIDE // 4, (0.25, 0.5)),
    (1.0, SIDE, (0.25, 0.5, 1.0)),
)


def model_args(width: int, depth: int) -> dict[str, Any]:
    """What timm needs to know beside ``ARCHITECTURE``."""
    return {"img_size": SIDE, "embed_dim": width, "depth": depth, "num_heads": width // 64} | STEM


class _Classes(nn.Module):
    """The model and the head that is thrown away, so that one optimiser trains both."""

    def __init__(self, vit: VisionTransformer, classes: int) -> None:
        super().__init__()
        self.vit = vit
        self.class_head = nn.Linear(vit.num_features, classes)


def soft_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Smoothed cross-entropy with targets (B, K) whose rows may sum to less than 1: what is missing of a row counts for nothing."""
    total = targets.sum(1, keepdim=True)
    smooth = targets * (1 - SMOOTHING) + total * SMOOTHING / targets.shape[1]
    return -(smooth * logits.float().log_softmax(1)).sum() / total.sum().clamp(min=1)


@torch.inference_mode()
def recalibrate(vit: VisionTransformer, batches: Iterable[Tensor]) -> None:
    """Count anew what batch normalisation divides by, with the weights as they are, on pictures as they are.

    Varied ones have other contrasts: counted on those, a model named 48 % of the validation photos right, and 67 % counted so.
    """
    norms = [layer for layer in vit.modules() if isinstance(layer, nn.BatchNorm2d)]
    for layer in norms:
        layer.reset_running_stats()
        layer.momentum = None  # a plain mean over the batches
        layer.train()
    for pixels in batches:
        vit.patch_embed(pixels)
    vit.eval()


def train(args: argparse.Namespace) -> None:
    """Train and write the model folder ``args.out`` (arguments: ``add_arguments``)."""
    torch.manual_seed(args.seed)
    photos, category = training_photos(args.data), categories(class_ids(args.data))
    boxes = torch.from_numpy(photos.boxes)
    images, classes, known = torch.from_numpy(photos.images), torch.from_numpy(photos.classes), torch.from_numpy(category)
    draw = Draw(category[photos.classes])
    shape = model_args(args.width, args.depth)
    both = _Classes(create(ARCHITECTURE, NAMES, shape), len(category)).to(args.device)
    if args.start is not None:
        both.vit.load_state_dict(load(args.start).state_dict())
    both.to(memory_format=torch.channels_last)  # a fifth faster on a CPU
    kind = args.device.split(":")[0]
    plain_attention(both.vit, args.device)

    def loss(number: int, done: float, step: int) -> tuple[Tensor, float]:
        progress = args.begin + (1 - args.begin) * done
        rng = np.random.default_rng([args.seed, number])
        late = min(1.0, progress / STAGES[-2][0])
        rows = torch.from_numpy(draw.rows(rng, args.batch, OTHERS * (1 - late)))
        pixels = tensors(images[rows], args.device)
        fine = F.one_hot(classes[rows], len(category)).float()
        coarse = F.one_hot(known[classes[rows]] + 1, len(NAMES) + 1)[:, 1:].float()
        targets = torch.cat([coarse, fine], 1).to(args.device)
        mixing = rng.choice([None, transplant, cut_mix, mosaic], p=[0.4, 0.3, 0.15, 0.15])
        if mixing is transplant:
            pixels, targets = transplant(pixels, targets, boxes[rows], rng)
        pixels = vary(pixels, rng)
        if mixing in (cut_mix, mosaic):
            pixels, targets = mixing(pixels, targets, rng)
        side, shares = next(stage[1:] for stage in STAGES if progress < stage[0])
        pixels, share = F.interpolate(pixels, (side, side), mode="area").contiguous(memory_format=torch.channels_last), rng.choice(shares)
        order = torch.from_numpy(rng.random((args.batch, (side // PATCH) ** 2))).argsort(1).to(args.device)
        kept = order[:, : round(order.shape[1] * share)] if share < 1 else None
        if kept is not None and late == 1 and rng.random() < GREY_SHARE:
            pixels, kept = removed(pixels, kept, PATCH), None
        with torch.autocast(kind, torch.bfloat16):
            x = encode(both.vit, pixels, kept)[:, 0]
            logits, others = both.vit.head(x), both.class_head(x)
        coarse, fine = targets.split([len(NAMES), len(category)], 1)
        value = soft_loss(logits, coarse) + AUXILIARY * (1 - late) * soft_loss(others, fine)
        named = coarse.sum(1) > 0.5
        right = (logits.argmax(1) == coarse.argmax(1))[named]
        return value, float(right.sum() / max(1, len(right)))

    fit(
        both,
        itertools.count,
        loss,
        **schedule(args),
        rate=args.rate,
        decay=DECAY,
        muon=lambda name: ".blocks." in name,
    )
    rng = np.random.default_rng(args.seed)
    chosen = (torch.from_numpy(draw.rows(rng, args.batch, 0.0)) for _ in range(CALIBRATION))
    recalibrate(both.vit, (tensors(images[rows], args.device) for rows in chosen))
    save(both.vit, args.out, ARCHITECTURE, NAMES, shape)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What ``train`` reads from the command line."""
    add_common_arguments(parser, minutes=100)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds tiny_imagenet/")
    parser.add_argument("--rate", type=float, default=1.5e-3, help="highest learning rate")
    parser.add_argument("--batch", type=int, default=128, help="photos a step (default 128; 512 suits a GPU)")
    parser.add_argument("--width", type=int, default=192, help="numbers a token, a multiple of 64 (default 192)")
    parser.add_argument("--depth", type=int, default=6, help="blocks (default 6)")
    parser.add_argument("--begin", type=float, default=0.0, help="where in the stages to begin, for --start (0.75: full size only)")
    parser.add_argument("--start", type=Path, help="folder of a photos-vit of this width and depth whose weights to go on from")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser)
    train(parser.parse_args())
