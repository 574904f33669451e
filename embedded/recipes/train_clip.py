"""``clip``: a small dual encoder that matches photos and rendered scenes with English prompts.

The text tower is a pretrained sentence encoder, pruned and at first locked (Zhai et al., "LiT", CVPR 2022): its embeddings of many prompts
are made once. The image tower is written (``networks.written_clip``) from the weights of EfficientNet-Lite0 and of detectors of what scenes
show, and then tuned: it learns to land near the prompts that are true of a picture. EfficientNet-Lite0 itself says what is true of a photo,
as shares of ImageNet's classes; in every step each class goes by its name, a synonym or the name of a group that it is in. In the end the
text tower learns synonyms and groups (``clip_texts``).

A finished clip may learn scenes anew (``--start``): its detectors are fitted again, and only what is about scenes alone is tuned, so that
it says of photos what it said.
"""

from __future__ import annotations

import embedded.architectures  # noqa: F401  (before transformers and timm)

# isort: split
import argparse
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor
from transformers import (
    TimmWrapperConfig,
    VisionTextDualEncoderConfig,
    VisionTextDualEncoderModel,
)
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

import explainers
from embedded.architectures import MEAN, STD
from embedded.recipes.clip_calibration import calibrate_clip
from embedded.recipes.clip_images import GREATEST, ImageSide, Losses, Step, steps
from embedded.recipes.clip_texts import SHARED, Texts, finished_texts, new_texts, taught
from embedded.recipes.data.clip import Part, parts, photos
from embedded.recipes.data.pictures import SIDE, Pictures
from embedded.recipes.data.scenes import KINDS
from embedded.recipes.detectors import fit_detectors
from embedded.recipes.networks.feature_shift import Mover
from embedded.recipes.networks.pruning import save_tokenizer
from embedded.recipes.networks.text_tower import VOCABULARY
from embedded.recipes.networks.trunk import STAGES, Teacher
from embedded.recipes.networks.vits import create, halved
from embedded.recipes.networks.written_clip import (
    LAST_FEATURES,
    Detectors,
    about_scenes,
    compose,
    model_args,
    tuned,
    write_detectors,
)
from embedded.recipes.train_photos_vit import ARCHITECTURE, teacher_trunk
from embedded.recipes.train_reviews_bert import encoder_folder
from embedded.recipes.training import add_common_arguments, fit, schedule

TUNED = "image_side.pt"  # keeps the tuned image side while the text side learns
PARTS = 12  # of pictures
FITTED = 8  # batches that the directions of the last layer are fitted to
ONLY_SCENES = (16, 32)  # photos and scenes of a step where scenes alone are learned
SCENES_WEIGHT = 4.0  # of what a whole scene shows, where scenes alone are learned
SLIGHT = 0.05  # size that a weight of zeros is tuned as if it had


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
    save_tokenizer(texts.tokenizer, out)
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


def composed(feature_parts: Sequence[Part], teacher: Teacher, texts: Texts, seed: int) -> ImageSide:
    """The image side as it is written, before it is tuned."""
    vit = create(ARCHITECTURE, [], model_args(SIDE))
    vit.patch_embed.backbone.load_state_dict(teacher_trunk(STAGES))
    photos = [batch for part in feature_parts for batch in part.photos]
    tokens = torch.cat([batch.tokens[:, ::8].float().flatten(0, 1) for batch in photos[:FITTED]])
    compose(vit, teacher, fitted_detectors(feature_parts, vit, seed), texts.names(), tokens)
    return ImageSide(vit)


def fitted_detectors(feature_parts: Sequence[Part], vit: VisionTransformer, seed: int) -> Detectors:
    """Detectors of the kinds, as many units as the tower has room for."""
    photos, scenes = ([batch for part in feature_parts for batch in part[side]] for side in range(2))
    return fit_detectors(scenes, photos, vit.blocks[0].mlp.fc1.out_features - LAST_FEATURES, seed)


def tune(side: ImageSide, losses: Losses, feature_parts: Sequence[Part], move: Mover, args: argparse.Namespace) -> None:
    """Tune what ``written_clip.tuned`` names, in place; each weight at a rate in proportion to its size."""
    side.requires_grad_(False)
    for value in (side.scale, *tuned(side.vit)):
        value.requires_grad_(True)
    sizes = {name: _size(value) for name, value in side.named_parameters()} | {"scale": 4.0}
    fit_side(side, losses, lambda first: steps(feature_parts, move, args.seed, first), sizes, args)


def tune_scenes(side: ImageSide, losses: Losses, feature_parts: Sequence[Part], move: Mover, args: argparse.Namespace) -> None:
    """Tune what is about kinds of scenes alone, in place; photos are shown so that what it says of them stays."""
    side.requires_grad_(False)
    sizes = dict.fromkeys(dict(side.named_parameters()), 0.0)
    for name, places in about_scenes(len(KINDS)).items():
        value = side.vit.get_parameter(name).requires_grad_(True)
        mask = torch.zeros_like(value)
        for place in places:
            mask[place] = 1
        value.register_hook(mask.mul)
        sizes[f"vit.{name}"] = _size(value * mask)
    fit_side(side, losses, lambda first: steps(feature_parts, move, args.seed, first, ONLY_SCENES), sizes, args)


def fit_side(
    side: ImageSide, losses: Losses, batches: Callable[[int], Iterator[Step]], sizes: Mapping[str, float], args: argparse.Namespace
) -> None:
    """Train what needs gradients, in place, at rates in proportion to ``sizes``."""

    def loss(step: Step, progress: float, number: int) -> tuple[Tensor, float]:
        return losses(step, np.random.default_rng([args.seed, 7, number]))

    fit(side, batches, loss, **schedule(args), rate=args.rate, weight_decay=0.0, warm_up=20, decay=0.98, share=sizes.__getitem__)


def _size(value: Tensor) -> float:
    """The root mean square of what is not 0."""
    written = value.detach()[value.detach() != 0]
    return float(written.square().mean().sqrt()) if len(written) else SLIGHT


def train(args: argparse.Namespace) -> None:
    """Train and write the model folder ``args.out`` (arguments: ``add_arguments``)."""
    torch.manual_seed(args.seed)
    if args.start is not None:
        texts = finished_texts(args.start)
        side = scenes_learned_anew(texts, args)
    else:
        side, texts = both_sides(args)
    save(side, texts, model_args(SIDE), args.out)
    calibrate_clip(explainers.load(args.out, "cpu"), args.out, args.data)
    (args.out / TUNED).unlink(missing_ok=True)


def both_sides(args: argparse.Namespace) -> tuple[ImageSide, Texts]:
    """An image side tuned to the text side, or that of ``args.image_side``, and then the text side that has learned words."""
    projection = None if args.image_side is None else load_file(args.image_side / "model.safetensors")["text_projection.weight"].float()
    texts = new_texts(encoder_folder(args.encoder), args.vocabulary, projection)
    side = kept_side(texts, args) if args.image_side is None else loaded_side(args.image_side)
    return side, taught(texts, args.word_steps, args.seed, args.out / "words.pt", args.resume)


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
    feature_parts, teacher, move = seen(args)
    side = composed(feature_parts, teacher, texts, args.seed)
    tune(side, Losses(side, texts, teacher), feature_parts, move, args)
    return side


def scenes_learned_anew(texts: Texts, args: argparse.Namespace) -> ImageSide:
    """The image side of ``args.start`` with new detectors of what scenes show, tuned to lie near ``texts``; for photos it stays."""
    feature_parts, teacher, move = seen(args)
    side = loaded_side(args.start)
    write_detectors(side.vit, fitted_detectors(feature_parts, side.vit, args.seed))
    tune_scenes(side, Losses(side, texts, teacher, SCENES_WEIGHT), feature_parts, move, args)
    return side


def seen(args: argparse.Namespace) -> tuple[list[Part], Teacher, Mover]:
    """The pictures as the teacher sees them, the teacher, and what moves features."""
    pictures, teacher = Pictures(args.data, 0), Teacher(STAGES, early=True)
    teacher.fit_basis([photos(pictures, np.random.default_rng([args.seed, 1, number])) for number in range(FITTED)])
    feature_parts = list(parts(pictures, teacher, PARTS, args.seed, args.features))
    return feature_parts, teacher, Mover(teacher, [batch for part in feature_parts for batch in part.photos][:FITTED])


@torch.no_grad()
def loaded_side(folder: Path) -> ImageSide:
    """The image side of a finished model; one of before the early features gets weights of 0 for them."""
    clip = VisionTextDualEncoderModel.from_pretrained(folder, dtype=torch.float32, local_files_only=True)
    vit = create(ARCHITECTURE, [], model_args(SIDE))
    weights = clip.vision_model.timm_model.state_dict()
    read = weights["patch_embed.proj.weight"]
    missing = vit.patch_embed.proj.in_channels - read.shape[1]
    vit.load_state_dict(weights | {"patch_embed.proj.weight": F.pad(read, (0, 0, 0, 0, 0, missing))})
    side = ImageSide(vit)
    side.projection.weight.copy_(clip.visual_projection.weight)
    side.scale.copy_(clip.logit_scale)
    return side


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What ``train`` reads from the command line."""
    add_common_arguments(parser, minutes=15)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds sharp/, tiny_imagenet/ and coco128/")
    parser.add_argument("--rate", type=float, default=1.5e-3, help="highest learning rate, of the size of each weight (default 1.5e-3)")
    parser.add_argument("--features", type=Path, metavar="DIR", help="folder that keeps what the trunk makes of the pictures (4.6 GB)")
    before = parser.add_mutually_exclusive_group()
    before.add_argument("--image-side", type=Path, metavar="DIR", help="folder of a clip whose image side stays; its text side learns")
    before.add_argument("--start", type=Path, metavar="DIR", help="folder of a clip that learns scenes anew; all else of it stays")
    parser.add_argument("--word-steps", type=int, default=400, help="steps in which the text side learns words (default 400)")
    parser.add_argument("--encoder", type=Path, help="folder of all-MiniLM-L6-v2 (default: inside its installed package)")
    parser.add_argument("--vocabulary", type=int, default=VOCABULARY, help=f"word pieces to keep (default {VOCABULARY})")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser)
    train(parser.parse_args())
