"""``clip``: a small dual encoder that matches photos and rendered scenes with English prompts.

The text side is a pretrained sentence encoder, pruned, which learned synonyms and names of groups (``clip_texts``). The image side learns
to lie near its embeddings, and the embeddings of what photos show move towards it; those of other words stay. The image side begins as a
trained ``photos-vit`` (``train_photos_vit``). Its projection begins as the pseudo-inverse of the embeddings of the classes' names, applied
to the classifier: a picture lies where the names that the classifier gives it lie. Then it learns

- of photos, mosaics and pasted parts, which classes they show: in every step each class goes by its name, a synonym or a group's name;
- of each patch, what the teacher finds at its place, by name: so a prompt finds its own thing;
- of rendered scenes, which kinds are in them and at which patches.
"""

from __future__ import annotations

import explainers.embedded.architectures

# isort: split
import argparse
import copy
import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import TimmWrapperConfig, VisionTextDualEncoderConfig, VisionTextDualEncoderModel
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

import explainers
from explainers.embedded.architectures import MEAN, STD
from recipes.clip_calibration import calibrate_clip
from recipes.clip_images import MAX_LOG_SCALE, ImageSide, Losses, shares_of_kept
from recipes.clip_texts import (
    SHARED,
    HeldPrompts,
    Texts,
    embed_prompts,
    free_learned_parameters_,
    load_texts,
    new_texts,
    teach_words,
)
from recipes.data.clip import Drawn, draw_scenes
from recipes.data.pictures import SIDE, Pictures
from recipes.data.prompts import choose_names, classes, words, write_prompt
from recipes.data.teacher_views import Batches, Teachers, Views, ViewStore
from recipes.evaluation import MODELS
from recipes.networks.pruning import save_tokenizer
from recipes.networks.text_tower import VOCABULARY
from recipes.networks.trunk import autocast
from recipes.networks.vits import create, encode_features, load, plain_attention, to_half
from recipes.photos_objective import choose_patches, later_tokens, pick_patches, prepare_step
from recipes.train_photos_vit import ARCHITECTURE, ATTENTION_DROPOUT, CAPACITY, SHAPE, prepare_basis, see
from recipes.training import add_common_arguments, fit, schedule

LOSS_PATCHES = 10  # patches of each picture that a patch loss reads
PHOTO_WEIGHT, PHOTO_PATCH_WEIGHT = 2.0, 0.5  # weights of the losses of photos and of their patches
LEARNED_NAMES = 128  # words for classes that the text side embeds, and learns, in a step
HELD_WORDS, HELD_SCENES = 56, 28  # prompts of a step that must stay: about words of the tokenizer, about scenes
HELD_WEIGHT = 40.0  # weight of how far these moved
TEXT_RATE_SHARE = 0.2  # learning rate of the text side as a share of the image side's
SCENE_WEIGHT, SCENE_PATCH_WEIGHT = 0.5, 0.5  # weights of the losses of scenes and of their patches
FRESH_EVERY = 8  # steps of which one makes new views of photos, and of which one draws new scenes; the others see some again
FIRST_SCENE_BATCHES = 8  # batches of scenes that are drawn before the first step
SCENE_SEED = 78  # of scenes that no evaluation draws

Batch = tuple[Views, Drawn]


@torch.no_grad()
def begin_side(folder: Path, names: Tensor) -> tuple[ImageSide, int]:
    """Build the image side from a finished photos-vit, and return it with the number of the trunk's stages.

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
    vit.patch_embed.backbone.requires_grad_(False)
    plain_attention(vit, "cpu")
    return side, stages


def load_side_(side: ImageSide, folder: Path) -> None:
    """Copy the weights of the image side of the finished clip in ``folder`` into ``side``, of the same shape, in place."""
    clip = VisionTextDualEncoderModel.from_pretrained(folder, dtype=torch.float32, local_files_only=True)
    side.vit.load_state_dict(clip.vision_model.timm_model.state_dict())
    side.projection.load_state_dict(clip.visual_projection.state_dict())
    side.scale.data.copy_(clip.logit_scale)


class Scenes:
    """A growing list of batches of rendered scenes, as the teacher sees them: now and then a new one, else one of those before."""

    def __init__(self, teachers: Teachers, seed: int) -> None:
        self.teachers, self.seed, self.batches = teachers, seed, [draw_scenes(teachers.lite0, [SCENE_SEED + seed, 0])]

    def __call__(self, step: int) -> Drawn:
        """Return the scenes of training step ``step``."""
        rng = np.random.default_rng([self.seed, 9, step])
        while len(self.batches) < FIRST_SCENE_BATCHES + step // FRESH_EVERY:
            self.batches.append(draw_scenes(self.teachers.lite0, [SCENE_SEED + self.seed, len(self.batches)]))
        return self.batches[rng.integers(len(self.batches))]


class TwoSides(nn.Module):
    """Both sides of ``clip`` as one module: the image side and the tower of the text side, of which only some parameters learn."""

    def __init__(self, image: ImageSide, texts: Texts) -> None:
        super().__init__()
        self.image, self.tower = image, texts.tower
        free_learned_parameters_(self.tower)


class Objective:
    """The training loss of one step of both sides, a function of stored views of photos and of scenes (see :meth:`__call__`).

    Names of classes move with the image side; other words and prompts about scenes are held where ``texts`` has them at the beginning.
    """

    def __init__(self, side: ImageSide, texts: Texts, teachers: Teachers, stages: int, mean_token: Tensor, seed: int) -> None:
        self.side, self.texts, self.readout, self.seed = side, texts, teachers.readout, seed
        self.losses = Losses(side, texts.kinds, teachers.readout, teachers.lite0.bias)
        self.bank = texts.photos[:, 0].clone()  # (words, SHARED): where each word lay when it was last embedded
        self.before = texts._replace(tower=copy.deepcopy(texts.tower))
        self.held = HeldPrompts(texts, HELD_WORDS, HELD_SCENES)
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

    def names(self, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Choose by ``rng`` a word for each class, its name, a synonym or a group; return the embeddings of the words (words, SHARED) and
        the word of each class (classes,). Only `LEARNED_NAMES` of the words are embedded anew; the others are where they were last.
        """
        places, chosen = np.unique(choose_names(rng), return_inverse=True)
        asked = rng.choice(len(places), LEARNED_NAMES, replace=False)
        with autocast():
            learned = embed_prompts(self.texts, [write_prompt(rng, (words().names[place],)) for place in places[asked]])
        found = self.bank[places].index_copy(0, torch.from_numpy(asked), learned)
        self.bank[places[asked]] = learned.detach()
        return found, torch.from_numpy(chosen)

    def moved(self, rng: np.random.Generator) -> Tensor:
        """Return how far prompts that must stay, drawn by ``rng``, have moved: 1 minus the cosine with their embeddings before."""
        prompts = self.held(rng)
        with torch.no_grad():
            before = embed_prompts(self.before, prompts)
        with autocast():
            now = embed_prompts(self.texts, prompts)
        return 1 - (now * before).sum(1).mean()

    def photos(self, views: Views, rng: np.random.Generator) -> tuple[Tensor, float]:
        """Return the loss of photos and of some of their patches, and how often the likeliest word is the teachers'. ``views`` holds what
        the teachers see in the photos; ``rng`` chooses the patches.
        """
        grid = self.side.vit.patch_embed.grid_size[0]
        tokens, local, wanted, _, kept, corner = prepare_step(views, rng, self.readout, self.tokens, self.mean_token, grid)
        pictures, patches = self.embed(tokens, kept, corner)
        names, chosen = self.names(rng)
        value, right = self.losses.photos(pictures, wanted, names, chosen)
        asked = torch.from_numpy(rng.integers(patches.shape[1], size=(len(patches), LOSS_PATCHES)))
        there = pick_patches(pick_patches(local, kept), asked)
        patch_value = self.losses.photo_patches(pick_patches(patches, asked), there, names[chosen])
        return PHOTO_WEIGHT * value + PHOTO_PATCH_WEIGHT * patch_value, right

    def scenes(self, drawn: Drawn, rng: np.random.Generator) -> Tensor:
        """Return the loss of the scenes in ``drawn`` and of some of their patches, chosen by ``rng``."""
        number, places = drawn.patches.shape
        kept = choose_patches(rng, number, places)
        every = torch.arange(places).expand(number, -1) if kept is None else kept
        pictures, patches = self.embed(self.tokens(drawn.seen.tokens).clone(), kept)
        asked = torch.from_numpy(rng.integers(patches.shape[1], size=(number, LOSS_PATCHES)))
        shown = drawn.patches.gather(1, every.gather(1, asked))
        value = self.losses.scenes(pictures, shares_of_kept(drawn.kinds, drawn.patches, every), rng)
        return SCENE_WEIGHT * value + SCENE_PATCH_WEIGHT * self.losses.scene_patches(pick_patches(patches, asked), shown, rng)

    def __call__(self, batch: Batch, progress: float, step: int) -> tuple[Tensor, float]:
        """Return the loss of step number ``step`` on ``batch``, photos and scenes, and how often the likeliest word of a photo is the
        teachers'.
        """
        rng = np.random.default_rng([self.seed, 7, step])
        value, right = self.photos(batch[0], rng)
        return value + self.scenes(batch[1], rng) + HELD_WEIGHT * self.moved(rng), right


def get_texts(args: argparse.Namespace) -> Texts:
    """Return the text side: that of the clip in ``args.texts``, or, if ``args.encoder`` names a sentence encoder, a new one that has
    learned words.
    """
    if args.encoder is None:
        return load_texts(args.texts)
    args.out.mkdir(parents=True, exist_ok=True)
    return teach_words(new_texts(args.encoder, args.vocabulary), args.word_steps, args.seed, args.out / "words.pt", args.resume)


def save(side: ImageSide, texts: Texts, model_args: dict[str, Any], out: Path) -> None:
    """Write ``out``, a folder of the image ``side`` and of the ``texts`` that transformers loads once ``explainers.embedded.architectures``
    is imported. Weights are float16.
    """
    config = TimmWrapperConfig(
        architecture=ARCHITECTURE,
        model_args=model_args,
        do_pooling=True,
        hidden_size=side.vit.num_features,
        image_size=SIDE,
    )
    both = VisionTextDualEncoderConfig.from_vision_text_configs(config, texts.tower.config, projection_dim=SHARED)
    clip = VisionTextDualEncoderModel(config=both)
    clip.vision_model.timm_model.load_state_dict(side.vit.state_dict())
    clip.text_model.load_state_dict(texts.tower.state_dict())
    with torch.no_grad():
        clip.visual_projection.weight.copy_(side.projection.weight)
        clip.text_projection.weight.copy_(texts.projection)
        clip.logit_scale.copy_(side.scale.clamp(max=MAX_LOG_SCALE))
    clip.save_pretrained(out)
    save_file(to_half(load_file(out / "model.safetensors")), out / "model.safetensors", {"format": "pt"})
    _forget_origin(out / "config.json")
    save_tokenizer(texts.tokenizer, out)
    CLIPImageProcessorPil(
        size={"shortest_edge": SIDE},
        crop_size={"height": SIDE, "width": SIDE},
        image_mean=[MEAN] * 3,
        image_std=[STD] * 3,
    ).save_pretrained(out)


def _forget_origin(path: Path) -> None:
    """Delete from a configuration the paths that its parts were read from on this machine."""
    config = json.loads(path.read_text("utf-8"))
    for part in (config, *(part for part in config.values() if isinstance(part, dict))):
        part.pop("_name_or_path", None)
    path.write_text(json.dumps(config, indent=1) + "\n", "utf-8")


def train(args: argparse.Namespace) -> None:
    """Tune and write the model folder ``args.out`` (arguments: ``add_arguments``)."""
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    pictures, teachers, texts = Pictures(args.data, args.batch), Teachers(), get_texts(args)
    folder = args.views or args.out
    folder.mkdir(parents=True, exist_ok=True)
    prepare_basis(teachers, pictures, args.seed, folder / "basis.pt")
    side, stages = begin_side(args.start, texts.names()[: len(classes())])
    if args.image_side is not None:
        load_side_(side, args.image_side)
    make = functools.partial(see, pictures, teachers)
    photos = Batches(ViewStore(folder / "views", CAPACITY), make, args.seed, args.batch, FRESH_EVERY)
    scenes = Scenes(teachers, args.seed)
    mean_token = later_tokens(teachers.later_stage(stages), photos(0).features).mean((0, 1)).clone()
    objective = Objective(side, texts, teachers, stages, mean_token, args.seed)

    def batches(first: int) -> Iterator[Batch]:
        for step in range(first, 10**9):
            yield photos(step), scenes(step)

    fit(
        TwoSides(side, texts),
        batches,
        objective,
        **schedule(args),
        rate=args.rate,
        warm_up=100,
        share=lambda name: TEXT_RATE_SHARE if name.startswith("tower.") else 1.0,
        muon=lambda name: ".blocks." in name,
    )
    save(side, texts, {**SHAPE, "trunk_stages": stages}, args.out)
    calibrate_clip(explainers.load(args.out, "cpu"), args.out, args.data)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command-line arguments that ``train`` reads."""
    add_common_arguments(parser, minutes=60)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds sharp/, tiny_imagenet/ and coco128/")
    parser.add_argument("--start", type=Path, default=MODELS / "photos-vit", help="folder of a photos-vit to begin with")
    parser.add_argument("--image-side", type=Path, help="folder of a clip whose image side to go on from")
    texts = parser.add_mutually_exclusive_group()
    texts.add_argument("--texts", type=Path, default=MODELS / "clip", help="folder of a clip whose text side to go on from")
    texts.add_argument("--encoder", type=Path, help="folder of all-MiniLM-L6-v2, to make a new text side of")
    parser.add_argument("--word-steps", type=int, default=400, help="steps in which a new text side learns words (default 400)")
    parser.add_argument("--vocabulary", type=int, default=VOCABULARY, help=f"word pieces of a new text side (default {VOCABULARY})")
    parser.add_argument("--views", type=Path, help="folder that a training of photos-vit wrote, whose views are seen again")
    parser.add_argument("--rate", type=float, default=7e-4, help="highest learning rate (default 7e-4)")
    parser.add_argument("--batch", type=int, default=96, help="photos a step (default 96)")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser)
    train(parser.parse_args())
