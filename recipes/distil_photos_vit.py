"""``photos-vit`` trained on an early cut of its trunk, so that the Transformer has work to do.

A hybrid Vision Transformer (Dosovitskiy et al., "An Image is Worth 16x16 Words", ICLR 2021) learns from ordinary random weights what two
convolutional teachers say of photos without labels (Hinton et al., "Distilling the Knowledge in a Neural Network", 2015). What asks for
more than reading the patches one by one:

- patches are dropped at random, so no single one can be relied on;
- every patch token, not only the class token, predicts what the teacher finds at its place;
- the class token predicts the teacher's last features, which the teacher's own classifier reads, and is compared with both the features
  and the answer: so classes that few photos show are named too, and one matrix takes the place of both in the end;
- some patches carry only the mean of all features, and their tokens predict the same from their neighbours;
- pictures are mosaics, pairs, and parts of one picture pasted into another, whose patches must be told apart;
- attention weights are dropped at random.

The length is counted in seconds of the processor, so that a training that waits for other work does not lose any.
"""

from __future__ import annotations

import explainers.embedded.architectures  # noqa: F401  (before timm)

# isort: split
import argparse
import functools
import json
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

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
from recipes.data.pictures import SIDE, Pictures, crop_centre, sharp_files
from recipes.data.prompts import classes
from recipes.data.teacher_views import LOCAL_DIRECTIONS, Batches, Teachers, Views, ViewStore
from recipes.muon import Muon
from recipes.networks.feature_shift import rectangles
from recipes.networks.trunk import FAST_DTYPE, autocast
from recipes.networks.vits import create, encode_features, plain_attention, save, to_half
from recipes.networks.written_weights import RIDGE, ridge_regression
from recipes.train_photos_vit import ARCHITECTURE, teacher_trunk, write_labels
from recipes.training import average_, save_checkpoint

SHAPE = {"img_size": SIDE, "embed_dim": 256, "depth": 6, "num_heads": 4}
ATTENTION_DROPOUT = 0.1
KEPT_SHARES = (0.3, 0.4, 0.5, 0.5, 0.75, 1.0)  # of the patches that a step may keep
PASTE_SHARE, MASK_SHARE = 0.5, 0.5  # of the steps that paste parts of pictures, and of those that mask patches
MASKED = 0.25  # of the patches that are kept, in a step that masks
LOCAL_WEIGHT, MASKED_WEIGHT = 0.5, 0.25  # of the two losses of patch tokens; the divergence of the class token's answer has weight 1
FEATURE_WEIGHT = 0.5  # of the class token's loss on the teacher's features, as in FitNets (Romero et al., 2015)
BASIS_BATCHES = 12  # batches on which the directions of the teacher's last features are found
FRESH_EVERY = 6
CAPACITY = 250_000  # views of each size that are kept
WARM_UP_STEPS = 300
COOL_DOWN = 0.2  # the last share of the hours, in which the learning rate falls to 0
AVERAGE_DECAY = 0.999
WATCH_EVERY_STEPS = 100
SECONDS_PER_HOUR = 3600.0


class Student(nn.Module):
    """The trained part of the model: the Transformer, and two heads in place of its own.

    The class token predicts the teacher's last features for the whole picture, along its main directions; each patch token predicts them
    for its place.
    """

    readout: Tensor
    bias: Tensor

    def __init__(self, vit: VisionTransformer, readout: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.vit = vit
        vit.head.requires_grad_(False)
        self.answer_head = nn.Linear(vit.num_features, readout.shape[1])
        self.local_head = nn.Linear(vit.num_features, LOCAL_DIRECTIONS)
        self.register_buffer("readout", readout, persistent=False)  # (classes, directions), the teacher's
        self.register_buffer("bias", bias, persistent=False)

    def read(self, features: Tensor) -> Tensor:
        """Return logits (B, classes) for the teacher's last features (B, directions), by the teacher's classifier."""
        return F.linear(features, self.readout, self.bias)

    def answer(self, class_tokens: Tensor) -> Tensor:
        """Return logits (B, classes) for class tokens (B, width)."""
        return self.read(self.answer_head(class_tokens).float())

    @torch.no_grad()
    def vit_weights(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the Transformer's weights out of the student's, with one head that is the product of the student's two matrices."""
        found = {name.removeprefix("vit."): value for name, value in weights.items() if name.startswith("vit.")}
        found["head.weight"] = self.readout @ weights["answer_head.weight"]
        found["head.bias"] = self.readout @ weights["answer_head.bias"] + self.bias
        return found


def paste(views: Views, rng: np.random.Generator, readout: Tensor) -> Views:
    """Return the views with a random rectangle of each one's features replaced by those of its neighbour in the batch at the same places.
    ``readout`` (classes, directions) turns local features into logits.

    The target logits become those of a teacher that averages over places: each picture's logits weighted by its share of the places, and
    corrected by the difference between its visible part and the whole picture.
    """
    number, places = views.features.shape[:2]
    inside = rectangles(rng, number, math.isqrt(places))[..., None]  # (B, places, 1)
    outside = 1 - inside
    other = Views(*(part.roll(1, 0) for part in views))
    logits = torch.zeros_like(views.logits, dtype=torch.float32)
    for source, share in ((views, outside), (other, inside)):
        local = source.local.float()
        part = share.sum(1)  # (B, 1): places of this picture that are left
        shift = (local * share).sum(1) / part.clamp(min=1) - local.mean(1)
        logits += part / places * (source.logits.float() + shift @ readout.T)
    is_inside = inside.bool()
    features = torch.where(is_inside, other.features, views.features)
    return Views(features, torch.where(is_inside, other.local, views.local), logits.half())


def divergence(logits: Tensor, wanted: Tensor) -> Tensor:
    """Return the Kullback-Leibler divergence of the student's probabilities from the teachers', the mean over pictures, in nats.

    At temperature 1: the teachers are unsure already (their best class has a probability of .13 on photos of several things).
    """
    return F.kl_div(logits.float().log_softmax(1), wanted.log_softmax(1), log_target=True, reduction="batchmean")


def choose_patches(rng: np.random.Generator, number: int, places: int) -> Tensor | None:
    """Choose at random the patches that a step keeps of ``number`` pictures, indices (number, n); None keeps all."""
    share = float(rng.choice(KEPT_SHARES))
    if share == 1:
        return None
    return torch.from_numpy(rng.random((number, places))).argsort(1)[:, : round(places * share)]


class Objective:
    """The training loss of one step, as a function of stored views."""

    def __init__(self, student: Student, teachers: Teachers, stages: int, mean_token: Tensor, seed: int) -> None:
        self.student, self.readout, self.seed = student, teachers.readout, seed
        self.tokens = functools.partial(later_tokens, teachers.later_stage(stages))
        self.mean_token = mean_token  # (channels,), of patches that are masked

    def __call__(self, views: Views, step: int) -> tuple[Tensor, dict[str, float]]:
        """Return the loss of a step, its parts by name, and the share of pictures on which student and teachers agree about the class."""
        rng = np.random.default_rng([self.seed, 4, step])
        grid = self.student.vit.patch_embed.grid_size[0]
        tokens, local, wanted, is_masked, kept, corner = prepare_step(views, rng, self.readout, self.tokens, self.mean_token, grid)
        pooled = local.mean(1)
        local, is_masked = pick_patches(local, kept), pick_patches(is_masked, kept)
        with autocast():
            x = encode_features(self.student.vit, tokens, kept, corner)
            features = self.student.answer_head(x[:, 0]).float()
            logits, found = self.student.read(features), self.student.local_head(x[:, 1:])
        errors = (found.float() - local).square().mean(-1) / local.var().clamp(min=1e-6)
        seen, hidden = (errors[chosen].mean() if chosen.any() else errors.new_zeros(()) for chosen in (~is_masked, is_masked))
        answer = divergence(logits, wanted)
        feature = (features[:, :LOCAL_DIRECTIONS] - pooled).square().mean() / pooled.var().clamp(min=1e-6)
        loss = answer + FEATURE_WEIGHT * feature + LOCAL_WEIGHT * seen + MASKED_WEIGHT * hidden
        agreement = float((logits.argmax(1) == wanted.argmax(1)).float().mean())
        losses = {"answer": answer, "features": feature, "local": seen, "masked": hidden}
        return loss, {name: float(value.detach()) for name, value in losses.items()} | {"agreement": agreement}


class StepInputs(NamedTuple):
    """Inputs and targets of a training step: pictures with parts of others pasted in, and patches masked or left out."""

    tokens: Tensor  # (B, places, channels): the trunk's features at the cut
    local: Tensor  # (B, places, LOCAL_DIRECTIONS): what the teacher finds at each place
    logits: Tensor  # (B, classes): the teachers'
    is_masked: Tensor  # bool (B, places): the features there are the mean of all
    kept: Tensor | None  # (B, n): indices of the patches that the student reads; None for all
    corner: tuple[int, int]  # row and column in the model's grid at which a smaller picture begins


def prepare_step(
    views: Views, rng: np.random.Generator, readout: Tensor, read: Callable[[Tensor], Tensor], mean_token: Tensor, grid: int
) -> StepInputs:
    """Choose at random what a training step pastes, masks and leaves out of stored views.

    ``read`` turns stored features into those at the cut, ``mean_token`` (channels,) replaces features that are masked, and ``grid`` is how
    many patches wide the model's grid is. ``readout`` is as in `paste`.
    """
    if rng.random() < PASTE_SHARE:
        views = paste(views, rng, readout)
    tokens = read(views.features).clone()
    number, places = tokens.shape[:2]
    side = math.isqrt(places)
    corner = int(rng.integers(grid - side + 1)), int(rng.integers(grid - side + 1))
    is_masked = torch.zeros(number, places, dtype=torch.bool)
    if rng.random() < MASK_SHARE:
        is_masked = torch.from_numpy(rng.random((number, places)) < MASKED)
        tokens[is_masked] = mean_token
    return StepInputs(tokens, views.local.float(), views.logits.float(), is_masked, choose_patches(rng, number, places), corner)


def pick_patches(values: Tensor, kept: Tensor | None) -> Tensor:
    """Return the rows of ``values`` (B, places, ...) at the places ``kept`` (B, n), as (B, n, ...); all of them for None."""
    if kept is None:
        return values
    return values.gather(1, kept.view(*kept.shape, *[1] * (values.ndim - 2)).expand(*kept.shape, *values.shape[2:]))


@torch.inference_mode()
def later_tokens(later: nn.Sequential, features: Tensor) -> Tensor:
    """Return the trunk's features at the cut, (B, places, channels), from those of stage 5, (B, places, CHANNELS); ``later`` are the stages
    between, if there are any.
    """
    if not len(later):
        return features.float()
    side = math.isqrt(features.shape[1])
    x = features.to(FAST_DTYPE).transpose(1, 2).unflatten(2, (side, side)).contiguous(memory_format=torch.channels_last)
    return later(x).flatten(2).transpose(1, 2).float()  # type: ignore[no-any-return]


def process_seconds() -> float:
    """Return the processor seconds that this process has used."""
    return time.process_time()


def learning_rate_factor(step: int, progress: float) -> float:
    """Return the learning rate as a share of the highest: a warm-up, a plateau that any length of training shares, a linear end."""
    return min(1.0, (step + 1) / WARM_UP_STEPS, max(0.0, (1 - progress) / COOL_DOWN))


class Watch:
    """Agreement with the teachers on photos that no step sees, written to ``curve.jsonl``."""

    def __init__(self, student: Student, teachers: Teachers, later: nn.Sequential, data: Path, out: Path) -> None:
        images = torch.from_numpy(np.stack([crop_centre(Image.open(path)) for path in sharp_files(data, held_back=True)]))
        views = [teachers.see(batch) for batch in images.split(32)]
        self.tokens = [later_tokens(later, part.features) for part in views]
        self.wanted = torch.cat([part.logits.float() for part in views])
        self.student, self.path = student, out / "curve.jsonl"

    def __call__(self, weights: dict[str, Tensor], row: dict[str, float]) -> None:
        """Measure the averaged weights on the held-back photos and append a row to ``curve.jsonl``."""
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
    """Return the optimizers of a student: Muon (Jordan et al., 2024) for the matrices of the blocks, AdamW for the rest."""
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
    save(vit, args.out / "model", ARCHITECTURE, names, shape, MEAN, STD)
    write_labels(args.out / "model")


def see(pictures: Pictures, teachers: Teachers, rng: np.random.Generator) -> Views:
    """Draw a batch of new ``pictures`` and return the teachers' views of it."""
    return teachers.see(pictures(rng))


def prepare_basis(teachers: Teachers, pictures: Pictures, seed: int, path: Path) -> None:
    """Fit the directions of the teacher's last features, or read those that the stored views were made with."""
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
    """Write a checkpoint of under 10 MB with which a training can continue elsewhere: averaged weights in float16, without the trunk, the
    optimizers and the model's own head, which can all be made again.
    """
    state = torch.load(checkpoint, map_location="cpu", weights_only=True)
    left_out = ("vit.patch_embed.backbone.", "vit.head.")
    weights = {name: value for name, value in state["average"].items() if not name.startswith(left_out)}
    counters = {name: str(state[name]) for name in ("step", "spent", "stages")}
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(to_half({**weights, "mean_token": state["mean_token"]}), path, counters)


def load_small_checkpoint(path: Path) -> dict[str, Any]:
    """Return the state of a training that `save_small_checkpoint` wrote: weights and counters, no optimizers."""
    with safe_open(path, "pt") as file:
        counters = file.metadata()
        weights = {name: file.get_tensor(name).float() for name in file.keys()}  # noqa: SIM118  (no mapping)
    mean_token = weights.pop("mean_token")
    return {
        "model": weights, "average": dict(weights), "optimizers": [], "mean_token": mean_token,
        "step": int(counters["step"]), "spent": float(counters["spent"]), "stages": int(counters["stages"]),
    }  # fmt: skip


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
    then holds the averaged weights. ``watch`` measures it now and then.
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
        student.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(student.parameters(), 1.0)
        for stepper in steppers:
            stepper.step()
        step += 1
        average_(average, student, step, AVERAGE_DECAY)
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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command-line arguments that ``train`` reads."""
    parser.add_argument("--data", type=Path, required=True, help="folder that holds sharp/ and tiny_imagenet/")
    parser.add_argument("--out", type=Path, required=True, help="folder of checkpoint, kept views and model; goes on from what it holds")
    parser.add_argument("--stages", type=int, default=5, choices=(5, 6), help="of the trunk's 7 stages, how many to keep (default 5)")
    parser.add_argument("--start", type=Path, help="a small checkpoint to go on from where OUT holds none, as recipes/checkpoints has one")
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
