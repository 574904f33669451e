"""``scenes-clip``: a small CLIP that matches rendered scenes with captions.

The vision tower starts as ``scenes-vit``. At first only the text tower and the projections learn; then everything does.
A batch is asked two things: which kinds each scene holds, among one prompt for every kind, and which of the batch's
captions are true of it (a caption may be true of several scenes, and all of them count). Patches are removed at random
as for ``scenes-vit``.
"""

from __future__ import annotations

import explainers.torchvision_ops  # noqa: F401  (before transformers)

# isort: split
import argparse
import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from transformers import CLIPConfig, CLIPModel, CLIPProcessor, PreTrainedTokenizerBase
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

from embedded.recipes.captions import BOS, EOS, LENGTH, PAD, kind_captions, matches, scene_caption, tokenizer
from embedded.recipes.scenes import KINDS, render
from embedded.recipes.train_scenes_vit import BATCH, MODEL_ARGS, PATCH, SIZE
from embedded.recipes.training import add_common_arguments, fit, schedule
from embedded.recipes.vits import load, tensors

WIDTH, TEXT_WIDTH, TEXT_DEPTH, SHARED = MODEL_ARGS["embed_dim"], 128, 3, 128
LOCKED_UNTIL = 0.25  # of the training: the vision tower stays as it is
VISION_RATE = 0.25  # its learning rate after that, as a share of the others'
DEFAULT_VIT = Path(__file__).parent.parent / "models" / "scenes-vit"


class Batch(NamedTuple):
    """Scenes, texts (one a kind, then one a scene) and which text is true of which scene."""

    images: Tensor  # uint8 (B, SIZE, SIZE, 3)
    texts: list[str]  # kinds + B
    fits: Tensor  # bool (B, kinds + B)


class CaptionedBatches(Dataset[Batch]):
    """Batch number i of the endless sequence that ``seed`` names."""

    def __init__(self, seed: int, first: int = 0, batch: int = BATCH) -> None:
        self.seed, self.first, self.batch = seed, first, batch

    def __len__(self) -> int:
        return 10**9

    def __getitem__(self, index: int) -> Batch:
        rng = np.random.default_rng([self.seed, 2, self.first + index])
        scenes = [render(rng, SIZE) for _ in range(self.batch)]
        captions = kind_captions(rng) + [scene_caption(rng, scene) for scene in scenes]
        images = np.stack([np.asarray(scene.image) for scene in scenes])
        return Batch(torch.from_numpy(images), [c.text for c in captions], torch.from_numpy(matches(scenes, captions)))


def batches(seed: int, first: int) -> Iterator[Batch]:
    """Batches ``first``, ``first + 1``, ..., rendered in one process beside the training."""
    return iter(DataLoader(CaptionedBatches(seed, first), batch_size=None, num_workers=1, prefetch_factor=8))


def new_model(vit: VisionTransformer) -> tuple[CLIPModel, CLIPProcessor]:
    """An untrained CLIP whose vision tower holds the weights of ``vit``, and its processor."""
    words = tokenizer()
    numbers = dict(zip((PAD, BOS, EOS), words.convert_tokens_to_ids([PAD, BOS, EOS]), strict=True))
    text = {
        "vocab_size": len(words),
        "hidden_size": TEXT_WIDTH,
        "intermediate_size": 4 * TEXT_WIDTH,
        "num_hidden_layers": TEXT_DEPTH,
        "num_attention_heads": 2,
        "max_position_embeddings": LENGTH,
        "hidden_act": "gelu",
        "pad_token_id": numbers[PAD],
        "bos_token_id": numbers[BOS],
        "eos_token_id": numbers[EOS],
    }
    vision = {
        "hidden_size": WIDTH,
        "intermediate_size": 4 * WIDTH,
        "num_hidden_layers": MODEL_ARGS["depth"],
        "num_attention_heads": MODEL_ARGS["num_heads"],
        "image_size": SIZE,
        "patch_size": PATCH,
        "hidden_act": "gelu",
        "layer_norm_eps": vit.norm.eps,
    }
    clip = CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=SHARED))
    clip.load_state_dict(vision_weights(vit), strict=False)
    pictures = CLIPImageProcessorPil(
        size={"shortest_edge": SIZE},
        crop_size={"height": SIZE, "width": SIZE},
        image_mean=[0.5] * 3,
        image_std=[0.5] * 3,
    )
    return clip, CLIPProcessor(image_processor=pictures, tokenizer=words)


def vision_weights(vit: VisionTransformer) -> dict[str, Tensor]:
    """The weights of a pre-normalised timm ViT under the names of CLIP's vision tower."""
    names = {"attn.proj": "self_attn.out_proj", "norm1": "layer_norm1", "norm2": "layer_norm2", "mlp": "mlp"}
    weights = {
        "embeddings.class_embedding": vit.cls_token[0, 0],
        "embeddings.position_embedding.weight": vit.pos_embed[0],
        "embeddings.patch_embedding.weight": vit.patch_embed.proj.weight,
    }
    for ours, theirs in {"norm_pre": "pre_layrnorm", "norm": "post_layernorm"}.items():
        for name, value in vit.get_submodule(ours).named_parameters():
            weights[f"{theirs}.{name}"] = value
    for index, block in enumerate(vit.blocks):
        layer = f"encoder.layers.{index}"
        for ours, theirs in names.items():
            for name, value in block.get_submodule(ours).named_parameters():
                weights[f"{layer}.{theirs}.{name}"] = value
        for name, value in block.attn.qkv.named_parameters():
            for part, piece in zip("qkv", value.chunk(3), strict=True):
                weights[f"{layer}.self_attn.{part}_proj.{name}"] = piece
    return {f"vision_model.{name}": value.detach() for name, value in weights.items()}


def image_features(clip: CLIPModel, pixels: Tensor, kept: Tensor | None = None) -> Tensor:
    """(B, shared width), length 1; with ``kept`` (B, n) from these patches alone."""
    vision = clip.vision_model
    x = vision.embeddings(pixels)
    if kept is not None:
        x = torch.cat([x[:, :1], x[:, 1:].gather(1, kept[..., None].expand(-1, -1, x.shape[-1]))], 1)
    x = vision.encoder(inputs_embeds=vision.pre_layrnorm(x)).last_hidden_state
    return F.normalize(clip.visual_projection(vision.post_layernorm(x[:, 0])).float(), dim=-1)


def text_features(clip: CLIPModel, words: PreTrainedTokenizerBase, texts: list[str]) -> Tensor:
    """(texts, shared width), length 1."""
    inputs = words(texts, padding=True, truncation=True, return_tensors="pt").to(clip.device)
    return F.normalize(clip.get_text_features(**inputs).pooler_output.float(), dim=-1)


def _spread(fits: Tensor) -> Tensor:
    """Each row's mass shared evenly among what fits."""
    return fits / fits.sum(1, keepdim=True)


def save(clip: CLIPModel, processor: CLIPProcessor, out: Path) -> None:
    """Write the folder that ``CLIPModel.from_pretrained`` loads; weights as float16, to be loaded as float32."""
    clip.float().save_pretrained(out)
    weights = {name: value.half() for name, value in load_file(out / "model.safetensors").items()}
    save_file(weights, out / "model.safetensors", {"format": "pt"})
    processor.tokenizer.backend_tokenizer.no_truncation()  # settings of the last call, which would be stored as defaults
    processor.tokenizer.backend_tokenizer.no_padding()
    processor.save_pretrained(out)


def train(args: argparse.Namespace) -> None:
    """Train and write the model folder ``args.out`` (arguments: ``add_arguments``)."""
    torch.manual_seed(args.seed)
    clip, processor = new_model(load(args.vit))
    clip.to(args.device)

    def loss(batch: Batch, progress: float, step: int) -> tuple[Tensor, float]:
        rng = np.random.default_rng([args.seed, 3, step])
        patches = (SIZE // PATCH) ** 2
        count = round(patches * (1 - rng.choice([0.0, 0.25, 0.5, 0.75])))
        kept = torch.from_numpy(rng.random((len(batch.images), patches))).argsort(1)[:, :count].to(args.device)
        locked = progress < LOCKED_UNTIL
        for parameter in clip.vision_model.parameters():
            parameter.requires_grad_(not locked)
        with torch.autocast(args.device.split(":")[0], torch.bfloat16):
            images = image_features(clip, tensors(batch.images, args.device), None if count == patches else kept)
            texts = text_features(clip, processor.tokenizer, batch.texts)
        logits = clip.logit_scale.clamp(max=math.log(100)).exp() * images @ texts.T
        fits = batch.fits.to(args.device).float()
        kinds, captions = logits[:, : len(KINDS)], logits[:, len(KINDS) :]
        value = F.cross_entropy(kinds, _spread(fits[:, : len(KINDS)]))
        true = fits[:, len(KINDS) :]
        value = value + (F.cross_entropy(captions, _spread(true)) + F.cross_entropy(captions.T, _spread(true.T))) / 2
        return value, float(fits.gather(1, kinds.argmax(1, keepdim=True)).mean())

    fit(
        clip,
        lambda first: batches(args.seed, first),
        loss,
        **schedule(args),
        share=lambda name: VISION_RATE if name.startswith("vision_model") else 1.0,
    )
    save(clip, processor, args.out)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What ``train`` reads from the command line."""
    add_common_arguments(parser, minutes=25)
    parser.add_argument("--vit", type=Path, default=DEFAULT_VIT, help="folder of the scenes-vit to start from")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser)
    train(parser.parse_args())
