"""The image side of ``clip``: its tower with a projection, the pictures of a step, and how far what it says is from what is true of them.

Patches are asked too what they show, and where a step keeps one rectangle of patches, only what lies in it is true: a prompt is to find its
own object.
"""

from __future__ import annotations

import explainers.embedded.architectures  # noqa: F401  (before timm)

# isort: split
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from explainers.embedded.synthetic.scenes import KINDS
from recipes.clip_texts import SHARED, Texts
from recipes.data.clip import Drawn, Part
from recipes.data.prompts import choose_names, classes, split_evenly
from recipes.networks.feature_shift import Mover
from recipes.networks.trunk import Seen, autocast
from recipes.networks.vits import encode_features
from recipes.networks.written_clip import read

TEMPERATURE = 2.0
KEPT_SHARES = (0.3, 0.4, 0.5, 0.75, 1.0)  # shares of the patches that a step may keep
WINDOW_SHARE = 0.35  # share of the steps with removed patches whose kept ones form a rectangle
SMOOTHING = 0.1
COSINE_WEIGHT = 2.0  # weight of the cosine between a picture's embedding and the names that are true of it
PHOTOS, SCENES = 32, 16  # number of each in a step
MAX_PATCHES = 98  # most patches that a step keeps, except where they form a rectangle
LOSS_PATCHES = 10  # patches of each picture that a patch loss reads
PHOTO_PATCH_WEIGHT, SCENE_PATCH_WEIGHT = 0.5, 1.0  # weights of the patch losses
MIN_OBJECT_SHARE = 0.4  # share of an object's patches among those kept for it to count as there
MAX_LOG_SCALE = math.log(100)  # largest logarithm of the scale


def choose_patches(rng: np.random.Generator, number: int, grid: int) -> tuple[Tensor | None, bool]:
    """Choose, by ``rng``, the patches of ``number`` pictures, ``grid`` by ``grid`` in each, that a step keeps; return their indices,
    (number, n) or None for all, and whether they form a rectangle in each.
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
    """Return the logits (B, classes) that the student is to learn: the teacher's, from ``batch``. If the student sees only the patches
    ``kept`` (B, n) and these form a rectangle (``window``), they are corrected by the difference between the teacher's local features there
    and in the whole picture, which ``readout`` (classes, directions) turns into logits.
    """
    logits = batch.logits.float()
    if kept is None or not window:
        return logits
    local = batch.local.float()
    inside = local.gather(1, kept[..., None].expand(-1, -1, local.shape[-1])).mean(1)
    return logits + (inside - local.mean(1)) @ readout.T


def divergence(logits: Tensor, wanted: Tensor) -> Tensor:
    """Return the Kullback-Leibler divergence, a scalar tensor, of the probabilities of ``logits`` (B, classes) from those of ``wanted`` (B,
    classes), both softened by a temperature, multiplied by its square so that the gradient keeps its size.
    """
    soft = (wanted / TEMPERATURE).log_softmax(1)
    return TEMPERATURE**2 * F.kl_div((logits.float() / TEMPERATURE).log_softmax(1), soft, log_target=True, reduction="batchmean")


class ImageSide(nn.Module):
    """The image side of ``clip``: the Vision Transformer, the projection of its class token to embeddings, which leaves out the channels
    that do not stand for names, and the scale of the logits.
    """

    def __init__(self, vit: VisionTransformer) -> None:
        super().__init__()
        self.vit = vit
        self.projection = nn.Linear(vit.num_features, SHARED, bias=False).requires_grad_(False)
        self.projection.weight.data.copy_(torch.eye(SHARED, vit.num_features))
        self.scale = nn.Parameter(torch.tensor(math.log(30)))

    def forward(self, features: Tensor) -> Tensor:
        """Return embeddings (B, SHARED) of length 1 for features of the trunk (B, places, channels)."""
        return F.normalize(self.projection(encode_features(self.vit, features)[:, 0]), dim=-1)

    def temperature(self) -> Tensor:
        """Return the factor that turns cosines into logits, a scalar tensor."""
        return self.scale.clamp(max=MAX_LOG_SCALE).exp()


def pick_wordings(bank: Tensor, rng: np.random.Generator) -> Tensor:
    """Choose one random wording of every prompt, with ``rng``: from the embeddings ``bank`` (prompts, wordings, SHARED) to (prompts,
    SHARED).
    """
    return bank[torch.arange(len(bank)), torch.from_numpy(rng.integers(bank.shape[1], size=len(bank)))]


def merge_classes(logits: Tensor, chosen: Tensor) -> Tensor:
    """Merge the teacher's logits (B, classes) into logits of words (B, words): ``chosen`` (classes,) gives the word of each class, and
    several classes may share one.
    """
    soft = (logits / TEMPERATURE).softmax(1)
    sums = torch.zeros(len(logits), int(chosen.max()) + 1, device=logits.device).index_add_(1, chosen, soft)
    return TEMPERATURE * sums.clamp(min=1e-9).log()


def shares_of_kept(kinds: Tensor, patches: Tensor, kept: Tensor) -> Tensor:
    """Return the share that each kind has in each scene, (B, kinds), when only the patches ``kept`` (B, n), given by index, are seen.

    Kinds whose object is mostly hidden are left out. ``kinds`` (B, kinds) is above 0 for those in the whole scene, ``patches`` (B, N) holds
    the kind that each patch shows.
    """
    every = F.one_hot(patches, len(KINDS) + 1)[..., :-1].sum(1)
    kept_counts = F.one_hot(patches.gather(1, kept), len(KINDS) + 1)[..., :-1].sum(1)
    is_left = kept_counts >= MIN_OBJECT_SHARE * every.clamp(min=1)
    return torch.stack([split_evenly(row) for row in (kinds > 0) & is_left])


def soft_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the smoothed cross-entropy, a scalar tensor, of ``logits`` (B, K) with ``targets`` (B, K) whose rows may sum to less than 1:
    the missing part of a row does not count.
    """
    total = targets.sum(1, keepdim=True)
    smooth = targets * (1 - SMOOTHING) + total * SMOOTHING / targets.shape[1]
    return -(smooth * logits.float().log_softmax(1)).sum() / total.sum().clamp(min=1)


class Step(NamedTuple):
    """The inputs of one training step.

    photos       pictures as features of the trunk; ``scenes`` are rendered ones
    kept         (photos + scenes, n): indices of the patches that the model reads
    loss_places  (photos + scenes, PLACES): indices into ``kept`` of the patches that the patch losses read
    window       whether the kept patches form a rectangle
    """

    photos: Seen
    scenes: Drawn
    kept: Tensor  # (photos + scenes, n)
    loss_places: Tensor  # (photos + scenes, PLACES), indices into ``kept``
    window: bool  # whether the kept patches form a rectangle


def steps(feature_parts: Sequence[Part], move: Mover, seed: int, first: int, counts: tuple[int, int] | None = None) -> Iterator[Step]:
    """Yield training steps without end, from number ``first`` on, each drawn from ``feature_parts`` by ``seed`` and its number. ``counts``
    are the numbers of photos and of scenes in a step (None: PHOTOS and SCENES); ``move`` moves the photos' features towards classes that
    few photos show.
    """
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
        kept, window = choose_patches(rng, pictures, math.isqrt(places))
        if kept is None:
            kept = torch.from_numpy(rng.random((pictures, places))).argsort(1)
        kept = kept if window else kept[:, :MAX_PATCHES]
        yield Step(photos, scenes, kept, torch.from_numpy(rng.integers(kept.shape[1], size=(pictures, LOSS_PATCHES))), window)


class Losses:
    """The losses of ``clip``'s image side, each a scalar tensor with gradients: distances of pictures and patches from the prompts that are
    true of them. ``side`` is the image side that is trained, ``texts`` the text side, and ``scenes_weight`` the weight of the loss of whole
    scenes. ``readout`` (classes, directions) and ``bias`` (classes,) turn the teacher's local features into logits.
    """

    def __init__(self, side: ImageSide, texts: Texts, readout: Tensor, bias: Tensor, scenes_weight: float = 1.0) -> None:
        self.side, self.texts, self.scenes_weight = side, texts, scenes_weight
        self.readout, self.bias = readout, bias  # of the teacher, `Teacher`
        self.names = texts.names()[: len(classes())]

    def photos(self, embeddings: Tensor, wanted: Tensor, rng: np.random.Generator) -> tuple[Tensor, float]:
        """Return the loss of photos by their ``embeddings`` (B, SHARED) and the teacher's logits ``wanted`` (B, classes), and the share of
        the photos, from 0 to 1, for which both agree on the likeliest word. ``rng`` draws a name of each class and its wording.
        """
        places, chosen = np.unique(choose_names(rng), return_inverse=True)
        logits = self.side.temperature() * embeddings @ pick_wordings(self.texts.photos[torch.from_numpy(places)], rng).T
        truth = merge_classes(wanted, torch.from_numpy(chosen))
        near = F.cosine_similarity(embeddings, wanted.softmax(1) @ self.names).mean()
        return divergence(logits, truth) + COSINE_WEIGHT * (1 - near), float((logits.argmax(1) == truth.argmax(1)).float().mean())

    def photo_patches(self, patches: Tensor, local: Tensor) -> Tensor:
        """Return the loss of patches (B, n, SHARED) of photos against the teacher's features ``local`` (B, n, directions) at the same
        places.
        """
        logits, wanted = self.side.temperature() * patches @ self.names.T, F.linear(local, self.readout, self.bias)
        return divergence(logits.flatten(0, 1), wanted.flatten(0, 1))

    def scenes(self, embeddings: Tensor, kinds: Tensor, rng: np.random.Generator) -> Tensor:
        """Return the loss of scenes by their ``embeddings`` (B, SHARED) and the shares of the kinds in them, ``kinds`` (B, kinds). ``rng``
        draws a wording of each kind.
        """
        return soft_loss(self.side.temperature() * embeddings @ pick_wordings(self.texts.kinds, rng).T, kinds)

    def scene_patches(self, patches: Tensor, shown: Tensor, rng: np.random.Generator) -> Tensor:
        """Return the loss of patches (B, n, SHARED) of scenes against the kinds that they show, ``shown`` (B, n), integers. ``rng`` draws a
        wording of each kind.

        Patches of the background, with the number after the last kind, count for nothing.
        """
        logits, of_object = self.side.temperature() * patches @ pick_wordings(self.texts.kinds, rng).T, shown < len(KINDS)
        return F.cross_entropy(logits[of_object], shown[of_object]) if of_object.any() else logits.sum() * 0

    def __call__(self, step: Step, rng: np.random.Generator) -> tuple[Tensor, float]:
        """Return the loss of a whole training step, a scalar tensor with gradients, and the share of its photos, from 0 to 1, for which the
        likeliest word is the teacher's. The loss is the weighted sum of the losses of photos, of their patches, of scenes and of their
        patches. ``step`` holds the photos, the scenes and the kept patches; ``rng`` draws names and wordings.
        """
        number = len(step.photos.tokens)
        tokens = torch.cat([step.photos.tokens, step.scenes.seen.tokens]).float()
        with autocast():
            token, patches = read(self.side.vit, tokens, step.kept)
        embeddings = F.normalize(token[:, :SHARED].float(), dim=-1)
        patch_embeddings = F.normalize(patches.gather(1, step.loss_places[..., None].expand(-1, -1, SHARED)).float(), dim=-1)
        places = step.kept.gather(1, step.loss_places)
        local = step.photos.local.float().gather(1, places[:number, :, None].expand(-1, -1, step.photos.local.shape[-1]))
        value, right = self.photos(embeddings[:number], target(step.photos, step.kept[:number], step.window, self.readout), rng)
        value = value + PHOTO_PATCH_WEIGHT * self.photo_patches(patch_embeddings[:number], local)
        kind_shares = shares_of_kept(step.scenes.kinds, step.scenes.patches, step.kept[number:])
        value = value + self.scenes_weight * self.scenes(embeddings[number:], kind_shares, rng)
        shown = step.scenes.patches.gather(1, places[number:])
        return value + SCENE_PATCH_WEIGHT * self.scene_patches(patch_embeddings[number:], shown, rng), right
