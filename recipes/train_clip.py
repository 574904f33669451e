"""``clip``: a small dual encoder that matches photos and rendered scenes with English prompts.

The text tower is a pretrained sentence encoder, pruned and at first locked (Zhai et al., "LiT", CVPR 2022): its embeddings of many prompts
are made once. The image tower is written (``networks.written_clip``) from the weights of EfficientNet-Lite0 and of detectors of what scenes
show, and then tuned: it learns to land near the prompts that are true of a picture. EfficientNet-Lite0 itself says what is true of a photo,
as shares of ImageNet's classes; in every step each class goes by its name, a synonym or the name of a group that it is in. In the end the
text tower learns synonyms and groups (``clip_texts``).

A finished clip may learn scenes again (``--start``): its detectors are fitted again, and only what is about scenes alone is tuned, so that
it says of photos what it said.
"""

from __future__ import annotations

import explainers.embedded.architectures

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
from explainers.embedded.architectures import MEAN, STD
from explainers.embedded.synthetic.scenes import KINDS
from recipes.clip_calibration import calibrate_clip
from recipes.clip_images import MAX_LOG_SCALE, ImageSide, Losses, Step, steps
from recipes.clip_texts import SHARED, Texts, load_texts, new_texts, teach_words
from recipes.data.clip import Part, parts, photos
from recipes.data.pictures import SIDE, Pictures
from recipes.detectors import fit_detectors
from recipes.networks.feature_shift import Mover
from recipes.networks.pruning import save_tokenizer
from recipes.networks.text_tower import VOCABULARY
from recipes.networks.trunk import STAGES, Teacher, teacher_trunk
from recipes.networks.vits import create, to_half
from recipes.networks.written_clip import (
    LAST_FEATURES,
    Detectors,
    compose,
    model_args,
    scene_weights,
    tuned_parameters,
    write_detectors,
)
from recipes.train_photos_vit import ARCHITECTURE
from recipes.train_reviews_bert import encoder_folder
from recipes.training import add_common_arguments, fit, schedule

TUNED_FILE = "image_side.pt"  # file of the tuned image side while the text side learns
PARTS = 12  # number of parts of the training pictures
FIT_BATCHES = 8  # number of batches that the directions of the last layer are fitted to
SCENE_STEP_COUNTS = (16, 32)  # photos and scenes of a step where scenes alone are learned
SCENES_WEIGHT = 4.0  # weight of the loss of whole scenes, where scenes alone are learned
ZERO_WEIGHT_SIZE = 0.05  # the size assumed of a weight that is all zeros


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


def compose_side(feature_parts: Sequence[Part], teacher: Teacher, texts: Texts, seed: int) -> ImageSide:
    """Build the image side with written weights, before it is tuned, for the words of ``texts``. ``feature_parts`` hold the features of
    training pictures, ``teacher`` gives the trunk's weights.
    """
    vit = create(ARCHITECTURE, [], model_args(SIDE))
    vit.patch_embed.backbone.load_state_dict(teacher_trunk(STAGES))
    photos = [batch for part in feature_parts for batch in part.photos]
    tokens = torch.cat([batch.tokens[:, ::8].float().flatten(0, 1) for batch in photos[:FIT_BATCHES]])
    compose(vit, teacher, fit_tower_detectors(feature_parts, vit, seed), texts.names(), tokens)
    return ImageSide(vit)


def fit_tower_detectors(feature_parts: Sequence[Part], vit: VisionTransformer, seed: int) -> Detectors:
    """Train detectors of the kinds of scenes on ``feature_parts``, with as many units as the tower of ``vit`` has room for."""
    photos, scenes = ([batch for part in feature_parts for batch in part[side]] for side in range(2))
    return fit_detectors(scenes, photos, vit.blocks[0].mlp.fc1.out_features - LAST_FEATURES, seed)


def tune(side: ImageSide, losses: Losses, feature_parts: Sequence[Part], move: Mover, args: argparse.Namespace) -> None:
    """Tune those parameters of ``side``, the image side, that ``written_clip.tuned_parameters`` names, in place, on ``feature_parts``; each
    weight at a rate in proportion to its size.
    """
    side.requires_grad_(False)
    for value in (side.scale, *tuned_parameters(side.vit)):
        value.requires_grad_(True)
    sizes = {name: _size(value) for name, value in side.named_parameters()} | {"scale": 4.0}
    fit_side(side, losses, lambda first: steps(feature_parts, move, args.seed, first), sizes, args)


def tune_scenes(side: ImageSide, losses: Losses, feature_parts: Sequence[Part], move: Mover, args: argparse.Namespace) -> None:
    """Tune the weights of ``side``, the image side, that concern kinds of scenes alone, in place, on ``feature_parts``; photos are shown so
    that its answers to them stay.
    """
    side.requires_grad_(False)
    sizes = dict.fromkeys(dict(side.named_parameters()), 0.0)
    for name, places in scene_weights(len(KINDS)).items():
        value = side.vit.get_parameter(name).requires_grad_(True)
        mask = torch.zeros_like(value)
        for place in places:
            mask[place] = 1
        value.register_hook(mask.mul)
        sizes[f"vit.{name}"] = _size(value * mask)
    fit_side(side, losses, lambda first: steps(feature_parts, move, args.seed, first, SCENE_STEP_COUNTS), sizes, args)


def fit_side(
    side: ImageSide, losses: Losses, batches: Callable[[int], Iterator[Step]], sizes: Mapping[str, float], args: argparse.Namespace
) -> None:
    """Train the parameters of ``side`` that need gradients, in place, on ``batches``, at rates in proportion to ``sizes``."""

    def loss(step: Step, progress: float, number: int) -> tuple[Tensor, float]:
        return losses(step, np.random.default_rng([args.seed, 7, number]))

    fit(side, batches, loss, **schedule(args), rate=args.rate, weight_decay=0.0, warm_up=20, decay=0.98, share=sizes.__getitem__)


def _size(value: Tensor) -> float:
    """Return the root mean square of those numbers of ``value`` that are not 0; `ZERO_WEIGHT_SIZE` if all are 0."""
    written = value.detach()[value.detach() != 0]
    return float(written.square().mean().sqrt()) if len(written) else ZERO_WEIGHT_SIZE


def train(args: argparse.Namespace) -> None:
    """Train and write the model folder ``args.out`` (arguments: ``add_arguments``)."""
    torch.manual_seed(args.seed)
    if args.start is not None:
        texts = load_texts(args.start)
        side = learn_scenes_again(texts, args)
    else:
        side, texts = train_both_sides(args)
    save(side, texts, model_args(SIDE), args.out)
    calibrate_clip(explainers.load(args.out, "cpu"), args.out, args.data)
    (args.out / TUNED_FILE).unlink(missing_ok=True)


def train_both_sides(args: argparse.Namespace) -> tuple[ImageSide, Texts]:
    """Return the image side, tuned or that of ``args.image_side``, and the text side after it has learned words."""
    projection = None if args.image_side is None else load_file(args.image_side / "model.safetensors")["text_projection.weight"].float()
    texts = new_texts(encoder_folder(args.encoder), args.vocabulary, projection)
    side = tune_or_read_side(texts, args) if args.image_side is None else load_side(args.image_side)
    return side, teach_words(texts, args.word_steps, args.seed, args.out / "words.pt", args.resume)


def tune_or_read_side(texts: Texts, args: argparse.Namespace) -> ImageSide:
    """Return the tuned image side, from its file in ``args.out`` if a run is resumed that has written it; otherwise it is tuned and written
    there.
    """
    path = args.out / TUNED_FILE
    if args.resume and path.exists():
        side = ImageSide(create(ARCHITECTURE, [], model_args(SIDE)))
        side.load_state_dict(torch.load(path, weights_only=True))
        return side
    side = tune_new_side(texts, args)
    torch.save(side.state_dict(), path)
    return side


def tune_new_side(texts: Texts, args: argparse.Namespace) -> ImageSide:
    """Build the image side and tune it to lie near ``texts``."""
    feature_parts, teacher, move = see_pictures(args)
    side = compose_side(feature_parts, teacher, texts, args.seed)
    tune(side, Losses(side, texts, teacher.readout, teacher.bias), feature_parts, move, args)
    return side


def learn_scenes_again(texts: Texts, args: argparse.Namespace) -> ImageSide:
    """Return the image side of ``args.start`` with new detectors of scenes, tuned to lie near ``texts``; its answers to photos stay."""
    feature_parts, teacher, move = see_pictures(args)
    side = load_side(args.start)
    write_detectors(side.vit, fit_tower_detectors(feature_parts, side.vit, args.seed))
    tune_scenes(side, Losses(side, texts, teacher.readout, teacher.bias, SCENES_WEIGHT), feature_parts, move, args)
    return side


def see_pictures(args: argparse.Namespace) -> tuple[list[Part], Teacher, Mover]:
    """Return the training pictures as the teacher sees them, the teacher, and the mover of features. ``args`` name the folders and the
    seed.
    """
    pictures, teacher = Pictures(args.data, 0), Teacher(STAGES, early=True)
    teacher.fit_basis([photos(pictures, np.random.default_rng([args.seed, 1, number])) for number in range(FIT_BATCHES)])
    feature_parts = list(parts(pictures, teacher, PARTS, args.seed, args.features))
    return feature_parts, teacher, Mover(teacher, [batch for part in feature_parts for batch in part.photos][:FIT_BATCHES])


@torch.no_grad()
def load_side(folder: Path) -> ImageSide:
    """Load the image side of the finished model in ``folder``; one made before the early features existed gets weights of 0 for them."""
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
    """Declare the command-line arguments that ``train`` reads."""
    add_common_arguments(parser, minutes=15)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds sharp/, tiny_imagenet/ and coco128/")
    parser.add_argument("--rate", type=float, default=1.5e-3, help="highest learning rate, of the size of each weight (default 1.5e-3)")
    parser.add_argument("--features", type=Path, metavar="DIR", help="folder that keeps what the trunk makes of the pictures (4.6 GB)")
    before = parser.add_mutually_exclusive_group()
    before.add_argument("--image-side", type=Path, metavar="DIR", help="folder of a clip whose image side stays; its text side learns")
    before.add_argument("--start", type=Path, metavar="DIR", help="folder of a clip model that learns scenes again; its other weights stay")
    parser.add_argument("--word-steps", type=int, default=400, help="steps in which the text side learns words (default 400)")
    parser.add_argument("--encoder", type=Path, help="folder of all-MiniLM-L6-v2 (default: inside its installed package)")
    parser.add_argument("--vocabulary", type=int, default=VOCABULARY, help=f"word pieces to keep (default {VOCABULARY})")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser)
    train(parser.parse_args())
