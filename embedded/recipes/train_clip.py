"""``clip``: a small dual encoder that matches photos and rendered scenes with English prompts.

The text tower is a pretrained sentence encoder, pruned and locked (Zhai et al., "LiT", CVPR 2022): its embeddings of many prompts are
made once, and the image tower, which starts as ``photos-vit``, learns to land near those that are true of a picture. The teacher of
``photos-vit`` says what is true of a photo, as shares of ImageNet's classes; in every step each class goes by its name, a synonym or
the name of a group that it is in. So words that no prompt used are understood as far as the encoder knows what they mean.

Where a step keeps one rectangle of patches, the teacher says what lies in it, and only the objects of a scene that are in it count: a
prompt is to find its own object. The patches of scenes are asked what they show, as for ``scenes-vit``.
"""

from __future__ import annotations

import embedded.architectures  # noqa: F401  (before transformers and timm)

# isort: split
import argparse
import functools
import json
import math
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
    BertModel,
    PreTrainedTokenizerFast,
    TimmWrapperConfig,
    VisionTextDualEncoderConfig,
    VisionTextDualEncoderModel,
)
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

from embedded.architectures import MEAN, STD
from embedded.recipes.calibration import calibrate_prompts, letters_at_random, pieces_per_word, write
from embedded.recipes.data.clip import Mixed, mixed
from embedded.recipes.data.pictures import SIDE, Pictures, centred, sharp_files
from embedded.recipes.data.prompts import choose_names, classes, scene_groups, shared_out, worded, words
from embedded.recipes.data.scenes import KINDS
from embedded.recipes.networks.memory import (
    Shown,
    before_memory,
    best_threshold,
    keys,
    read_out,
    wanted_of_photos,
    wanted_of_scenes,
    write_memory,
)
from embedded.recipes.networks.moving import Mover
from embedded.recipes.networks.text_tower import VOCABULARY, centre_, directions, new_tower, read
from embedded.recipes.networks.trunk import DIRECTIONS, STAGES, Seen, efficientnet, normalised
from embedded.recipes.networks.vits import encode_features, halved, load, plain_attention
from embedded.recipes.train_photos_vit import ARCHITECTURE, TEMPERATURE, WIDTH, Stream, begin, choose, divergence, target
from embedded.recipes.train_reviews_bert import encoder_folder
from embedded.recipes.training import add_common_arguments, fit, schedule

SHARED = WIDTH  # numbers of the space in which pictures and prompts are compared
PHOTO_WORDINGS = 4  # of each word for what photos show
SCENE_WORDINGS = (8, 4, 2)  # of each prompt of `prompts.scene_groups`
SCENE_WEIGHTS = (1.0, 0.3, 0.3)  # of these groups in the loss
SMOOTHING = 0.1
PULL = 2.0  # weight of the cosine between a picture and what is true of it
SCENES = 24  # of a batch of 128
LABELLING = 0.5  # weight of what the patches of scenes are asked
LOCAL = 0.3  # weight of what all patches are asked of the teacher's features
ABSENT = 0.1  # share, over that of a guess, below which the teacher says that a class is not in a photo
REMEMBERED = 24  # batches that the memory is fitted to
HERE = 0.4  # share of an object's patches among those kept for it to count as there
GREATEST = math.log(100)  # of the scale


class ImageSide(nn.Module):
    """What is trained: the image tower, its projection, the scale of the logits, and two heads for patches that are thrown away."""

    def __init__(self, vit: VisionTransformer) -> None:
        super().__init__()
        self.vit = vit
        self.projection = nn.Linear(vit.num_features, SHARED, bias=False)
        self.scale = nn.Parameter(torch.tensor(math.log(30)))
        self.patch_head = nn.Linear(vit.num_features, len(KINDS) + 1)
        self.local_head = nn.Linear(vit.num_features, DIRECTIONS)

    def forward(self, features: Tensor, kept: Tensor | None, corner: tuple[int, int] = (0, 0)) -> tuple[Tensor, Tensor]:
        """Embeddings (B, SHARED) of length 1, and the tokens of the patches."""
        x = encode_features(self.vit, features, kept, corner)
        return F.normalize(self.projection(x[:, 0]).float(), dim=-1), x[:, 1:]


class Texts(NamedTuple):
    """The locked side: tower, tokenizer, projection (SHARED, width), and of all prompts (prompts, wordings, SHARED), length 1."""

    tower: BertModel
    tokenizer: PreTrainedTokenizerFast
    projection: Tensor
    photos: Tensor  # of `prompts.words`
    scenes: list[Tensor]  # of `prompts.scene_groups`

    def pick(self, bank: Tensor, rng: np.random.Generator) -> Tensor:
        """One wording of every prompt of a bank, (prompts, SHARED)."""
        return bank[torch.arange(len(bank)), torch.from_numpy(rng.integers(bank.shape[1], size=len(bank)))]


def locked_texts(encoder: Path, vocabulary: int) -> Texts:
    """The text side, always the same, with the embeddings of all prompts in several wordings each."""
    tower, tokenizer = new_tower(encoder, sorted({*KINDS, *words().names}), vocabulary)
    rng = np.random.default_rng([0, 5])
    groups = [[(name,) for name in words().names], *scene_groups()]
    embedded = []
    for group, count in zip(groups, (PHOTO_WORDINGS, *SCENE_WORDINGS), strict=True):
        texts = read(tower, tokenizer, [worded(rng, prompt) for prompt in group for _ in range(count)])
        embedded.append(texts.view(len(group), count, -1))
    names = embedded[0][: len(classes())].mean(1)
    centre_(tower, names)
    projection = directions(names, SHARED)
    with torch.no_grad():
        banks = [F.normalize(tower.pooler(group.flatten(0, 1)[:, None]) @ projection.T, dim=-1) for group in embedded]
    photos, *scenes = [bank.view(*group.shape[:2], SHARED) for bank, group in zip(banks, embedded, strict=True)]
    return Texts(tower, tokenizer, projection, photos, scenes)


@torch.no_grad()
def aim(side: ImageSide, head: nn.Linear, texts: Texts) -> None:
    """Set the projection so that products with the names are nearly what the head of ``photos-vit`` answers, in place.

    A projection adds nothing, so what the head adds is added by the normalisation before it.
    """
    names = F.normalize(texts.photos[: len(classes())].mean(1), dim=-1)
    weight, bias = head.weight - head.weight.mean(0), head.bias - head.bias.mean()
    side.vit.norm.bias.add_(torch.linalg.lstsq(weight, bias[:, None]).solution[:, 0])
    side.projection.weight.copy_(torch.linalg.pinv(names) @ weight)


def image_side(start: Path, texts: Texts) -> tuple[ImageSide, dict[str, Any]]:
    """The image side of a ``clip``, or one made of a ``photos-vit``; and the arguments of its architecture."""
    config = json.loads((start / "config.json").read_text("utf-8"))
    if "architecture" in config:
        vit = load(start)
        head = vit.head
        vit.reset_classifier(0)
        side = ImageSide(vit)
        aim(side, head, texts)
        return side, config["model_args"]
    clip = VisionTextDualEncoderModel.from_pretrained(start, dtype=torch.float32)
    side = ImageSide(clip.vision_model.timm_model)
    side.projection.load_state_dict(clip.visual_projection.state_dict())
    with torch.no_grad():
        side.scale.copy_(clip.logit_scale)
    return side, config["vision_config"]["model_args"]


def merged(logits: Tensor, chosen: Tensor) -> Tensor:
    """(B, words): what the teacher's logits (B, classes) say of words, where several classes may go by one; ``chosen`` (classes,)."""
    soft = (logits / TEMPERATURE).softmax(1)
    sums = torch.zeros(len(logits), int(chosen.max()) + 1, device=logits.device).index_add_(1, chosen, soft)
    return TEMPERATURE * sums.clamp(min=1e-9).log()


def still_there(targets: Tensor, patches: Tensor, kept: Tensor) -> Tensor:
    """Truths (B, prompts) of scenes of which only the patches ``kept`` (B, n) are seen: those of one object that is gone are left out.

    ``patches`` (B, N) says what each shows. Pairs of kinds and colours stay true where a scene keeps all objects, and count for nothing
    elsewhere.
    """
    every = F.one_hot(patches, len(KINDS) + 1)[..., :-1].sum(1)
    seen = F.one_hot(patches.gather(1, kept), len(KINDS) + 1)[..., :-1].sum(1)
    there = seen >= HERE * every.clamp(min=1)
    kinds = torch.stack([shared_out(row) for row in (targets[:, : len(KINDS)] > 0) & there])
    whole = (there | (targets[:, : len(KINDS)] == 0)).all(1, keepdim=True)
    return torch.cat([kinds, targets[:, len(KINDS) :] * whole], 1)


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


class Losses:
    """How far embeddings of pictures are from the prompts that are true of them."""

    def __init__(self, side: ImageSide, texts: Texts, device: str) -> None:
        self.side, self.texts, self.device = side, texts, device
        self.names = F.normalize(texts.photos[: len(classes())].mean(1), dim=-1).to(device)
        self.middles = [bank.mean(1).to(device) for bank in texts.scenes]

    def _logits(self, embeddings: Tensor, bank: Tensor, rng: np.random.Generator) -> Tensor:
        return self.side.scale.clamp(max=GREATEST).exp() * embeddings @ self.texts.pick(bank, rng).to(self.device).T

    def photos(self, embeddings: Tensor, wanted: Tensor, rng: np.random.Generator) -> tuple[Tensor, float]:
        """Of photos that the teacher answers ``wanted`` (B, classes) to; and how often the same word is likeliest."""
        places, chosen = np.unique(choose_names(rng), return_inverse=True)
        logits = self._logits(embeddings, self.texts.photos[torch.from_numpy(places)], rng)
        truth = merged(wanted, torch.from_numpy(chosen).to(self.device))
        near = F.cosine_similarity(embeddings, wanted.softmax(1) @ self.names).mean()
        return divergence(logits, truth) + PULL * (1 - near), float((logits.argmax(1) == truth.argmax(1)).float().mean())

    def scenes(self, embeddings: Tensor, targets: Tensor, rng: np.random.Generator) -> Tensor:
        """Of scenes of which ``targets`` (B, prompts) are true."""
        value, truth = torch.zeros((), device=self.device), torch.zeros_like(embeddings)
        parts = targets.split([len(bank) for bank in self.texts.scenes], 1)
        for weight, bank, middle, part in zip(SCENE_WEIGHTS, self.texts.scenes, self.middles, parts, strict=True):
            value = value + weight * soft_loss(self._logits(embeddings, bank, rng), part)
            truth = truth + weight * part @ middle
        known = truth.any(1)
        return value + PULL * (known.float() - F.cosine_similarity(embeddings, truth) * known).mean()


def train(args: argparse.Namespace) -> None:
    """Train and write the model folder ``args.out`` (arguments: ``add_arguments``)."""
    torch.manual_seed(args.seed)
    kind = args.device.split(":")[0]
    pictures = Pictures(args.data, args.batch)
    teacher, begun = begin(pictures, STAGES, args.seed)
    texts = locked_texts(encoder_folder(args.encoder), args.vocabulary)
    side, model_args = image_side(args.start, texts)
    plain_attention(side.vit, args.device)
    side.vit.patch_embed.backbone.requires_grad_(False)
    side.to(args.device)
    grid, readout = side.vit.patch_embed.grid_size[0], teacher.readout.to(args.device)
    losses, move = Losses(side, texts, args.device), Mover(teacher, begun)

    def loss(batch: Mixed, progress: float, step: int) -> tuple[Tensor, float]:
        rng = np.random.default_rng([args.seed, 6, step])
        photos, width = len(batch.seen.tokens) - len(batch.targets), math.isqrt(batch.seen.tokens.shape[1])
        seen = Seen(*(part.to(args.device) for part in move(batch.seen, rng, photos)))
        corner = int(rng.integers(grid - width + 1)), int(rng.integers(grid - width + 1))
        kept, window = choose(rng, len(seen.tokens), width)
        kept = torch.arange(width**2).expand(len(seen.tokens), -1) if kept is None else kept
        kept = kept.to(args.device)
        with torch.autocast(kind, torch.bfloat16):
            embeddings, tokens = side(seen.tokens.float(), kept, corner)
            local_answers, named = side.local_head(tokens), side.patch_head(tokens[photos:])
        value, right = losses.photos(
            embeddings[:photos], target(Seen(*(part[:photos] for part in seen)), kept[:photos], window, readout), rng
        )
        local = seen.local.float().gather(1, kept[..., None].expand(-1, -1, DIRECTIONS))
        value = value + LOCAL * (1 - progress) * F.mse_loss(local_answers.float(), local) / local.var()
        if len(batch.targets):
            patches = batch.patches.to(args.device).flatten(1)
            value = value + args.scenes * losses.scenes(
                embeddings[photos:], still_there(batch.targets.to(args.device), patches, kept[photos:]), rng
            )
            shown = patches.gather(1, kept[photos:])
            value = value + LABELLING * (1 - progress) * F.cross_entropy(named.float().flatten(0, 1), shown.flatten())
        return value, right

    make = functools.partial(mixed, pictures, round(SCENES * args.batch / 128), teacher)
    stream = Stream(make, args.seed)
    fit(side, stream, loss, **schedule(args), rate=args.rate, warm_up=50, decay=0.99, muon=lambda n: ".blocks." in n)
    batches = [make(np.random.default_rng([args.seed, 7, number])) for number in range(REMEMBERED)]
    remember(side, known_names(texts), batches, move, args.seed)
    save(side, texts, model_args, args.out)
    write(args.out, calibrated(side, texts, args.data))


def known_names(texts: Texts) -> Tensor:
    """(classes + kinds, SHARED), length 1: the middle of each name's wordings."""
    return F.normalize(torch.cat([texts.photos[: len(classes())].mean(1), texts.scenes[0].mean(1)]), dim=-1)


@torch.inference_mode()
def remember(side: ImageSide, names: Tensor, batches: list[Mixed], move: Mover, seed: int) -> float:
    """Write the ``names`` of classes and kinds into the last MLP, in place, and fit the scale; returns from when on units write.

    Both are chosen on the photos of the first batch, which the keys are not fitted to.
    """
    rng, vit, number = np.random.default_rng([seed, 8]), side.to("cpu").eval().vit, len(classes())
    shown: list[Shown] = []
    for batch in batches:
        photos, grid = len(batch.seen.tokens) - len(batch.targets), batch.seen.tokens.shape[1]
        if grid != vit.patch_embed.num_patches:
            continue
        seen = Seen(*(part[:photos] for part in batch.seen))
        moved, kept = move(seen, rng), torch.from_numpy(rng.random((photos, grid))).argsort(1)[:, : grid // 2]
        for some, part in ((seen, None), (moved, kept)):
            wanted = wanted_of_photos(some.logits.float(), len(KINDS))
            shown.append(Shown(before_memory(vit, some.tokens.float(), part), wanted))
        if len(batch.targets):
            wanted = wanted_of_scenes(batch.targets[:, : len(KINDS)], number)
            shown.append(Shown(before_memory(vit, batch.seen.tokens[photos:].float()), wanted))
    first, *others = shown
    weight, bias = keys(Shown(*(torch.cat(parts) for parts in zip(*(others or shown), strict=True))))
    answers = F.linear(first.tokens, weight, bias)
    threshold = best_threshold(answers, names, first.wanted[:, :number].argmax(1))
    write_memory(vit, side.projection, weight, bias, threshold, names)
    cosines, truth = read_out(answers, threshold, names) @ names[:number].T, first.wanted[:, :number].softmax(1)
    scales = torch.linspace(math.log(5), GREATEST, 60)
    side.scale.fill_(min(scales.tolist(), key=lambda scale: float(F.cross_entropy(math.exp(scale) * cosines, truth))))
    return threshold


@torch.inference_mode()
def calibrated(side: ImageSide, texts: Texts, data: Path, batch: int = 32) -> dict[str, Any]:
    """The calibration of a finished model: on photos held back, with the teacher's word for what is in them."""
    side.to("cpu").eval()
    held_back = torch.from_numpy(np.stack([centred(Image.open(path)) for path in sharp_files(data, held_back=True)]))
    network = efficientnet()
    shares = torch.cat([network(normalised(some)).softmax(1) for some in held_back.split(batch)])
    tokens = [side.vit.patch_embed.backbone(normalised(some)).flatten(2).transpose(1, 2) for some in held_back.split(batch)]
    seen = torch.cat([side(some, None)[0] for some in tokens])
    names = texts.photos[: len(classes())].mean(1)
    cosines = seen @ F.normalize(names, dim=-1).T
    sure = shares.amax(1).argsort(descending=True)[: max(2, len(shares) // 2)]
    prompts = [f"a photo of a {word}" for word in words().names]
    strange = [f"a photo of a {word}" for word in letters_at_random(300)]
    return calibrate_prompts(
        cosines[sure].gather(1, shares[sure].argmax(1, keepdim=True))[:, 0],
        cosines[shares < ABSENT / len(names)],
        pieces_per_word(prompts, texts.tokenizer),
        pieces_per_word(strange, texts.tokenizer),
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What ``train`` reads from the command line."""
    add_common_arguments(parser, minutes=30)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds sharp/ and tiny_imagenet/")
    parser.add_argument(
        "--start",
        type=Path,
        metavar="DIR",
        required=True,
        help="folder of the photos-vit that the image tower starts as, or of a clip to go on from (with another --seed)",
    )
    parser.add_argument("--rate", type=float, default=7e-4, help="highest learning rate (default 7e-4)")
    parser.add_argument("--batch", type=int, default=128, help="pictures a step (default 128)")
    parser.add_argument("--scenes", type=float, default=1.0, help="weight of the scenes in the loss (default 1)")
    parser.add_argument(
        "--stages", type=int, default=STAGES, choices=(5, 6, 7), help="of the trunk's 7 stages, how many to keep (default 7)"
    )
    parser.add_argument("--encoder", type=Path, help="folder of all-MiniLM-L6-v2 (default: inside its installed package)")
    parser.add_argument("--vocabulary", type=int, default=VOCABULARY, help=f"word pieces to keep (default {VOCABULARY})")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser)
    train(parser.parse_args())
