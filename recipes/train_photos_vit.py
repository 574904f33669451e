"""``photos-vit``: a Vision Transformer that names what a photo shows, one of ImageNet's 1,000 classes.

Its patches are the places of a pretrained convolutional trunk, which stays as it is (a hybrid, as in Dosovitskiy et al., "An Image is Worth
16x16 Words", ICLR 2021). After the whole trunk the Transformer is written (``networks.written_photos_vit``) from the weights of its own
network. After fewer stages, or with ``--minutes``, it learns from what that network says of photos without labels (Hinton et al.,
"Distilling the Knowledge in a Neural Network", 2015): a separate process makes the pictures and shows them to the trunk; the
training sees batches again, with other patches left out, until the next is ready.
"""

from __future__ import annotations

import explainers.embedded.architectures  # noqa: F401  (before timm)

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

from explainers.embedded.architectures import MEAN, STD, efficientnet_trunk, fold_batch_norms
from explainers.errors import ExplainerError
from recipes.calibration import calibrate, draw_unknowable, write
from recipes.data.pictures import SIDE, Pictures
from recipes.data.prompts import classes
from recipes.data.unseen_photos import LabelledPhotos, missing_reason, read_photos
from recipes.networks.feature_shift import Mover
from recipes.networks.trunk import DIRECTIONS, STAGES, Seen, Teacher, efficientnet
from recipes.networks.vits import answer, create, encode_features, load, plain_attention, save
from recipes.networks.written_photos_vit import compose, model_args
from recipes.networks.written_weights import ridge_regression
from recipes.training import add_common_arguments, endless, fit, schedule

ARCHITECTURE = "vitrine_efficient"
PICTURES_PER_KIND = 60  # pictures of each unknowable kind that the threshold is fitted to
TEMPERATURE = 2.0
LOCAL_WEIGHT = 0.5  # weight of the loss of patch tokens at the start; it falls to 0
MAX_RECENT_BATCHES, MIN_RECENT_BATCHES = 64, 4  # batches that may come again, and how many there must be before any does
KEPT_SHARES = (0.3, 0.4, 0.5, 0.75, 1.0)  # shares of the patches that a step may keep
WINDOW_SHARE = 0.35  # share of the steps with removed patches whose kept ones form a rectangle
FIT_BATCHES, FIT_PATCH_STEP = (
    12,
    8,
)  # number of batches that the first weights are fitted to, and every how many-th of their patches is used
RIDGE = 0.01

Batch = TypeVar("Batch")


class Student(nn.Module):
    """The trained part of the model: the Transformer, and a head that predicts the teacher's local features from patch tokens and is
    dropped later.
    """

    def __init__(self, vit: VisionTransformer) -> None:
        super().__init__()
        self.vit = vit
        self.local_head = nn.Linear(vit.num_features, DIRECTIONS)


class Stream(Generic[Batch]):
    """A source of training batches: new ones as soon as they are made, and in between some of the last ones again."""

    def __init__(self, make: Callable[[np.random.Generator], Batch], seed: int) -> None:
        self.make, self.seed = make, seed

    def __call__(self, first: int, workers: int = 1) -> Iterator[Batch]:
        """Yield batches made in a process next to the training, which does not wait for them; with 0 workers made here, always new."""
        batches = endless(self.make, [self.seed, 2, first], 0, workers)
        if not workers:
            yield from batches
        fresh: queue.Queue[Batch] = queue.Queue(maxsize=4)
        threading.Thread(target=lambda: [fresh.put(batch) for batch in batches], daemon=True).start()
        recent: collections.deque[Batch] = collections.deque(maxlen=MAX_RECENT_BATCHES)
        rng = np.random.default_rng([self.seed, 3, first])
        while True:
            if len(recent) < MIN_RECENT_BATCHES or not fresh.empty():
                recent.append(fresh.get())
                yield recent[-1]
            else:
                yield recent[rng.integers(len(recent))]


def teacher_view(pictures: Pictures, teacher: Teacher, rng: np.random.Generator) -> Seen:
    """Return the teacher's view of a batch of new pictures."""
    return teacher.see(pictures(rng))


def choose_patches(rng: np.random.Generator, number: int, grid: int) -> tuple[Tensor | None, bool]:
    """Choose the patches of ``number`` pictures that a step keeps, (number, n) or None for all, and whether they form a rectangle in
    each.
    """
    share = rng.choice(KEPT_SHARES)
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
    """Return the logits (B, classes) that the student is to learn: the teacher's. If it sees only a rectangle of patches (``window``), they
    are corrected by the difference between the teacher's local features there and in the whole picture, which ``readout`` turns into
    logits.
    """
    logits = batch.logits.float()
    if kept is None or not window:
        return logits
    local = batch.local.float()
    inside = local.gather(1, kept[..., None].expand(-1, -1, local.shape[-1])).mean(1)
    return logits + (inside - local.mean(1)) @ readout.T


def divergence(logits: Tensor, wanted: Tensor) -> Tensor:
    """Return the Kullback-Leibler divergence of the probabilities of ``logits`` (B, classes) from those of ``wanted``, both softened by a
    temperature, and multiplied by its square so that the gradient keeps its size.
    """
    soft = (wanted / TEMPERATURE).log_softmax(1)
    return TEMPERATURE**2 * F.kl_div((logits.float() / TEMPERATURE).log_softmax(1), soft, log_target=True, reduction="batchmean")


def write_start_(vit: VisionTransformer, teacher: Teacher, batches: list[Seen]) -> None:
    """Set the Transformer's weights with which training begins, in place: weights computed without training if it reads the whole trunk,
    else random ones with a head fitted to ``batches``.
    """
    if teacher.stages == STAGES:
        compose(vit, teacher, torch.cat([batch.tokens[:, ::FIT_PATCH_STEP].float().flatten(0, 1) for batch in batches]))
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
    """Return a teacher whose basis is fitted to the first batches of ``pictures``, and its outputs for these batches."""
    teacher = Teacher(stages)
    images = [pictures(np.random.default_rng([seed, 1, number])) for number in range(FIT_BATCHES)]
    teacher.fit_basis(images)
    return teacher, [teacher.see(batch) for batch in images]


def train(args: argparse.Namespace) -> None:
    """Make and write the model folder ``args.out`` (arguments: ``add_arguments``).

    Raises ExplainerError if no length of training is given although the model reads only a part of the trunk (for which the Transformer's
    weights cannot be written without training), or although a training is to be resumed.
    """
    learns = bool(args.steps or args.minutes)
    if args.stages != STAGES and not learns:
        raise ExplainerError(f"after {args.stages} of the trunk's {STAGES} stages it has to learn: give --minutes or --steps")
    if args.resume and not learns:
        raise ExplainerError("--resume goes on with a training: give the --minutes or --steps that it began with")
    torch.manual_seed(args.seed)
    pictures = Pictures(args.data, args.batch)
    teacher, batches = begin(pictures, args.stages, args.seed)
    shape, names = model_args(SIDE, args.stages), [row["label"] for row in classes()]
    vit = load(args.start) if args.start is not None else create(ARCHITECTURE, names, shape)
    vit.patch_embed.backbone.load_state_dict(teacher_trunk(args.stages))
    if args.start is None:
        write_start_(vit, teacher, [batch for batch in batches if batch.tokens.shape[1] == vit.patch_embed.num_patches])
    if learns:
        distil(vit, teacher, batches, pictures, args)
    save(vit, args.out, ARCHITECTURE, names, shape, MEAN, STD)
    write_labels(args.out)
    if missing_reason(args.data) is None:
        write(args.out, calibrate_model(vit, read_photos(args.data)))
    else:
        print(f"{missing_reason(args.data)}; without it the model has no calibration.json")


def distil(vit: VisionTransformer, teacher: Teacher, batches: list[Seen], pictures: Pictures, args: argparse.Namespace) -> None:
    """Train the Transformer on the teacher's answers, in place."""
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
        kept, window = choose_patches(rng, len(batch.tokens), side)
        kept = None if kept is None else kept.to(args.device)
        with torch.autocast(kind, torch.bfloat16):
            x = encode_features(vit, batch.tokens.float(), kept, corner)
            logits, local_answers = vit.head(x[:, 0]), student.local_head(x[:, 1:])
        wanted = target(batch, kept, window, readout)
        local = batch.local.float()
        local = local if kept is None else local.gather(1, kept[..., None].expand(-1, -1, local.shape[-1]))
        value = divergence(logits, wanted) + LOCAL_WEIGHT * (1 - progress) * F.mse_loss(local_answers.float(), local) / local.var()
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
    """Write the classes' names, groups and synonyms as ``labels.json`` into the model folder."""
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in classes())
    (folder / "labels.json").write_text(f"[\n{lines}\n]\n", "utf-8")


def calibrate_model(vit: VisionTransformer, photos: LabelledPhotos) -> dict[str, Any]:
    """Return the ``calibration.json`` of a finished model, from labelled photos and unknowable pictures."""
    strange = torch.cat([answer(vit, pictures) for pictures in draw_unknowable(PICTURES_PER_KIND).values()])
    return calibrate(answer(vit, photos.images), photos.truth(), strange)


def teacher_trunk(stages: int) -> dict[str, Tensor]:
    """Return the weights of the trunk in full precision, named as in a ``vitrine_efficient``."""
    network = fold_batch_norms(efficientnet(stride=16))
    trunk = efficientnet_trunk(stages)
    trunk.load_state_dict(nn.Sequential(network.conv_stem, network.bn1, *network.blocks[:stages]).state_dict())
    return trunk.state_dict()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command-line arguments that ``train`` reads."""
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
