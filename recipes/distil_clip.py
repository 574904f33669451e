"""``clip`` behind an early cut of its trunk: the Transformer of ``photos-vit``, tuned to lie near the prompts that are true of a picture.

The text side is that of a finished clip and stays as it is (as in Zhai et al., "LiT", CVPR 2022). The image side begins as a trained
``photos-vit`` (``train_photos_vit``). Its projection begins as the pseudo-inverse of the embeddings of the classes' names, applied to the
classifier: a picture lies where the names that the classifier gives it lie. Then it learns

- of photos, mosaics and pasted parts, which classes they show: in every step each class goes by its name, a synonym or a group's name;
- of each patch, what the teacher finds at its place, by name: so a prompt finds its own thing;
- of rendered scenes, which kinds are in them and at which patches.
"""

from __future__ import annotations

import explainers.embedded.architectures

# isort: split
import argparse
import functools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

import explainers
from recipes.clip_calibration import calibrate_clip
from recipes.clip_images import LOSS_PATCHES, ImageSide, Losses, shares_of_kept
from recipes.clip_texts import load_texts
from recipes.data.clip import Drawn, draw_scenes
from recipes.data.pictures import Pictures
from recipes.data.prompts import classes
from recipes.data.teacher_views import Batches, Teachers, Views, ViewStore
from recipes.evaluation import MODELS
from recipes.networks.trunk import autocast
from recipes.networks.vits import create, encode_features, load, plain_attention
from recipes.photos_objective import choose_patches, later_tokens, pick_patches, prepare_step
from recipes.train_clip import save
from recipes.train_photos_vit import ARCHITECTURE, ATTENTION_DROPOUT, CAPACITY, FRESH_EVERY, SHAPE, prepare_basis, see
from recipes.training import add_common_arguments, fit, schedule

PHOTO_PATCH_WEIGHT, SCENE_PATCH_WEIGHT = 1.0, 1.0  # weights of the losses of patches
FRESH_SCENES_EVERY = 8  # steps of which one draws a new batch of scenes; the others see one again
FIRST_SCENE_BATCHES = 8  # batches of scenes that are drawn before the first step
SCENE_SEED = 78  # of scenes that no evaluation draws

Batch = tuple[Views, Drawn]


@torch.no_grad()
def begin_side(folder: Path, names: Tensor) -> tuple[ImageSide, int]:
    """Build the image side of a CLIP model from a finished photos-vit, whose folder is ``folder``, and return it with the number of the
    trunk's stages.

    ``names`` are the embeddings of the classes' names, (classes, SHARED). The projection P of the class token x is such that P x is the
    least-squares solution e of ``names`` e = the centred logits of the classifier; what its bias adds goes into the last normalisation.
    """
    finished = load(folder)
    stages = len(finished.patch_embed.backbone) - 2  # apart from the stem's convolution and activation
    vit = create(ARCHITECTURE, [], {**SHAPE, "trunk_stages": stages, "attn_drop_rate": ATTENTION_DROPOUT})
    weights = {name: value for name, value in finished.state_dict().items() if not name.startswith("head.")}
    vit.load_state_dict(weights)
    side = ImageSide(vit)
    inverse = torch.linalg.pinv(names.double())
    weight, bias = finished.head.weight.double(), finished.head.bias.double()
    projection = inverse @ (weight - weight.mean(0))
    constant = inverse @ (bias - bias.mean())
    vit.norm.bias.add_((torch.linalg.pinv(projection) @ constant).float())
    side.projection.weight.copy_(projection)
    side.projection.requires_grad_(True)
    vit.patch_embed.backbone.requires_grad_(False)
    plain_attention(vit, "cpu")
    return side, stages


class Scenes:
    """A growing list of batches of rendered scenes, as the teacher sees them: now and then a new one, else one of those before."""

    def __init__(self, teachers: Teachers, seed: int) -> None:
        self.teachers, self.seed, self.batches = teachers, seed, [draw_scenes(teachers.lite0, [SCENE_SEED + seed, 0])]

    def __call__(self, step: int) -> Drawn:
        """Return the scenes of training step ``step``."""
        rng = np.random.default_rng([self.seed, 9, step])
        while len(self.batches) < FIRST_SCENE_BATCHES + step // FRESH_SCENES_EVERY:
            self.batches.append(draw_scenes(self.teachers.lite0, [SCENE_SEED + self.seed, len(self.batches)]))
        return self.batches[rng.integers(len(self.batches))]


class Objective:
    """The training loss of one step of the image side ``side``, a function of stored views of photos and of scenes (see
    :meth:`__call__`).
    """

    def __init__(self, side: ImageSide, losses: Losses, teachers: Teachers, stages: int, mean_token: Tensor, seed: int) -> None:
        self.side, self.losses, self.readout, self.seed = side, losses, teachers.readout, seed
        self.tokens = functools.partial(later_tokens, teachers.later_stage(stages))
        self.mean_token = mean_token  # (channels,), of patches that are masked

    def embed(self, tokens: Tensor, kept: Tensor | None, corner: tuple[int, int] = (0, 0)) -> tuple[Tensor, Tensor]:
        """Return the embeddings of pictures (B, SHARED) and of the patches that are read, (B, n, SHARED), each of length 1. ``tokens`` are
        the trunk's features of the pictures, ``kept`` the indices of the patches that are read (None: all), ``corner`` the place of the
        pictures in the position embeddings.
        """
        with autocast():
            found = self.side.projection(encode_features(self.side.vit, tokens, kept, corner)).float()
        found = F.normalize(found, dim=-1)
        return found[:, 0], found[:, 1:]

    def photos(self, views: Views, rng: np.random.Generator) -> tuple[Tensor, float]:
        """Return the loss of photos and of some of their patches, and how often the likeliest word is the teachers'. ``views`` holds what
        the teachers see in the photos; ``rng`` chooses the patches.
        """
        grid = self.side.vit.patch_embed.grid_size[0]
        tokens, local, wanted, _, kept, corner = prepare_step(views, rng, self.readout, self.tokens, self.mean_token, grid)
        pictures, patches = self.embed(tokens, kept, corner)
        value, right = self.losses.photos(pictures, wanted, rng)
        asked = torch.from_numpy(rng.integers(patches.shape[1], size=(len(patches), LOSS_PATCHES)))
        there = pick_patches(pick_patches(local, kept), asked)
        return value + PHOTO_PATCH_WEIGHT * self.losses.photo_patches(pick_patches(patches, asked), there), right

    def scenes(self, drawn: Drawn, rng: np.random.Generator) -> Tensor:
        """Return the loss on the rendered scenes in ``drawn``: of their embeddings, and of the embeddings of some of their patches, chosen
        by ``rng``.
        """
        number, places = drawn.patches.shape
        kept = choose_patches(rng, number, places)
        every = torch.arange(places).expand(number, -1) if kept is None else kept
        pictures, patches = self.embed(self.tokens(drawn.seen.tokens).clone(), kept)
        asked = torch.from_numpy(rng.integers(patches.shape[1], size=(number, LOSS_PATCHES)))
        shown = drawn.patches.gather(1, every.gather(1, asked))
        value = self.losses.scenes(pictures, shares_of_kept(drawn.kinds, drawn.patches, every), rng)
        return value + SCENE_PATCH_WEIGHT * self.losses.scene_patches(pick_patches(patches, asked), shown, rng)

    def __call__(self, batch: Batch, progress: float, step: int) -> tuple[Tensor, float]:
        """Return the loss of step number ``step`` on ``batch``, photos and scenes, and how often the likeliest word of a photo is the
        teachers'.
        """
        rng = np.random.default_rng([self.seed, 7, step])
        value, right = self.photos(batch[0], rng)
        return value + self.scenes(batch[1], rng), right


def train(args: argparse.Namespace) -> None:
    """Fine-tune the model and write its folder, ``args.out``. ``args`` are the parsed arguments that ``add_arguments`` declares."""
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    pictures, teachers, texts = Pictures(args.data, args.batch), Teachers(), load_texts(args.texts)
    folder = args.views or args.out
    folder.mkdir(parents=True, exist_ok=True)
    prepare_basis(teachers, pictures, args.seed, folder / "basis.pt")
    side, stages = begin_side(args.start, texts.names()[: len(classes())])
    losses = Losses(side, texts, teachers.readout, teachers.lite0.bias)
    make = functools.partial(see, pictures, teachers)
    photos = Batches(ViewStore(folder / "views", CAPACITY), make, args.seed, args.batch, FRESH_EVERY)
    scenes = Scenes(teachers, args.seed)
    mean_token = later_tokens(teachers.later_stage(stages), photos(0).features).mean((0, 1)).clone()
    objective = Objective(side, losses, teachers, stages, mean_token, args.seed)

    def batches(first: int) -> Iterator[Batch]:
        for step in range(first, 10**9):
            yield photos(step), scenes(step)

    fit(side, batches, objective, **schedule(args), rate=args.rate, warm_up=100, muon=lambda name: ".blocks." in name)
    save(side, texts, {**SHAPE, "trunk_stages": stages}, args.out)
    calibrate_clip(explainers.load(args.out, "cpu"), args.out, args.data)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command-line arguments that ``train`` reads, on ``parser``."""
    add_common_arguments(parser, minutes=60)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds sharp/, tiny_imagenet/ and coco128/")
    parser.add_argument("--start", type=Path, default=MODELS / "photos-vit", help="folder of a photos-vit to begin with")
    parser.add_argument("--texts", type=Path, default=MODELS / "clip", help="folder of a clip whose text side is kept")
    parser.add_argument("--views", type=Path, help="folder that a training of photos-vit wrote, whose views are seen again")
    parser.add_argument("--rate", type=float, default=7e-4, help="highest learning rate (default 7e-4)")
    parser.add_argument("--batch", type=int, default=96, help="photos a step (default 96)")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser)
    train(parser.parse_args())
