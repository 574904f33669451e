"""``photos-vit``: a Vision Transformer that names what a photo shows, one of ImageNet's 1,000 classes.

Its patches are the places of a pretrained convolutional trunk, cut off early and kept as it is (a hybrid, as in Dosovitskiy et al., "An
Image is Worth 16x16 Words", ICLR 2021). The Transformer learns from ordinary random weights what two convolutional teachers say of photos
without labels; ``photos_objective`` says what is asked of it. Pictures are whole photos, pairs and mosaics (``data.pictures``), and
attention weights are dropped at random, so that the Transformer has work to do.

The length is counted in seconds of the processor, so that a training that waits for other work does not lose any.
"""

from __future__ import annotations

import explainers.embedded.architectures  # noqa: F401  (before timm)

# isort: split
import argparse
import functools
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from safetensors import safe_open
from safetensors.torch import save_file
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from explainers.embedded.architectures import MEAN, STD
from explainers.errors import ExplainerError
from recipes.calibration import calibrate, draw_unknowable, write
from recipes.data.pictures import SIDE, Pictures, crop_centre, sharp_files
from recipes.data.prompts import classes
from recipes.data.teacher_views import Batches, Teachers, Views, ViewStore
from recipes.data.unseen_photos import LabelledPhotos, missing_reason, read_photos
from recipes.muon import Muon
from recipes.networks.trunk import autocast, teacher_trunk
from recipes.networks.vits import answer, create, encode_features, load, plain_attention, save, to_half
from recipes.photos_objective import Objective, Student, divergence, later_tokens
from recipes.training import save_checkpoint, take_step

ARCHITECTURE = "vitrine_efficient"
SHAPE = {"img_size": SIDE, "embed_dim": 256, "depth": 6, "num_heads": 4}
ATTENTION_DROPOUT = 0.1
BASIS_BATCHES = 12  # batches on which the directions of the teacher's last features are found
FRESH_EVERY = 3  # steps of which one makes new views; the others draw some that are kept
CAPACITY = 250_000  # views of each size that are kept
WARM_UP_STEPS = 300
COOL_DOWN = 0.2  # the last share of the hours, in which the learning rate falls to 0
AVERAGE_DECAY = 0.999
WATCH_EVERY_STEPS = 100
SECONDS_PER_HOUR = 3600.0
RIDGE = 1e-3  # of the fit of a projection to another stage's features, a share of their mean square
PICTURES_PER_KIND = 60  # pictures of each unknowable kind that the threshold is fitted to


def process_seconds() -> float:
    """Return the processor seconds that this process has used."""
    return time.process_time()


def learning_rate_factor(step: int, progress: float) -> float:
    """Return the learning rate at ``step``, with ``progress`` from 0 to 1, as a share of the highest: a warm-up, a plateau that any length
    of training shares, a linear end.
    """
    return min(1.0, (step + 1) / WARM_UP_STEPS, max(0.0, (1 - progress) / COOL_DOWN))


class Watch:
    """Agreement of ``student`` with the ``teachers`` on photos in the folder ``data`` that no step sees, written to ``curve.jsonl`` in
    ``out``.
    """

    def __init__(self, student: Student, teachers: Teachers, later: nn.Sequential, data: Path, out: Path) -> None:
        images = torch.from_numpy(np.stack([crop_centre(Image.open(path)) for path in sharp_files(data, held_back=True)]))
        views = [teachers.see(batch) for batch in images.split(32)]
        self.tokens = [later_tokens(later, part.features) for part in views]
        self.wanted = torch.cat([part.logits.float() for part in views])
        self.student, self.path = student, out / "curve.jsonl"

    def __call__(self, weights: dict[str, Tensor], row: dict[str, float]) -> None:
        """Measure the averaged ``weights`` on the held-back photos and append the agreement, with ``row``, to ``curve.jsonl``."""
        current = {name: value.clone() for name, value in self.student.state_dict().items()}
        self.student.load_state_dict(weights)
        self.student.eval()
        with torch.inference_mode(), autocast():
            encoded = [encode_features(self.student.vit, batch)[:, 0] for batch in self.tokens]
            logits = torch.cat([self.student.answer(batch) for batch in encoded]).float()
        self.student.load_state_dict(current)
        self.student.train()
        top5 = logits.topk(5, 1).indices
        best = self.wanted.argmax(1)
        row |= {
            "held_back_agreement": float((logits.argmax(1) == best).float().mean()),
            "held_back_agreement_top5": float((top5 == best[:, None]).any(1).float().mean()),
            "held_back_divergence": float(divergence(logits, self.wanted)),
        }
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({name: round(value, 4) for name, value in row.items()}) + "\n")


def optimizers(student: Student, rate: float) -> list[torch.optim.Optimizer]:
    """Return the optimizers of ``student`` with the learning rate ``rate``: Muon (Jordan et al., 2024) for the matrices of the blocks,
    AdamW for the rest.
    """
    named = [(name, value) for name, value in student.named_parameters() if value.requires_grad]
    matrices = [value for name, value in named if ".blocks." in name and value.ndim == 2]
    others = [value for name, value in named if not (".blocks." in name and value.ndim == 2)]
    groups = [{"params": [v for v in others if v.ndim > 1]}, {"params": [v for v in others if v.ndim <= 1], "weight_decay": 0.0}]
    return [
        Muon(matrices, lr=rate, weight_decay=0.05),
        torch.optim.AdamW(groups, lr=rate, weight_decay=0.05, fused=True),
    ]


def train(args: argparse.Namespace) -> None:
    """Train for ``args.hours`` hours of the processor in all, at most ``args.until`` of them now, and write the folder ``args.out``.

    If ``args.out`` holds a checkpoint, the training continues from it. Raises ExplainerError if that checkpoint is of another cut or
    length.
    """
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    args.out.mkdir(parents=True, exist_ok=True)
    pictures, teachers = Pictures(args.data, args.batch), Teachers()
    state = load_state(args)
    prepare_basis(teachers, pictures, args.seed, args.out / "basis.pt")
    shape = {**SHAPE, "trunk_stages": args.stages}
    names = [row["label"] for row in classes()]
    vit = create(ARCHITECTURE, names, {**shape, "attn_drop_rate": ATTENTION_DROPOUT})
    vit.patch_embed.backbone.load_state_dict(teacher_trunk(args.stages))
    vit.patch_embed.backbone.requires_grad_(False)
    plain_attention(vit, "cpu")
    student = Student(vit, teachers.lite0.readout, teachers.lite0.bias)
    later = teachers.later_stage(args.stages)
    batches = Batches(
        ViewStore(args.out / "views", CAPACITY), functools.partial(see, pictures, teachers), args.seed, args.batch, FRESH_EVERY
    )
    run(student, batches, teachers, Watch(student, teachers, later, args.data, args.out), args, state)
    save(vit, args.out, ARCHITECTURE, names, shape, MEAN, STD)
    write_labels(args.out)
    if missing_reason(args.data) is None:
        write(args.out, calibrate_model(load(args.out), read_photos(args.data)))
    else:
        print(f"{missing_reason(args.data)}; without it the model has no calibration.json")


def see(pictures: Pictures, teachers: Teachers, rng: np.random.Generator) -> Views:
    """Draw a batch of new ``pictures`` by ``rng`` and return what the ``teachers`` make of it."""
    return teachers.see(pictures(rng))


def prepare_basis(teachers: Teachers, pictures: Pictures, seed: int, path: Path) -> None:
    """Set the directions of the last features of ``teachers``, in place: fit them on ``pictures`` and write them to the file ``path``, or
    read from it those that the stored views were made with.
    """
    names = ("basis", "centre", "readout", "bias")
    if path.exists():
        for name, value in torch.load(path, weights_only=True).items():
            setattr(teachers.lite0, name, value)
        return
    teachers.lite0.fit_basis([pictures(np.random.default_rng([seed, 1, number])) for number in range(BASIS_BATCHES)])
    torch.save({name: getattr(teachers.lite0, name) for name in names}, path)


def load_state(args: argparse.Namespace) -> dict[str, Any] | None:
    """Return the checkpoint in ``args.out``, or the small one at ``args.start``; None if there is neither.

    Raises ExplainerError if the checkpoint in ``args.out`` is after another stage of the trunk. Of a small one after another stage only
    the weights are returned, for a new training.
    """
    path = args.out / "checkpoint.pt"
    if path.exists():
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    elif args.start is not None:
        return load_small_checkpoint(args.start)
    else:
        return None
    if state["stages"] != args.stages:
        raise ExplainerError(f"{path} is after stage {state['stages']}: give --stages {state['stages']}, or another --out")
    return state


def save_small_checkpoint(checkpoint: Path, path: Path) -> None:
    """Write to ``path`` what is needed of the file ``checkpoint`` to continue a training elsewhere, under 10 MB: averaged weights in
    float16, without the trunk, the optimizers and the model's own head, which can all be made again.
    """
    state = torch.load(checkpoint, map_location="cpu", weights_only=True)
    left_out = ("vit.patch_embed.backbone.", "vit.head.")
    weights = {name: value for name, value in state["average"].items() if not name.startswith(left_out)}
    counters = {name: str(state[name]) for name in ("step", "spent", "stages")}
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(to_half({**weights, "mean_token": state["mean_token"]}), path, counters)


def load_small_checkpoint(path: Path) -> dict[str, Any]:
    """Return the state of a training in the file ``path``, which `save_small_checkpoint` wrote: weights and counters, no optimizers."""
    with safe_open(path, "pt") as file:
        counters = file.metadata()
        weights = {name: file.get_tensor(name).float() for name in file.keys()}  # noqa: SIM118  (no mapping)
    mean_token = weights.pop("mean_token")
    return {
        "model": weights, "average": dict(weights), "optimizers": [], "mean_token": mean_token,
        "step": int(counters["step"]), "spent": float(counters["spent"]), "stages": int(counters["stages"]),
    }  # fmt: skip


def ridge_regression(x: Tensor, y: Tensor, ridge: float) -> tuple[Tensor, Tensor]:
    """Fit weight (M, N) and bias (M,), float64, that map x (B, N) to y (B, M); ``ridge`` is a share of the mean square of x."""
    x, y = x.double(), y.double()
    middle, level = x.mean(0), y.mean(0)
    squares = (x - middle).T @ (x - middle)
    squares += ridge * squares.diagonal().mean() * torch.eye(len(squares), dtype=torch.double)
    weight = torch.linalg.solve(squares, (x - middle).T @ (y - level)).T
    return weight, level - weight @ middle


@torch.no_grad()
def move_to_other_stage_(student: Student, state: Mapping[str, Any], old_tokens: Tensor, tokens: Tensor) -> None:
    """Give a student, in place, the averaged weights in ``state`` of another student, which reads the trunk's features after another stage.

    Its projection of patches is fitted: applied to the trunk's features after its own stage, ``tokens`` (B, places, channels), it is as
    near as possible to the other's projection of the features after the other stage, ``old_tokens`` (B, places, other channels).
    """
    weights = dict(state["average"])
    old = [weights.pop(f"vit.patch_embed.proj.{name}") for name in ("weight", "bias")]
    wanted = F.linear(old_tokens, old[0].flatten(1), old[1]).flatten(0, 1)
    weight, bias = ridge_regression(tokens.flatten(0, 1), wanted, RIDGE)
    student.load_state_dict(weights, strict=False)
    projection = student.vit.patch_embed.proj
    projection.weight.copy_(weight.view_as(projection.weight))
    projection.bias.copy_(bias)


def run(
    student: Student, batches: Batches, teachers: Teachers, watch: Watch, args: argparse.Namespace, state: dict[str, Any] | None
) -> None:
    """Train ``student`` on ``batches`` until the hours in ``args`` are spent, from the checkpoint ``state`` on (None: from the start); it
    then holds the averaged weights. ``watch`` measures it now and then. ``teachers`` give the features to learn.
    """
    steppers = optimizers(student, args.rate)
    average = {name: value.clone() for name, value in student.state_dict().items()}
    step, spent = 0, 0.0
    if state is None or state["stages"] != args.stages:
        features = batches(0).features
        tokens = later_tokens(teachers.later_stage(args.stages), features)
        mean_token = tokens.mean((0, 1)).clone()
        if state is not None:
            move_to_other_stage_(student, state, features.float(), tokens)
            average = {name: value.clone() for name, value in student.state_dict().items()}
    else:
        is_whole = bool(state["optimizers"])  # a small checkpoint holds neither these nor the trunk
        student.load_state_dict(state["model"], strict=is_whole)
        for stepper, saved in zip(steppers if is_whole else (), state["optimizers"], strict=True):
            stepper.load_state_dict(saved)
        average |= state["average"]
        step, spent, mean_token = state["step"], state["spent"], state["mean_token"]
    objective = Objective(student, teachers, args.stages, mean_token, args.seed)
    started, written = process_seconds() - spent, time.monotonic()
    length, until = args.hours * SECONDS_PER_HOUR, min(args.hours, args.until or args.hours) * SECONDS_PER_HOUR
    sums: dict[str, float] = {}
    next_hour = int(spent / SECONDS_PER_HOUR) + 1  # after which averaged weights are kept
    student.train()

    def checkpoint() -> None:
        save_checkpoint(
            {
                "model": student.state_dict(), "optimizers": [stepper.state_dict() for stepper in steppers], "average": average,
                "step": step, "spent": process_seconds() - started, "mean_token": mean_token, "stages": args.stages,
            },
            args.out / "checkpoint.pt",
        )  # fmt: skip

    while (now := process_seconds() - started) < until:
        for stepper in steppers:
            for group in stepper.param_groups:
                group["lr"] = args.rate * learning_rate_factor(step, now / length)
        loss, parts = objective(batches(step), step)
        step += 1
        take_step(student, loss, steppers, average, step, AVERAGE_DECAY)
        for name, value in parts.items():
            sums[name] = sums.get(name, 0.0) + value
        if step % WATCH_EVERY_STEPS == 0:
            hours = (process_seconds() - started) / SECONDS_PER_HOUR
            row = {"step": step, "hours": hours, **{name: value / WATCH_EVERY_STEPS for name, value in sums.items()}}
            row["views"] = float(sum(batches.store.counts.values()))
            watch(average, row)
            sums = {}
        if now >= next_hour * SECONDS_PER_HOUR:
            save_file(
                to_half(student.vit_weights(average)), args.out / f"average-after-{next_hour:02d}-hours.safetensors", {"format": "pt"}
            )
            next_hour += 1
        if time.monotonic() - written > 60 * args.checkpoint_minutes:
            checkpoint()
            written = time.monotonic()
    checkpoint()
    student.vit.load_state_dict(student.vit_weights(average))
    student.eval()


def write_labels(folder: Path) -> None:
    """Write the classes' names, groups and synonyms as ``labels.json`` into ``folder``, the model's."""
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in classes())
    (folder / "labels.json").write_text(f"[\n{lines}\n]\n", "utf-8")


def calibrate_model(vit: VisionTransformer, photos: LabelledPhotos) -> dict[str, Any]:
    """Return the ``calibration.json`` of ``vit``, a finished model, as JSON, from the labelled ``photos`` and unknowable pictures."""
    strange = torch.cat([answer(vit, pictures) for pictures in draw_unknowable(PICTURES_PER_KIND).values()])
    return calibrate(answer(vit, photos.images), photos.truth(), strange)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command-line arguments that ``train`` reads, on ``parser``."""
    parser.add_argument("--data", type=Path, required=True, help="folder that holds sharp/ and tiny_imagenet/")
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        help="folder of model, checkpoint and kept views; goes on from what it holds",
    )
    parser.add_argument("--stages", type=int, default=6, choices=(5, 6), help="of the trunk's 7 stages, how many to keep (default 6)")
    parser.add_argument("--start", type=Path, help="a small checkpoint to go on from where OUT holds none")
    parser.add_argument("--hours", type=float, default=14.0, help="hours of the processor in all, which set the learning rate (default 14)")
    parser.add_argument("--until", type=float, help="stop after so many of them, to go on later")
    parser.add_argument("--rate", type=float, default=1.5e-3, help="highest learning rate")
    parser.add_argument("--batch", type=int, default=128, help="pictures a step (default 128)")
    parser.add_argument("--checkpoint-minutes", type=float, default=5.0, help="minutes between checkpoints (default 5)")
    parser.add_argument("--seed", type=int, default=0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser)
    parser.add_argument("--write-small-checkpoint", type=Path, metavar="FILE", help="only write OUT's checkpoint to FILE, in under 10 MB")
    arguments = parser.parse_args()
    if arguments.write_small_checkpoint:
        save_small_checkpoint(arguments.out / "checkpoint.pt", arguments.write_small_checkpoint)
    else:
        train(arguments)
