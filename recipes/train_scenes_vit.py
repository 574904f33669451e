"""``scenes-vit``: a small Vision Transformer that names the objects in rendered scenes.

Targets are soft, 1/k for each of a scene's k objects, so the top class is one of them. From most batches a share of
the patches is removed (or painted grey), so that the model stays within what it knows when an evaluation removes
patches. In the first part of the training the patch tokens are also asked what they show, which the renderer knows
exactly (token labelling, Jiang et al., "All Tokens Matter", NeurIPS 2021); the weight of that question falls to nothing
and its head is thrown away, so the finished model is an ordinary classifier.
"""

from __future__ import annotations

import explainers.models.libraries.torchvision_ops  # noqa: F401  (before timm)

# isort: split
import argparse
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from explainers.embedded.synthetic.scenes import KINDS, patch_labels, render
from recipes.calibration import SEED, calibrate_scenes, draw_made_up, write
from recipes.networks.vits import answer, create, encode, load, paint_removed, plain_attention, save, tensors
from recipes.training import add_common_arguments, add_start_arguments, check_start, endless, fit, mix_, schedule

SIZE, PATCH, BATCH = 112, 8, 64
ARCHITECTURE = "vit_tiny_patch16_224"  # timm's nearest name; the rest of the shape is MODEL_ARGS
MODEL_ARGS: dict[str, Any] = {
    "img_size": SIZE,
    "patch_size": PATCH,
    "embed_dim": 192,
    "depth": 6,
    "num_heads": 3,
    "pre_norm": True,
}
LABELLING_UNTIL = 0.8  # share of the training in which patch tokens are asked what they show, less and less
COUNT_SHARES = (0.15, 0.25, 0.3, 0.3)  # of scenes with one, two, three, four objects: more of them than a test has teach more
REMOVED_SHARES = (
    0.0,
    0.0,
    0.25,
    0.5,
    0.75,
)  # shares of patches removed at random, one drawn for each batch, in the second half of the training
CALIBRATION_SCENES, CALIBRATION_PICTURES = 1000, 200  # number of scenes and of made-up pictures that the calibration is fitted to
GREY_SHARE = 0.2  # share of batches whose patches are painted grey and not removed


class Batch(NamedTuple):
    """A batch of rendered scenes (``images``), the kinds in each (``targets``), and the kind that each patch shows."""

    images: Tensor  # uint8 (B, SIZE, SIZE, 3)
    targets: Tensor  # (B, kinds), each row sums to 1
    patches: Tensor  # int64 (B, patches): what each patch shows, len(KINDS) for background


def render_batch(rng: np.random.Generator, size: int = BATCH) -> Batch:
    """Render a batch of ``size`` random scenes by ``rng``, of one or more objects each."""
    counts = rng.choice(len(COUNT_SHARES), size, p=COUNT_SHARES) + 1
    scenes = [render(rng, SIZE, count=int(count)) for count in counts]
    targets = torch.zeros(size, len(KINDS))
    for row, scene in zip(targets, scenes, strict=True):
        for item in scene.objects:
            row[KINDS.index(item.kind)] = 1 / len(scene.objects)
    images: NDArray[np.uint8] = np.stack([np.asarray(scene.image) for scene in scenes])
    labels = np.stack([patch_labels(scene, PATCH).reshape(-1) for scene in scenes])
    return Batch(torch.from_numpy(images), targets, torch.from_numpy(labels))


def batches(seed: int, first: int) -> Iterator[Batch]:
    """Yield the batches ``first``, ``first + 1``, ... of the endless sequence of freshly rendered scenes that ``seed`` names."""
    return endless(render_batch, [seed], first)


def new_model() -> VisionTransformer:
    """Return the untrained model of scenes, a small ViT over the kinds of objects."""
    return create(ARCHITECTURE, KINDS, MODEL_ARGS)


class _ModelWithPatchHead(nn.Module):
    """The model together with the head that labels patches and is dropped later, so that one optimizer trains both."""

    def __init__(self) -> None:
        super().__init__()
        self.vit = new_model()
        self.patch_head = nn.Linear(self.vit.num_features, len(KINDS) + 1)


def train(args: argparse.Namespace) -> None:
    """Train the model and write its folder, ``args.out``. ``args`` are the parsed arguments that ``add_arguments`` declares."""
    check_start(args)
    torch.manual_seed(args.seed)
    both = _ModelWithPatchHead().to(args.device)
    if args.start is not None:
        both.vit.load_state_dict(load(args.start).state_dict())
    plain_attention(both.vit, args.device)

    def loss(batch: Batch, progress: float, step: int) -> tuple[Tensor, float]:
        rng = np.random.default_rng([args.seed, 1, step])
        share = 0.5 if progress < 0.5 else float(rng.choice(REMOVED_SHARES))
        grey = share > 0 and rng.random() < GREY_SHARE
        pixels, targets = tensors(batch.images, args.device), batch.targets.to(args.device)
        labels = batch.patches.to(args.device)
        order = torch.from_numpy(rng.random(labels.shape)).argsort(1).to(args.device)
        kept = order[:, : round(labels.shape[1] * (1 - share))]
        if grey:
            pixels = paint_removed(pixels, kept, PATCH)
        elif share:
            labels = labels.gather(1, kept)
        with torch.autocast(args.device.split(":")[0], torch.bfloat16):
            x = encode(both.vit, pixels, kept if share and not grey else None)
            logits = both.vit.head(x[:, 0])
            weight = max(0.0, 1 - progress / LABELLING_UNTIL)
            dense = both.patch_head(x[:, 1:]) if weight else None
        value = F.cross_entropy(logits.float(), targets)
        if dense is not None and not grey:
            value = value + weight * F.cross_entropy(dense.float().flatten(0, 1), labels.flatten())
        right = targets.gather(1, logits.argmax(1, keepdim=True)).gt(0).float().mean()
        return value, float(right)

    fit(
        both,
        lambda first: batches(args.seed, first),
        loss,
        **schedule(args),
        rate=args.rate,
        decay=0.99,  # averaged over the last hundred steps: a CPU makes few
        muon=lambda name: ".blocks." in name,
    )
    if args.start is not None:
        mix_(both.vit, load(args.start).state_dict(), args.keep)
    save(both.vit, args.out, ARCHITECTURE, KINDS, MODEL_ARGS)
    write(args.out, calibrate_model(both.vit))


def calibrate_model(vit: VisionTransformer) -> dict[str, Any]:
    """Return the ``calibration.json`` of the finished model ``vit``, from made-up pictures and scenes that no training and no evaluation
    sees.
    """
    scenes = (render(np.random.default_rng([SEED, 2, index]), SIZE) for index in range(CALIBRATION_SCENES))
    known = torch.from_numpy(np.stack([np.asarray(scene.image) for scene in scenes]))
    return calibrate_scenes(answer(vit, known), answer(vit, draw_made_up(CALIBRATION_PICTURES)))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command-line arguments that ``train`` reads, on ``parser``."""
    add_common_arguments(parser, minutes=40)
    parser.add_argument("--rate", type=float, default=1e-3, help="highest learning rate")
    add_start_arguments(parser, "scenes-vit")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser)
    train(parser.parse_args())
