"""``clip``: a small dual encoder that matches photos and rendered scenes with English prompts.

The text tower is a pretrained sentence encoder, pruned and at first locked (Zhai et al., "LiT", CVPR 2022): its embeddings of many prompts
are made once. The image tower is written (``networks.written_clip``) from the weights of EfficientNet-Lite0 and of detectors of what scenes
show, and then tuned: it learns to land near the prompts that are true of a picture. EfficientNet-Lite0 itself says what is true of a photo,
as shares of ImageNet's classes; in every step each class goes by its name, a synonym or the name of a group that it is in. In the end the
text tower learns synonyms and groups (``clip_texts``).

Patches are asked too what they show, and where a step keeps one rectangle of patches, only what lies in it is true: a prompt is to find its
own object.
"""

from __future__ import annotations

import embedded.architectures  # noqa: F401  (before transformers and timm)

# isort: split
import argparse
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from safetensors.torch import load_file, save_file
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn
from transformers import (
    TimmWrapperConfig,
    VisionTextDualEncoderConfig,
    VisionTextDualEncoderModel,
)
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

from embedded.architectures import MEAN, STD
from embedded.recipes.calibration import calibrate_prompts, letters_at_random, pieces_per_word, write
from embedded.recipes.clip_texts import SHARED, Texts, new_texts, taught
from embedded.recipes.data.clip import Drawn, Part, parts, photos
from embedded.recipes.data.pictures import SIDE, Pictures, centred, sharp_files
from embedded.recipes.data.prompts import choose_names, classes, shared_out, words
from embedded.recipes.data.scenes import KINDS
from embedded.recipes.detectors import fit_detectors
from embedded.recipes.networks.feature_shift import Mover
from embedded.recipes.networks.text_tower import VOCABULARY
from embedded.recipes.networks.trunk import STAGES, Seen, Teacher, efficientnet, normalised
from embedded.recipes.networks.vits import create, encode_features, halved
from embedded.recipes.networks.written_clip import compose, model_args, tuned
from embedded.recipes.networks.written_clip import read as read_patches
from embedded.recipes.train_photos_vit import ARCHITECTURE, TEMPERATURE, choose, divergence, target, teacher_trunk
from embedded.recipes.train_reviews_bert import encoder_folder
from embedded.recipes.training import add_common_arguments, fit, schedule

TUNED = "image_side.pt"  # keeps the tuned image side while the text side learns
PARTS = 12  # of pictures
FITTED = 8  # batches that the directions of the last layer are fitted to
SMOOTHING = 0.1
PULL = 2.0  # weight of the cosine between a picture and what is true of it
PHOTOS, SCENES = 32, 16  # of a step
MOST = 98  # patches that a step keeps, but of a rectangle
PLACES = 10  # patches of each picture that are asked what they show
PHOTO_PATCHES, SCENE_PATCHES = 0.5, 1.0  # weights of what they say
PRESENT = 0.3  # share over which a class or a group of classes counts as in a photo: things side by side share what the teacher says
ABSENT = 0.1  # share, over that of a guess, below which the teacher says that a class is not in a photo
HERE = 0.4  # share of an object's patches among those kept for it to count as there
GREATEST = math.log(100)  # of the scale
SLIGHT = 0.05  # size that a weight of zeros is tuned as if it had


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


def save(side: ImageSide, texts: Texts, model_args: dict[str, Any], out: Path) -> None:
    """Write the folder that transformers loads once ``embedded.architectures`` is imported; weights as float16, to be loaded as float32."""
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
        clip.logit_scale.copy_(side.scale.clamp(max=GREATEST))
    clip.save_pretrained(out)
    save_file(halved(load_file(out / "model.safetensors")), out / "model.safetensors", {"format": "pt"})
    _forget_origin(out / "config.json")
    texts.tokenizer.backend_tokenizer.no_truncation()  # settings of the last call, which would be stored as defaults
    texts.tokenizer.backend_tokenizer.no_padding()
    texts.tokenizer.save_pretrained(out)
    CLIPImageProcessorPil(
        size={"shortest_edge": SIDE},
        crop_size={"height": SIDE, "width": SIDE},
        image_mean=[MEAN] * 3,
        image_std=[STD] * 3,
    ).save_pretrained(out)


def _forget_origin(path: Path) -> None:
    """Leave out of a configuration where its parts were read from on this machine."""
    config = json.loads(path.read_text("utf-8"))
    for part in (config, *(part for part in config.values() if isinstance(part, dict))):
        part.pop("_name_or_path", None)
    path.write_text(json.dumps(config, indent=1) + "\n", "utf-8")


class Step(NamedTuple):
    """What a step sees: features of photos, then of scenes, the patches that are kept, and of these the places that patch losses are of."""

    photos: Seen
    scenes: Drawn
    kept: Tensor  # (photos + scenes, n)
    loss_places: Tensor  # (photos + scenes, PLACES), places in ``kept``
    window: bool  # whether those kept form a rectangle


def steps(feature_parts: Sequence[Part], move: Mover, seed: int, first: int) -> Iterator[Step]:
    """Endless steps: some photos, with features moved towards classes that few photos show, and some scenes."""
    every_photo, every_scene = ([batch for part in feature_parts for batch in part[side]] for side in range(2))
    for number in range(first, 10**9):
        rng = np.random.default_rng([seed, 6, number])
        photo_batch, drawn = every_photo[rng.integers(len(every_photo))], every_scene[rng.integers(len(every_scene))]
        rows = torch.from_numpy(rng.permutation(len(photo_batch.tokens))[:PHOTOS])
        scene_rows = torch.from_numpy(rng.permutation(len(drawn.kinds))[:SCENES])
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

    def __init__(self, side: ImageSide, texts: Texts, teacher: Teacher) -> None:
        self.side, self.texts = side, texts
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
            token, patches = read_patches(self.side.vit, tokens, step.kept)
        embeddings = F.normalize(token[:, :SHARED].float(), dim=-1)
        patch_embeddings = F.normalize(patches.gather(1, step.loss_places[..., None].expand(-1, -1, SHARED)).float(), dim=-1)
        places = step.kept.gather(1, step.loss_places)
        local = step.photos.local.float().gather(1, places[:number, :, None].expand(-1, -1, step.photos.local.shape[-1]))
        value, right = self.photos(embeddings[:number], target(step.photos, step.kept[:number], step.window, self.readout), rng)
        value = value + PHOTO_PATCHES * self.photo_patches(patch_embeddings[:number], local)
        kind_shares = shares_of_kept(step.scenes.kinds, step.scenes.patches, step.kept[number:])
        value = value + self.scenes(embeddings[number:], kind_shares, rng)
        shown = step.scenes.patches.gather(1, places[number:])
        return value + SCENE_PATCHES * self.scene_patches(patch_embeddings[number:], shown, rng), right


def composed(feature_parts: Sequence[Part], teacher: Teacher, texts: Texts, seed: int) -> ImageSide:
    """The image side as it is written, before it is tuned."""
    vit = create(ARCHITECTURE, [], model_args(SIDE))
    vit.patch_embed.backbone.load_state_dict(teacher_trunk(STAGES))
    photos = [batch for part in feature_parts for batch in part.photos]
    units = vit.blocks[0].mlp.fc1.out_features - teacher.head[0].out_channels
    detectors = fit_detectors([batch for part in feature_parts for batch in part.scenes], photos, units, seed)
    tokens = torch.cat([batch.tokens[:, ::8].float().flatten(0, 1) for batch in photos[:FITTED]])
    compose(vit, teacher, detectors, texts.names(), tokens)
    return ImageSide(vit)


def tune(side: ImageSide, losses: Losses, feature_parts: Sequence[Part], move: Mover, args: argparse.Namespace) -> None:
    """Tune what ``composed.tuned`` names, in place; each weight at a rate in proportion to its size."""
    side.requires_grad_(False)
    side.scale.requires_grad_(True)
    for value in tuned(side.vit):
        value.requires_grad_(True)
    sizes = {name: _size(value) for name, value in side.named_parameters()}
    sizes["scale"] = 4.0

    def loss(step: Step, progress: float, number: int) -> tuple[Tensor, float]:
        return losses(step, np.random.default_rng([args.seed, 7, number]))

    def batches(first: int) -> Iterator[Step]:
        return steps(feature_parts, move, args.seed, first)

    fit(side, batches, loss, **schedule(args), rate=args.rate, weight_decay=0.0, warm_up=20, decay=0.98, share=sizes.__getitem__)


def _size(value: Tensor) -> float:
    """The root mean square of what is not 0."""
    written = value.detach()[value.detach() != 0]
    return float(written.square().mean().sqrt()) if len(written) else SLIGHT


def train(args: argparse.Namespace) -> None:
    """Train and write the model folder ``args.out`` (arguments: ``add_arguments``)."""
    torch.manual_seed(args.seed)
    projection = None if args.image_side is None else load_file(args.image_side / "model.safetensors")["text_projection.weight"].float()
    texts = new_texts(encoder_folder(args.encoder), args.vocabulary, projection)
    side = kept_side(texts, args) if args.image_side is None else loaded_side(args.image_side)
    texts = taught(texts, args.word_steps, args.seed, args.out / "words.pt", args.resume)
    save(side, texts, model_args(SIDE), args.out)
    write(args.out, calibrated(side, texts, args.data))
    (args.out / TUNED).unlink(missing_ok=True)


def kept_side(texts: Texts, args: argparse.Namespace) -> ImageSide:
    """The tuned image side, kept in ``args.out`` until the text side has learned too: a run that is resumed then does not tune again."""
    path = args.out / TUNED
    if args.resume and path.exists():
        side = ImageSide(create(ARCHITECTURE, [], model_args(SIDE)))
        side.load_state_dict(torch.load(path, weights_only=True))
        return side
    side = tuned_side(texts, args)
    torch.save(side.state_dict(), path)
    return side


def tuned_side(texts: Texts, args: argparse.Namespace) -> ImageSide:
    """The image side, written and tuned to lie near ``texts``."""
    pictures, teacher = Pictures(args.data, 0), Teacher(STAGES)
    teacher.fit_basis([photos(pictures, np.random.default_rng([args.seed, 1, number])) for number in range(FITTED)])
    feature_parts = list(parts(pictures, teacher, PARTS, args.seed, args.features))
    side = composed(feature_parts, teacher, texts, args.seed)
    move = Mover(teacher, [batch for part in feature_parts for batch in part.photos][:FITTED])
    tune(side, Losses(side, texts, teacher), feature_parts, move, args)
    return side


@torch.no_grad()
def loaded_side(folder: Path) -> ImageSide:
    """The image side of a finished model."""
    clip = VisionTextDualEncoderModel.from_pretrained(folder, dtype=torch.float32, local_files_only=True)
    vit = create(ARCHITECTURE, [], model_args(SIDE))
    vit.load_state_dict(clip.vision_model.timm_model.state_dict())
    side = ImageSide(vit)
    side.projection.weight.copy_(clip.visual_projection.weight)
    side.scale.copy_(clip.logit_scale)
    return side


@torch.inference_mode()
def calibrated(side: ImageSide, texts: Texts, data: Path, batch: int = 8) -> dict[str, Any]:
    """The calibration of a finished model: on photos held back, with the teacher's word for what is in them."""
    side.to("cpu").eval()
    held_back = torch.from_numpy(np.stack([centred(Image.open(path)) for path in sharp_files(data, held_back=True)]))
    network = efficientnet()
    shares = torch.cat([network(normalised(pictures)).softmax(1) for pictures in held_back.split(batch)])
    tokens = [side.vit.patch_embed.backbone(normalised(pictures)).flatten(2).transpose(1, 2) for pictures in held_back.split(batch)]
    embeddings = torch.cat([side(features) for features in tokens])
    places, members = zip(*words().groups, strict=True)
    names = texts.photos[[*range(len(classes())), *places]].mean(1)
    cosines = embeddings @ F.normalize(names, dim=-1).T
    shares = torch.cat([shares, *(shares[:, group].sum(1, keepdim=True) for group in members)], 1)
    prompts = [f"a photo of a {row['label']}" for row in classes()]
    strange = [f"a photo of a {word}" for word in letters_at_random(300)]
    sure = shares > PRESENT
    return calibrate_prompts(
        cosines[sure],
        cosines[shares < ABSENT / len(classes())],
        pieces_per_word(prompts, texts.tokenizer),
        pieces_per_word(strange, texts.tokenizer),
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What ``train`` reads from the command line."""
    add_common_arguments(parser, minutes=15)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds sharp/ and tiny_imagenet/")
    parser.add_argument("--rate", type=float, default=1.5e-3, help="highest learning rate, of the size of each weight (default 1.5e-3)")
    parser.add_argument("--features", type=Path, metavar="DIR", help="folder that keeps what the trunk makes of the pictures (3.4 GB)")
    parser.add_argument("--image-side", type=Path, metavar="DIR", help="folder of a clip whose image side stays; its text side learns")
    parser.add_argument("--word-steps", type=int, default=400, help="steps in which the text side learns words (default 400)")
    parser.add_argument("--encoder", type=Path, help="folder of all-MiniLM-L6-v2 (default: inside its installed package)")
    parser.add_argument("--vocabulary", type=int, default=VOCABULARY, help=f"word pieces to keep (default {VOCABULARY})")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser)
    train(parser.parse_args())
