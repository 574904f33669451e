"""The image side of ``clip``: its tower with a projection, the pictures of a step, and how far what it says is from what is true of them.

Patches are asked too what they show, and where a step keeps one rectangle of patches, only what lies in it is true: a prompt is to find its
own object.
"""

from __future__ import annotations

import embedded.architectures  # noqa: F401  (before timm)

# isort: split
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from embedded.recipes.clip_texts import SHARED, Texts
from embedded.recipes.data.clip import Drawn, Part
from embedded.recipes.data.prompts import choose_names, classes, shared_out
from embedded.recipes.data.scenes import KINDS
from embedded.recipes.networks.feature_shift import Mover
from embedded.recipes.networks.trunk import Seen, Teacher
from embedded.recipes.networks.vits import encode_features
from embedded.recipes.networks.written_clip import read
from embedded.recipes.train_photos_vit import TEMPERATURE, choose, divergence, target

SMOOTHING = 0.1
PULL = 2.0  # weight of the cosine between a picture and what is true of it
PHOTOS, SCENES = 32, 16  # of a step
MOST = 98  # patches that a step keeps, but of a rectangle
PLACES = 10  # patches of each picture that are asked what they show
PHOTO_PATCHES, SCENE_PATCHES = 0.5, 1.0  # weights of what they say
HERE = 0.4  # share of an object's patches among those kept for it to count as there
GREATEST = math.log(100)  # of the scale


class ImageSide(nn.Module):
    """The image tower, its projection, which leaves out what is no name, and the scale of the logits."""

    def __init__(self, vit: VisionTransformer) -> None:
        super().__init__()
        self.vit = vit
        self.projection = nn.Linear(vit.num_features, SHARED, bias=False).requires_grad_(False)
        self.projection.weight.data.copy_(torch.eye(SHARED, vit.num_features))
        self.scale = nn.Parameter(torch.tensor(math.log(30)))

    def forward(self, features: Tensor) -> Tensor:
        """Embeddings (B, SHARED), length 1, of features of the trunk."""
        return F.normalize(self.projection(encode_features(self.vit, features)[:, 0]), dim=-1)

    def temperature(self) -> Tensor:
        """What cosines are multiplied with."""
        return self.scale.clamp(max=GREATEST).exp()


def pick(bank: Tensor, rng: np.random.Generator) -> Tensor:
    """One wording of every prompt of a bank (prompts, wordings, SHARED), (prompts, SHARED)."""
    return bank[torch.arange(len(bank)), torch.from_numpy(rng.integers(bank.shape[1], size=len(bank)))]


def merged(logits: Tensor, chosen: Tensor) -> Tensor:
    """(B, words): what the teacher's logits (B, classes) say of words, where several classes may go by one; ``chosen`` (classes,)."""
    soft = (logits / TEMPERATURE).softmax(1)
    sums = torch.zeros(len(logits), int(chosen.max()) + 1, device=logits.device).index_add_(1, chosen, soft)
    return TEMPERATURE * sums.clamp(min=1e-9).log()


def shares_of_kept(kinds: Tensor, patches: Tensor, kept: Tensor) -> Tensor:
    """Shares (B, kinds) of scenes of which only the patches ``kept`` (B, n) are seen: those of an object that is gone are left out.

    ``patches`` (B, N) says what each shows.
    """
    every = F.one_hot(patches, len(KINDS) + 1)[..., :-1].sum(1)
    kept_counts = F.one_hot(patches.gather(1, kept), len(KINDS) + 1)[..., :-1].sum(1)
    is_left = kept_counts >= HERE * every.clamp(min=1)
    return torch.stack([shared_out(row) for row in (kinds > 0) & is_left])


def soft_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Smoothed cross-entropy with targets (B, K) whose rows may sum to less than 1: what is missing of a row counts for nothing."""
    total = targets.sum(1, keepdim=True)
    smooth = targets * (1 - SMOOTHING) + total * SMOOTHING / targets.shape[1]
    return -(smooth * logits.float().log_softmax(1)).sum() / total.sum().clamp(min=1)


class Step(NamedTuple):
    """What a step sees: features of photos, then of scenes, the patches that are kept, and of these the places that patch losses are of."""

    photos: Seen
    scenes: Drawn
    kept: Tensor  # (photos + scenes, n)
    loss_places: Tensor  # (photos + scenes, PLACES), places in ``kept``
    window: bool  # whether those kept form a rectangle


def steps(feature_parts: Sequence[Part], move: Mover, seed: int, first: int, counts: tuple[int, int] | None = None) -> Iterator[Step]:
    """Endless steps: some photos, with features moved towards classes that few photos show, and some scenes; how many are ``counts``."""
    photo_count, scene_count = counts or (PHOTOS, SCENES)
    every_photo, every_scene = ([batch for part in feature_parts for batch in part[side]] for side in range(2))
    for number in range(first, 10**9):
        rng = np.random.default_rng([seed, 6, number])
        photo_batch, drawn = every_photo[rng.integers(len(every_photo))], every_scene[rng.integers(len(every_scene))]
        rows = torch.from_numpy(rng.permutation(len(photo_batch.tokens))[:photo_count])
        scene_rows = torch.from_numpy(rng.permutation(len(drawn.kinds))[:scene_count])
        photos = move(Seen(*(part[rows] for part in photo_batch)), rng)
        scenes = Drawn(Seen(*(part[scene_rows] for part in drawn.seen)), drawn.kinds[scene_rows], drawn.patches[scene_rows])
        pictures, places = len(rows) + len(scene_rows), photo_batch.tokens.shape[1]
        kept, window = choose(rng, pictures, math.isqrt(places))
        if kept is None:
            kept = torch.from_numpy(rng.random((pictures, places))).argsort(1)
        kept = kept if window else kept[:, :MOST]
        yield Step(photos, scenes, kept, torch.from_numpy(rng.integers(kept.shape[1], size=(pictures, PLACES))), window)


class Losses:
    """How far pictures and their patches are from the prompts that are true of them."""

    def __init__(self, side: ImageSide, texts: Texts, teacher: Teacher, scenes_weight: float = 1.0) -> None:
        self.side, self.texts, self.scenes_weight = side, texts, scenes_weight
        self.readout, self.bias = teacher.readout, teacher.bias
        self.names = texts.names()[: len(classes())]

    def photos(self, embeddings: Tensor, wanted: Tensor, rng: np.random.Generator) -> tuple[Tensor, float]:
        """Of photos that the teacher answers ``wanted`` (B, classes) to; and how often the same word is likeliest."""
        places, chosen = np.unique(choose_names(rng), return_inverse=True)
        logits = self.side.temperature() * embeddings @ pick(self.texts.photos[torch.from_numpy(places)], rng).T
        truth = merged(wanted, torch.from_numpy(chosen))
        near = F.cosine_similarity(embeddings, wanted.softmax(1) @ self.names).mean()
        return divergence(logits, truth) + PULL * (1 - near), float((logits.argmax(1) == truth.argmax(1)).float().mean())

    def photo_patches(self, patches: Tensor, local: Tensor) -> Tensor:
        """Of patches (B, n, SHARED) where the teacher finds ``local`` (B, n, DIRECTIONS)."""
        logits, wanted = self.side.temperature() * patches @ self.names.T, F.linear(local, self.readout, self.bias)
        return divergence(logits.flatten(0, 1), wanted.flatten(0, 1))

    def scenes(self, embeddings: Tensor, kinds: Tensor, rng: np.random.Generator) -> Tensor:
        """Of scenes that show ``kinds`` (B, kinds)."""
        return soft_loss(self.side.temperature() * embeddings @ pick(self.texts.kinds, rng).T, kinds)

    def scene_patches(self, patches: Tensor, shown: Tensor, rng: np.random.Generator) -> Tensor:
        """Of patches (B, n, SHARED) that show the kinds ``shown`` (B, n); of those of the background nothing is asked."""
        logits, of_object = self.side.temperature() * patches @ pick(self.texts.kinds, rng).T, shown < len(KINDS)
        return F.cross_entropy(logits[of_object], shown[of_object]) if of_object.any() else logits.sum() * 0

    def __call__(self, step: Step, rng: np.random.Generator) -> tuple[Tensor, float]:
        """Of a whole step; and how often the likeliest word of a photo is the teacher's."""
        number = len(step.photos.tokens)
        tokens = torch.cat([step.photos.tokens, step.scenes.seen.tokens]).float()
        with torch.autocast("cpu", torch.bfloat16):
            token, patches = read(self.side.vit, tokens, step.kept)
        embeddings = F.normalize(token[:, :SHARED].float(), dim=-1)
        patch_embeddings = F.normalize(patches.gather(1, step.loss_places[..., None].expand(-1, -1, SHARED)).float(), dim=-1)
        places = step.kept.gather(1, step.loss_places)
        local = step.photos.local.float().gather(1, places[:number, :, None].expand(-1, -1, step.photos.local.shape[-1]))
        value, right = self.photos(embeddings[:number], target(step.photos, step.kept[:number], step.window, self.readout), rng)
        value = value + PHOTO_PATCHES * self.photo_patches(patch_embeddings[:number], local)
        kind_shares = shares_of_kept(step.scenes.kinds, step.scenes.patches, step.kept[number:])
        value = value + self.scenes_weight * self.scenes(embeddings[number:], kind_shares, rng)
        shown = step.scenes.patches.gather(1, places[number:])
        return value + SCENE_PATCHES * self.scene_patches(patch_embeddings[number:], shown, rng), right
