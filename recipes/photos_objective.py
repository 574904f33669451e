"""What a training step of ``photos-vit`` asks of the Transformer: the answer, the teacher's features, what is at each place.

The class token predicts the teacher's last features, which the teacher's own classifier reads. It is compared with both the features and
the answer (Hinton et al., "Distilling the Knowledge in a Neural Network", 2015; Romero et al., "FitNets", 2015), so classes that few photos
show are named too; in the end one matrix takes the place of both. What asks for more than reading the patches one by one:

- patches are dropped at random, so no single one can be relied on;
- every patch token, not only the class token, predicts what the teacher finds at its place;
- some patches carry only the mean of all features, and their tokens predict the same from their neighbours;
- parts of one picture are pasted into another, and must be told apart.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from recipes.data.teacher_views import LOCAL_DIRECTIONS, Teachers, Views
from recipes.networks.trunk import FAST_DTYPE, autocast
from recipes.networks.vits import encode_features

KEPT_SHARES = (0.3, 0.4, 0.5, 0.5, 0.75, 1.0)  # of the patches that a step may keep
PASTE_SHARE, MASK_SHARE = 0.5, 0.5  # of the steps that paste parts of pictures, and of those that mask patches
MASKED = 0.25  # of the patches that are kept, in a step that masks
LOCAL_WEIGHT, MASKED_WEIGHT = 0.5, 0.25  # of the two losses of patch tokens; the divergence of the class token's answer has weight 1
FEATURE_WEIGHT = 0.5  # of the class token's loss on the teacher's features, as in FitNets (Romero et al., 2015)


class Student(nn.Module):
    """The trained part of the model: the Transformer ``vit``, and two heads in place of its own; ``readout`` and ``bias`` turn features
    into logits.

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


def rectangles(rng: np.random.Generator, number: int, grid: int) -> Tensor:
    """Draw random rectangles in square grids as masks (number, grid * grid): 1 inside, 0 outside, at least a third as wide and tall as the
    grid.
    """
    least = math.ceil(grid / 3)
    sizes = rng.integers(least, grid + 1, (2, number, 1))
    starts = (rng.random((2, number, 1)) * (grid - sizes + 1)).astype(int)
    places = np.arange(grid)
    tall, wide = ((places >= starts) & (places < starts + sizes)).astype(np.float32)
    return torch.from_numpy(tall[:, :, None] * wide[:, None, :]).flatten(1)


def paste(views: Views, rng: np.random.Generator, readout: Tensor) -> Views:
    """Return ``views`` with a random rectangle, drawn by ``rng``, of each one's features replaced by those of its neighbour in the batch at
    the same places. ``readout`` (classes, directions) turns local features into logits.

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
    """Return the Kullback-Leibler divergence of the student's probabilities (``logits``) from the teachers' (``wanted``, logits too), both
    (B, classes), the mean over pictures, in nats.

    The logits are not divided by a temperature, because the teachers are unsure already: their best class has a probability of .13 on
    photos of several things.
    """
    return F.kl_div(logits.float().log_softmax(1), wanted.log_softmax(1), log_target=True, reduction="batchmean")


def choose_patches(rng: np.random.Generator, number: int, places: int) -> Tensor | None:
    """Choose at random, by ``rng``, the patches, of ``places`` in each picture, that a step keeps of ``number`` pictures, indices (number,
    n); None keeps all.
    """
    share = float(rng.choice(KEPT_SHARES))
    if share == 1:
        return None
    return torch.from_numpy(rng.random((number, places))).argsort(1)[:, : round(places * share)]


class Objective:
    """The training loss of one step of ``student``, as a function of stored views by the ``teachers``, cut after ``stages`` stages of their
    trunk; ``mean_token`` replaces masked patches. ``seed`` draws what is pasted and masked.
    """

    def __init__(self, student: Student, teachers: Teachers, stages: int, mean_token: Tensor, seed: int) -> None:
        self.student, self.readout, self.seed = student, teachers.readout, seed
        self.tokens = functools.partial(later_tokens, teachers.later_stage(stages))
        self.mean_token = mean_token  # (channels,), of patches that are masked

    def __call__(self, views: Views, step: int) -> tuple[Tensor, dict[str, float]]:
        """Return the loss of step number ``step`` for the pictures ``views``, its parts by name, and the share of pictures on which student
        and teachers agree about the class.
        """
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
    """Inputs and targets of a training step: the trunk's features of pictures with parts of others pasted in (``tokens``), the teacher's
    features (``local``) and logits, and which patches are masked, which are kept, and where a smaller picture lies.
    """

    tokens: Tensor  # (B, places, channels): the trunk's features at the cut
    local: Tensor  # (B, places, LOCAL_DIRECTIONS): what the teacher finds at each place
    logits: Tensor  # (B, classes): the teachers'
    is_masked: Tensor  # bool (B, places): the features there are the mean of all
    kept: Tensor | None  # (B, n): indices of the patches that the student reads; None for all
    corner: tuple[int, int]  # row and column in the model's grid at which a smaller picture begins


def prepare_step(
    views: Views, rng: np.random.Generator, readout: Tensor, read: Callable[[Tensor], Tensor], mean_token: Tensor, grid: int
) -> StepInputs:
    """Choose at random, by ``rng``, what a training step pastes, masks and leaves out of ``views``, stored ones, and return its inputs and
    targets.

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
    """Return the entries of ``values`` (B, places, ...) at the places ``kept`` (B, n), as (B, n, ...); if ``kept`` is None, all of them."""
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
