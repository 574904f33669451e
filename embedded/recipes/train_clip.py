"""``clip``: a small dual encoder that matches photos and rendered scenes with English prompts.

The text tower is a pretrained sentence encoder, pruned and locked (Zhai et al., "LiT", CVPR 2022): its embeddings of many prompts are
made once, and the image tower, which starts as ``photos-vit``, learns to land near those that are true of a picture. So words that no
prompt used are understood as far as the encoder knows what they mean. A step's pictures are photos and scenes, some of them cut
together; sizes and removed patches are as for ``photos-vit``. At first the patches of scenes are asked what they show, as for
``scenes-vit``. In the last stage batch normalisation divides by what was counted on pictures as they are, no longer by each batch's own.

Telling true prompts from false ones does not take a picture close to the true ones: it may lie far behind them, away from the false,
where words of no prompt are not. So nearness counts too (`PULL`), and at the start and the end the projection is the one that lands
nearest (`aim`): of words never trained on, that alone took the right first of ten from 48 to 58 % in a trial of ten minutes.
"""

from __future__ import annotations

import embedded.architectures  # noqa: F401  (before transformers and timm)

# isort: split
import argparse
import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn
from transformers import (
    BertModel,
    PreTrainedTokenizerFast,
    TimmWrapperConfig,
    VisionTextDualEncoderConfig,
    VisionTextDualEncoderModel,
)
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

from embedded.recipes.clip_data import Mixture, Scenes, at_grid
from embedded.recipes.photos_data import SIDE, cut_mix, mosaic
from embedded.recipes.prompts import KNOWN, class_names, groups, worded
from embedded.recipes.scenes import KINDS
from embedded.recipes.text_tower import VOCABULARY, centre_, directions, new_tower, read
from embedded.recipes.train_photos_vit import CALIBRATION, PATCH, recalibrate, soft_loss
from embedded.recipes.train_reviews_bert import encoder_folder
from embedded.recipes.training import add_common_arguments, fit, mix_, schedule
from embedded.recipes.vits import encode, halved, load, plain_attention, removed

SHARED = 128  # numbers of the space in which pictures and prompts are compared
WORDINGS = (8, 8, 2, 8)  # of each prompt of `prompts.groups`
WEIGHTS = (1.0, 0.3, 0.3, 0.5)  # of these groups in the loss
PULL = 5.0  # weight of the cosine between a picture and what is true of it
RIDGE = 0.1  # of the mean square of a feature: keeps the nearest projection from following noise
LABELLING_UNTIL = 0.6  # of the training: the patches of scenes are asked what they show, less and less
GREY_SHARE = 0.2  # of the steps with patches removed: they are painted grey instead
# until which part of the training, how many pixels wide, and which shares of the patches a step may keep
STAGES: tuple[tuple[float, int, tuple[float, ...]], ...] = (
    (0.45, SIDE // 2, (0.5, 0.75)),
    (0.8, 3 * SIDE // 4, (0.25, 0.5)),
    (1.0, SIDE, (0.25, 0.5, 1.0)),
)


class ImageSide(nn.Module):
    """What is trained: the image tower, its projection, the scale of the logits, and a head for patches that is thrown away."""

    def __init__(self, vit: VisionTransformer) -> None:
        super().__init__()
        self.vit = vit
        self.projection = nn.Linear(vit.num_features, SHARED, bias=False)
        self.scale = nn.Parameter(torch.tensor(0.0))  # a logarithm
        self.patch_head = nn.Linear(vit.num_features, len(KINDS) + 1)

    def forward(self, pixels: Tensor, kept: Tensor | None) -> tuple[Tensor, Tensor]:
        """Embeddings (B, SHARED) of length 1 times the scale, and the tokens of the patches."""
        x = encode(self.vit, pixels, kept)
        return self.scale.clamp(max=math.log(100)).exp() * F.normalize(self.projection(x[:, 0]).float(), dim=-1), x[:, 1:]


class Texts(NamedTuple):
    """The locked side: tower, tokenizer, projection (SHARED, width), and for each group of prompts (prompts, wordings, SHARED)."""

    tower: BertModel
    tokenizer: PreTrainedTokenizerFast
    projection: Tensor
    banks: list[Tensor]

    @property
    def sizes(self) -> list[int]:
        """How many prompts each group has."""
        return [len(bank) for bank in self.banks]

    def truth(self, targets: Tensor) -> Tensor:
        """(B, SHARED) of length 1: the middle of the prompts that ``targets`` (B, prompts) says are true, weighed as in the loss."""
        middles = torch.cat([weight * bank.mean(1) for weight, bank in zip(WEIGHTS, self.banks, strict=True)])
        return F.normalize(targets @ middles.to(targets.device), dim=-1)

    def pick(self, rng: np.random.Generator) -> Tensor:
        """One wording of every prompt, (prompts, SHARED)."""
        rows = [(bank, torch.from_numpy(rng.integers(bank.shape[1], size=len(bank)))) for bank in self.banks]
        return torch.cat([bank[torch.arange(len(bank)), chosen] for bank, chosen in rows])


def locked_texts(encoder: Path, classes: list[str], vocabulary: int) -> Texts:
    """The text side, always the same, with the embeddings, of length 1, of all prompts in several wordings each."""
    tower, tokenizer = new_tower(encoder, sorted({*KNOWN, *classes}), vocabulary)
    rng = np.random.default_rng([0, 5])
    found = []
    for group, count in zip(groups(classes), WORDINGS, strict=True):
        texts = read(tower, tokenizer, [worded(rng, prompt) for prompt in group for _ in range(count)])
        found.append(texts.view(len(group), count, -1))
    means = torch.cat([group.mean(1) for group in found])
    centre_(tower, means)
    projection = directions(means, SHARED)
    with torch.no_grad():
        banks = [F.normalize(tower.pooler(group.flatten(0, 1)[:, None]) @ projection.T, dim=-1) for group in found]
    return Texts(tower, tokenizer, projection, [bank.view(*group.shape[:2], SHARED) for bank, group in zip(banks, found, strict=True)])


def image_sides(starts: Sequence[Path]) -> tuple[ImageSide, dict[str, Any]]:
    """`image_side` of the first, with the mean of all their weights."""
    side, model_args = image_side(starts[0])
    for before, start in enumerate(starts[1:], 1):
        mix_(side, image_side(start)[0].state_dict(), 1 / (before + 1))
    return side, model_args


def image_side(start: Path) -> tuple[ImageSide, dict[str, Any]]:
    """The image side of a ``clip``, or one made of a ``photos-vit``, not yet aimed; and the arguments of its architecture."""
    config = json.loads((start / "config.json").read_text("utf-8"))
    if "architecture" in config:
        vit = load(start)
        vit.reset_classifier(0)
        return ImageSide(vit), config["model_args"]
    clip = VisionTextDualEncoderModel.from_pretrained(start, dtype=torch.float32)
    side = ImageSide(clip.vision_model.timm_model)
    side.projection.load_state_dict(clip.visual_projection.state_dict())
    with torch.no_grad():
        side.scale.copy_(clip.logit_scale)
    return side, config["vision_config"]["model_args"]


@torch.no_grad()
def aim(side: ImageSide, texts: Texts, pictures: Iterable[tuple[Tensor, Tensor]]) -> None:
    """Set the projection that takes pictures nearest to what is true of them, and the scale that fits the names best, in place.

    ``pictures`` are batches of pixels and targets (B, prompts). The projection is a ridge regression from the tower's features to
    `Texts.truth`.
    """
    side.eval()
    found = [(encode(side.vit, pixels)[:, 0].double(), targets) for pixels, targets in pictures]
    features, targets = torch.cat([some for some, _ in found]), torch.cat([some for _, some in found])
    squares = features.T @ features
    ridge = RIDGE * squares.diagonal().mean() * torch.eye(len(squares), dtype=squares.dtype, device=squares.device)
    side.projection.weight.copy_(torch.linalg.solve(squares + ridge, features.T @ texts.truth(targets).double()).T)
    names = texts.banks[0].mean(1).to(targets.device)
    cosines = F.normalize(side.projection(features.float()), dim=-1) @ F.normalize(names, dim=-1).T
    scales = torch.linspace(math.log(5), math.log(100), 60)
    losses = torch.stack([soft_loss(scale.exp() * cosines, targets[:, : len(names)]) for scale in scales])
    side.scale.copy_(scales[losses.argmin()])


def objective(logits: Tensor, targets: Tensor, sizes: list[int]) -> tuple[Tensor, float]:
    """The loss of (B, prompts) in groups of ``sizes``, and how often the likeliest of the first group is true where one is."""
    parts = list(zip(logits.split(sizes, 1), targets.split(sizes, 1), strict=True))
    value = torch.stack([weight * soft_loss(*part) for weight, part in zip(WEIGHTS, parts, strict=True)]).sum()
    names, true = parts[0]
    right = true.gather(1, names.argmax(1, keepdim=True))[true.sum(1) > 0].gt(0)
    return value, float(right.float().mean())


def save(side: ImageSide, texts: Texts, model_args: dict[str, Any], out: Path) -> None:
    """Write the folder that transformers loads once ``embedded.architectures`` is imported; weights as float16, to be loaded as float32."""
    config = TimmWrapperConfig(
        architecture="vitrine_hybrid",
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
        clip.logit_scale.copy_(side.scale.clamp(max=math.log(100)))
    clip.save_pretrained(out)
    save_file(halved(load_file(out / "model.safetensors")), out / "model.safetensors", {"format": "pt"})
    _forget_origin(out / "config.json")
    texts.tokenizer.backend_tokenizer.no_truncation()  # settings of the last call, which would be stored as defaults
    texts.tokenizer.backend_tokenizer.no_padding()
    texts.tokenizer.save_pretrained(out)
    CLIPImageProcessorPil(
        size={"shortest_edge": SIDE},
        crop_size={"height": SIDE, "width": SIDE},
        image_mean=[0.5] * 3,
        image_std=[0.5] * 3,
    ).save_pretrained(out)


def _forget_origin(path: Path) -> None:
    """Leave out of a configuration where its parts were read from on this machine."""
    config = json.loads(path.read_text("utf-8"))
    for part in (config, *(part for part in config.values() if isinstance(part, dict))):
        part.pop("_name_or_path", None)
    path.write_text(json.dumps(config, indent=1) + "\n", "utf-8")


def train(args: argparse.Namespace) -> None:
    """Train and write the model folder ``args.out`` (arguments: ``add_arguments``)."""
    torch.manual_seed(args.seed)
    kind = args.device.split(":")[0]
    names = class_names(args.data)
    texts = locked_texts(encoder_folder(args.encoder), names, args.vocabulary)
    mixture = Mixture(args.data, len(names), args.batch, args.scenes, args.seed, args.device)
    side, model_args = image_sides(args.start)
    side.to(args.device, memory_format=torch.channels_last)  # a fifth faster on a CPU
    plain_attention(side.vit, args.device)

    def loss(scenes: Scenes, done: float, step: int) -> tuple[Tensor, float]:
        progress = args.begin + (1 - args.begin) * done
        rng = np.random.default_rng([args.seed, 6, step])
        late = progress >= STAGES[-2][0]
        if late and side.vit.training:
            recalibrate(side.vit, (pixels for pixels, _ in mixture.plain(CALIBRATION)))
        pixels, targets = mixture.complete(scenes, rng, varied=not late or rng.random() < 0.5)
        mixing = rng.choice([None, cut_mix, mosaic], p=[0.7, 0.15, 0.15])
        if mixing is not None:
            pixels, targets = mixing(pixels, targets, rng)
        width, shares = next(stage[1:] for stage in STAGES if progress < stage[0])
        pixels, share = F.interpolate(pixels, (width, width), mode="area").contiguous(memory_format=torch.channels_last), rng.choice(shares)
        grid = width // PATCH
        kept = torch.from_numpy(rng.random((len(pixels), grid**2))).argsort(1)[:, : round(grid**2 * share)].to(args.device)
        grey = width == SIDE and share < 1 and rng.random() < GREY_SHARE
        if grey:
            pixels = removed(pixels, kept, PATCH)
        with torch.autocast(kind, torch.bfloat16):
            embeddings, patches = side(pixels, None if grey or share == 1 else kept)
        logits = embeddings @ texts.pick(rng).to(args.device).T
        value, right = objective(logits, targets, texts.sizes)
        value = value + PULL * (1 - F.cosine_similarity(embeddings, texts.truth(targets)).mean())
        labelling = max(0.0, 1 - progress / LABELLING_UNTIL)
        if labelling and mixing is None and not grey:
            labels = at_grid(scenes.patches, grid).to(args.device).gather(1, kept[: len(scenes.images)])
            asked = side.patch_head(patches[: len(labels)]).float()
            value = value + labelling * F.cross_entropy(asked.flatten(0, 1), labels.flatten())
        return value, right

    length = schedule(args)
    if args.steps != 0 and not (args.resume and length["checkpoint"].exists()):
        aim(side, texts, mixture.plain(CALIBRATION))
    fit(
        side,
        mixture.batches,
        loss,
        **length,
        rate=args.rate,
        warm_up=50,
        decay=0.99,
        muon=lambda name: ".blocks." in name,
    )
    pictures = list(mixture.plain(CALIBRATION))
    recalibrate(side.vit, (pixels for pixels, _ in pictures))  # again, with the averaged weights
    aim(side, texts, pictures)
    save(side, texts, model_args, args.out)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What ``train`` reads from the command line."""
    add_common_arguments(parser, minutes=35)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds tiny_imagenet/")
    parser.add_argument(
        "--start",
        type=Path,
        nargs="+",
        metavar="DIR",
        required=True,
        help="folder of the photos-vit that the image tower starts as, or of a clip to go on from (with another --seed), or of several",
    )
    parser.add_argument("--begin", type=float, default=0.0, help="where in the stages to begin (default 0; 0.8: full size only)")
    parser.add_argument("--rate", type=float, default=1e-3, help="highest learning rate (default 1e-3)")
    parser.add_argument("--batch", type=int, default=128, help="pictures a step (default 128)")
    parser.add_argument("--scenes", type=float, default=0.5, help="share of scenes among the pictures, the rest are photos (default 0.5)")
    parser.add_argument("--encoder", type=Path, help="folder of all-MiniLM-L6-v2 (default: inside its installed package)")
    parser.add_argument("--vocabulary", type=int, default=VOCABULARY, help=f"word pieces to keep (default {VOCABULARY})")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser)
    train(parser.parse_args())
