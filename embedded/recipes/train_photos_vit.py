"""``photos-vit``: a Vision Transformer that names what a photo shows, one of ImageNet's 1,000 classes.

Its patches are the places of a pretrained convolutional trunk, which stays as it is (a hybrid, as in Dosovitskiy et al., "An Image is Worth
16x16 Words", ICLR 2021). Behind the whole trunk the Transformer is written (``networks.written_photos_vit``) from the weights of its own
network. Behind fewer stages, or with ``--minutes``, it learns from what that network says of photos without labels (Hinton et al.,
"Distilling the Knowledge in a Neural Network", 2015): a process beside the training makes the pictures and shows them to the trunk; the
training sees batches again, with other patches left out, until the next is ready.
"""

from __future__ import annotations

import embedded.architectures  # noqa: F401  (before timm)

# isort: split
import argparse
import collections
import functools
import json
import math
import queue
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from embedded.architectures import MEAN, STD, efficientnet_trunk, folded
from embedded.recipes.calibration import calibrate, unknowable, write
from embedded.recipes.data.pictures import SIDE, Pictures
from embedded.recipes.data.prompts import classes
from embedded.recipes.data.unseen_photos import Labelled, missing, single
from embedded.recipes.networks.feature_shift import Mover
from embedded.recipes.networks.trunk import DIRECTIONS, STAGES, Seen, Teacher, efficientnet
from embedded.recipes.networks.vits import answered, create, encode_features, load, plain_attention, save
from embedded.recipes.networks.written_photos_vit import compose, model_args
from embedded.recipes.networks.written_weights import ridge_regression
from embedded.recipes.training import add_common_arguments, endless, fit, schedule
from explainers.errors import ExplainerError

ARCHITECTURE = "vitrine_efficient"
UNKNOWN = 60  # pictures of each unknowable kind that the line is chosen with
TEMPERATURE = 2.0
LOCAL = 0.5  # weight of what is asked of every token at first; nothing at the end
RECENT, FEW = 64, 4  # batches that may come again, and how many there must be before any does
SHARES = (0.3, 0.4, 0.5, 0.75, 1.0)  # of the patches that a step may keep
WINDOW_SHARE = 0.35  # of the steps that leave out patches: those kept are one rectangle
FITTED, EVERY = 12, 8  # batches that the start is fitted to; one of so many of their patches
RIDGE = 0.01

Batch = TypeVar("Batch")


class Student(nn.Module):
    """What is trained: the Transformer, and a head that asks its tokens for the teacher's local features and is thrown away."""

    def __init__(self, vit: VisionTransformer) -> None:
        super().__init__()
        self.vit = vit
        self.local_head = nn.Linear(vit.num_features, DIRECTIONS)


class Stream(Generic[Batch]):
    """Batches of what the teacher sees: fresh ones as soon as they are made, in between some of the last again."""

    def __init__(self, make: Callable[[np.random.Generator], Batch], seed: int) -> None:
        self.make, self.seed = make, seed

    def __call__(self, first: int, workers: int = 1) -> Iterator[Batch]:
        """Batches made in a process beside the training, which does not wait for them; in this one, always fresh, with 0 workers."""
        batches = endless(self.make, [self.seed, 2, first], 0, workers)
        if not workers:
            yield from batches
        fresh: queue.Queue[Batch] = queue.Queue(maxsize=4)
        threading.Thread(target=lambda: [fresh.put(batch) for batch in batches], daemon=True).start()
        recent: collections.deque[Batch] = collections.deque(maxlen=RECENT)
        rng = np.random.default_rng([self.seed, 3, first])
        while True:
            if len(recent) < FEW or not fresh.empty():
                recent.append(fresh.get())
                yield recent[-1]
            else:
                yield recent[rng.integers(len(recent))]


def teacher_view(pictures: Pictures, teacher: Teacher, rng: np.random.Generator) -> Seen:
    """What the teacher makes of a batch of pictures."""
    return teacher.see(pictures(rng))


def choose(rng: np.random.Generator, number: int, grid: int) -> tuple[Tensor | None, bool]:
    """Which patches of ``number`` pictures a step keeps, (number, n) or None for all, and whether they form a rectangle in each."""
    share = rng.choice(SHARES)
    if share == 1:
        return None, False
    if rng.random() >= WINDOW_SHARE:
        return torch.from_numpy(rng.random((number, grid**2))).argsort(1)[:, : round(grid**2 * share)], False
    tall = int(rng.integers(math.ceil(grid * share), grid + 1))
    wide = min(grid, max(1, round(grid**2 * share / tall)))
    top, left = (torch.from_numpy(rng.integers(0, grid - size + 1, (number, 1, 1))) for size in (tall, wide))
    places = (top + torch.arange(tall)[:, None]) * grid + left + torch.arange(wide)
    return places.flatten(1), True


def target(batch: Seen, kept: Tensor | None, window: bool, readout: Tensor) -> Tensor:
    """What the logits should be: the teacher's; where only a window is seen, moved by what lies in it more or less than elsewhere."""
    logits = batch.logits.float()
    if kept is None or not window:
        return logits
    local = batch.local.float()
    inside = local.gather(1, kept[..., None].expand(-1, -1, local.shape[-1])).mean(1)
    return logits + (inside - local.mean(1)) @ readout.T


def divergence(logits: Tensor, wanted: Tensor) -> Tensor:
    """Kullback-Leibler divergence of the softened answers, scaled so that its gradient is that of unsoftened ones."""
    soft = (wanted / TEMPERATURE).log_softmax(1)
    return TEMPERATURE**2 * F.kl_div((logits.float() / TEMPERATURE).log_softmax(1), soft, log_target=True, reduction="batchmean")


def start(vit: VisionTransformer, teacher: Teacher, batches: list[Seen]) -> None:
    """Give the Transformer weights to begin with, in place: behind the whole trunk written ones, else a head fitted to ``batches``."""
    if teacher.stages == STAGES:
        compose(vit, teacher, torch.cat([batch.tokens[:, ::EVERY].float().flatten(0, 1) for batch in batches]))
    else:
        fit_head(vit, batches)


@torch.no_grad()
def fit_head(vit: VisionTransformer, batches: list[Seen]) -> None:
    """Set the head by ridge regression from the class token to the teacher's logits, in place."""
    x = torch.cat([encode_features(vit, batch.tokens.float())[:, 0] for batch in batches])
    y = torch.cat([batch.logits for batch in batches]).double()
    weight, bias = ridge_regression(x, y - y.mean(1, keepdim=True), RIDGE)
    vit.head.weight.copy_(weight)
    vit.head.bias.copy_(bias)


def begin(pictures: Pictures, stages: int, seed: int) -> tuple[Teacher, list[Seen]]:
    """The teacher, its basis fitted, and what it sees in the first batches."""
    teacher = Teacher(stages)
    images = [pictures(np.random.default_rng([seed, 1, number])) for number in range(FITTED)]
    teacher.fit_basis(images)
    return teacher, [teacher.see(batch) for batch in images]


def train(args: argparse.Namespace) -> None:
    """Make and write the model folder ``args.out`` (arguments: ``add_arguments``).

    Raises ExplainerError where nothing would be learned behind a part of the trunk, whose Transformer is not written, and where no
    training is left to go on with.
    """
    learns = bool(args.steps or args.minutes)
    if args.stages != STAGES and not learns:
        raise ExplainerError(f"behind {args.stages} of the trunk's {STAGES} stages it has to learn: give --minutes or --steps")
    if args.resume and not learns:
        raise ExplainerError("--resume goes on with a training: give the --minutes or --steps that it began with")
    torch.manual_seed(args.seed)
    pictures = Pictures(args.data, args.batch)
    teacher, batches = begin(pictures, args.stages, args.seed)
    shape, names = model_args(SIDE, args.stages), [row["label"] for row in classes()]
    vit = load(args.start) if args.start is not None else create(ARCHITECTURE, names, shape)
    vit.patch_embed.backbone.load_state_dict(teacher_trunk(args.stages))
    if args.start is None:
        start(vit, teacher, [batch for batch in batches if batch.tokens.shape[1] == vit.patch_embed.num_patches])
    if learns:
        distil(vit, teacher, batches, pictures, args)
    save(vit, args.out, ARCHITECTURE, names, shape, MEAN, STD)
    write_labels(args.out)
    if missing(args.data) is None:
        write(args.out, calibrated(vit, single(args.data)))
    else:
        print(f"{missing(args.data)}; without it the model has no calibration.json")


def distil(vit: VisionTransformer, teacher: Teacher, batches: list[Seen], pictures: Pictures, args: argparse.Namespace) -> None:
    """Let the Transformer learn the teacher's answers, in place."""
    plain_attention(vit, args.device)
    move = Mover(teacher, batches) if args.stages == STAGES else None
    student = Student(vit)
    vit.patch_embed.backbone.requires_grad_(False)
    student.to(args.device)
    grid, kind = vit.patch_embed.grid_size[0], args.device.split(":")[0]
    readout = teacher.readout.to(args.device)

    def loss(batch: Seen, progress: float, step: int) -> tuple[Tensor, float]:
        rng = np.random.default_rng([args.seed, 4, step])
        batch = Seen(*(part.to(args.device) for part in (move(batch, rng) if move else batch)))
        side = math.isqrt(batch.tokens.shape[1])
        corner = int(rng.integers(grid - side + 1)), int(rng.integers(grid - side + 1))
        kept, window = choose(rng, len(batch.tokens), side)
        kept = None if kept is None else kept.to(args.device)
        with torch.autocast(kind, torch.bfloat16):
            x = encode_features(vit, batch.tokens.float(), kept, corner)
            logits, local_answers = vit.head(x[:, 0]), student.local_head(x[:, 1:])
        wanted = target(batch, kept, window, readout)
        local = batch.local.float()
        local = local if kept is None else local.gather(1, kept[..., None].expand(-1, -1, local.shape[-1]))
        value = divergence(logits, wanted) + LOCAL * (1 - progress) * F.mse_loss(local_answers.float(), local) / local.var()
        return value, float((logits.argmax(1) == wanted.argmax(1)).float().mean())

    fit(
        student,
        Stream(functools.partial(teacher_view, pictures, teacher), args.seed),
        loss,
        **schedule(args),
        rate=args.rate,
        decay=0.995,
        muon=lambda n: ".blocks." in n,
    )


def write_labels(folder: Path) -> None:
    """Put the classes' names, groups and synonyms beside the weights."""
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in classes())
    (folder / "labels.json").write_text(f"[\n{lines}\n]\n", "utf-8")


def calibrated(vit: VisionTransformer, photos: Labelled) -> dict[str, Any]:
    """The calibration of a finished model on labelled photos."""
    strange = torch.cat([answered(vit, pictures) for pictures in unknowable(UNKNOWN).values()])
    return calibrate(answered(vit, photos.images), photos.truth(), strange)


def teacher_trunk(stages: int) -> dict[str, Tensor]:
    """The weights of the trunk in full precision, named as in a ``vitrine_efficient``."""
    network = folded(efficientnet(stride=16))
    trunk = efficientnet_trunk(stages)
    trunk.load_state_dict(nn.Sequential(network.conv_stem, network.bn1, *network.blocks[:stages]).state_dict())
    return trunk.state_dict()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What ``train`` reads from the command line."""
    add_common_arguments(parser, minutes=0)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds sharp/ and tiny_imagenet/")
    parser.add_argument("--rate", type=float, default=1e-3, help="highest learning rate")
    parser.add_argument("--batch", type=int, default=128, help="pictures a step (default 128)")
    parser.add_argument(
        "--stages", type=int, default=STAGES, choices=(5, 6, 7), help="of the trunk's 7 stages, how many to keep (default 7)"
    )
    parser.add_argument("--start", type=Path, help="folder of a photos-vit whose weights to go on from")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser)
    train(parser.parse_args())
