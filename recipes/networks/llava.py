"""The network of ``scenes-llava``: transformers' class for LLaVA, with the first blocks of scenes-vit as its vision tower, and a
projector and a small Llama with a token for each word behind it.
"""

from __future__ import annotations

import explainers.models.libraries.torchvision_ops  # noqa: F401  (before timm and transformers)

# isort: split
from pathlib import Path
from typing import Any

import torch
from timm.models.vision_transformer import VisionTransformer
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import Lowercase
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing
from torch import Tensor
from transformers import (
    CLIPVisionConfig,
    GenerationConfig,
    LlamaConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    LlavaProcessor,
    PreTrainedTokenizerFast,
)
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

from explainers.embedded.synthetic.scene_questions import vocabulary
from recipes.networks.vits import to_half

SIZE, PATCH = 112, 8  # pixels, of scenes-vit
PATCHES = (SIZE // PATCH) ** 2
TOWER_BLOCKS = 5  # of the 6 of scenes-vit: LLaVA, too, reads the last block but one
WIDTH = 192  # of the tower and of the decoder
DECODER: dict[str, Any] = {"hidden_size": WIDTH, "intermediate_size": 384, "num_hidden_layers": 4, "num_attention_heads": 6}
MAX_TOKENS = 256  # of picture, question and answer
MAX_NEW_TOKENS = 24  # the longest answer names four things in 19 words
SPECIAL_TOKENS = ("<pad>", "<unk>", "<s>", "</s>", "<image>")


def token_numbers() -> dict[str, int]:
    """Return the number of each token of the vocabulary."""
    return {token: index for index, token in enumerate([*SPECIAL_TOKENS, *vocabulary()])}


def new_processor() -> LlavaProcessor:
    """Build the processor of pictures and questions: a tokenizer with one token for each word, and the preparation of scenes-vit."""
    ids = token_numbers()
    pad, unknown, start, end, image = SPECIAL_TOKENS
    words = Tokenizer(WordLevel(ids, unk_token=unknown))
    words.normalizer = Lowercase()
    words.pre_tokenizer = Whitespace()
    words.post_processor = TemplateProcessing(single=f"{start} $A", special_tokens=[(start, ids[start])])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words,
        model_max_length=MAX_TOKENS,
        pad_token=pad, unk_token=unknown, bos_token=start, eos_token=end,
        extra_special_tokens={"image_token": image},
    )  # fmt: skip
    side = {"height": SIZE, "width": SIZE}
    pictures = CLIPImageProcessorPil(
        size=side, crop_size=side, do_center_crop=False, resample=3, image_mean=[0.5] * 3, image_std=[0.5] * 3, do_convert_rgb=True
    )
    return LlavaProcessor(
        pictures, tokenizer, patch_size=PATCH, vision_feature_select_strategy="default", num_additional_image_tokens=1, image_token=image
    )


def new_model(vit: VisionTransformer) -> LlavaForConditionalGeneration:
    """Return the untrained model, whose vision tower is the first blocks of ``vit``, a scenes-vit, and stays as it is."""
    ids = token_numbers()
    ends: dict[str, Any] = {"bos_token_id": ids["<s>"], "eos_token_id": ids["</s>"], "pad_token_id": ids["<pad>"]}
    text = LlamaConfig(
        vocab_size=len(ids), max_position_embeddings=MAX_TOKENS, num_key_value_heads=DECODER["num_attention_heads"],
        tie_word_embeddings=True, rms_norm_eps=1e-6, **ends, **DECODER,
    )  # fmt: skip
    vision = CLIPVisionConfig(
        image_size=SIZE, patch_size=PATCH, hidden_size=WIDTH, intermediate_size=4 * WIDTH, num_hidden_layers=TOWER_BLOCKS,
        num_attention_heads=vit.blocks[0].attn.num_heads, hidden_act="gelu", layer_norm_eps=1e-6, projection_dim=WIDTH,
    )  # fmt: skip
    config = LlavaConfig(
        vision_config=vision, text_config=text, image_token_id=ids["<image>"], projector_hidden_act="gelu", image_seq_length=PATCHES,
        vision_feature_select_strategy="default", vision_feature_layer=-1, tie_word_embeddings=True,
    )  # fmt: skip
    model = LlavaForConditionalGeneration(config)
    model.generation_config = GenerationConfig(do_sample=False, max_new_tokens=MAX_NEW_TOKENS, **ends)
    model.model.vision_tower.load_state_dict(tower_weights(vit))
    model.model.vision_tower.requires_grad_(False)
    with torch.no_grad():
        model.model.multi_modal_projector.linear_1.weight.normal_(std=WIDTH**-0.5 / 2.5)  # tokens of the tower have a deviation of 2.5
        model.model.multi_modal_projector.linear_2.weight.normal_(std=WIDTH**-0.5)
    return model


def tower_weights(vit: VisionTransformer) -> dict[str, Tensor]:
    """Return the weights of the first blocks of ``vit``, a scenes-vit, by the names of CLIP's vision tower of transformers."""
    theirs = vit.state_dict()
    weights = {
        "embeddings.class_embedding": theirs["cls_token"].flatten(),
        "embeddings.patch_embedding.weight": theirs["patch_embed.proj.weight"],
        "embeddings.position_embedding.weight": theirs["pos_embed"][0],
    }
    names = {"norm1": "layer_norm1", "norm2": "layer_norm2", "attn.proj": "self_attn.out_proj", "mlp.fc1": "mlp.fc1", "mlp.fc2": "mlp.fc2"}
    for end in ("weight", "bias"):
        weights[f"pre_layrnorm.{end}"] = theirs[f"norm_pre.{end}"]
        weights[f"post_layernorm.{end}"] = theirs[f"norm.{end}"]
        for block in range(TOWER_BLOCKS):
            parts = theirs[f"blocks.{block}.attn.qkv.{end}"].chunk(3)
            for name, part in zip(("q_proj", "k_proj", "v_proj"), parts, strict=True):
                weights[f"encoder.layers.{block}.self_attn.{name}.{end}"] = part
            for old, new in names.items():
                weights[f"encoder.layers.{block}.{new}.{end}"] = theirs[f"blocks.{block}.{old}.{end}"]
    return weights


def save(model: LlavaForConditionalGeneration, out: Path) -> None:
    """Write ``model`` and its processor to the folder ``out``, which ``explainers.load`` takes: weights as float16, read as float32."""
    model.save_pretrained(out, state_dict=to_half(model.state_dict()))
    new_processor().save_pretrained(out)
