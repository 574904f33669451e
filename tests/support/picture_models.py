"""Tiny vision-language models of transformers' real classes with random weights, and their real processors."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from PIL import Image
from torch import nn

import explainers
from tests.support.vocabularies import byte_level

# isort: split
import transformers as hf
from tokenizers import processors

SIZE: dict[str, Any] = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
TEXT: dict[str, Any] = {
    **{**SIZE, "num_key_value_heads": 2, "bos_token_id": 2, "eos_token_id": 3, "pad_token_id": 1},
    **{"max_position_embeddings": 4096, "initializer_range": 0.3},
}
SIDE = {"height": 32, "width": 32}
TOWER = {"image_size": 32, "patch_size": 8, **SIZE}
ROPE = {"rope_type": "default", "mrope_section": [2, 3, 3], "rope_theta": 10000.0}
Made = tuple[nn.Module, Any]


def _tokenizer(*special: str, **named: str) -> Any:
    """A byte-level tokenizer with further special tokens, some of which are its attributes, as are their ids."""
    tokenizer = byte_level(4000)
    tokenizer.add_special_tokens({"additional_special_tokens": [*special, *named.values()]})
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 2)])
    tokenizer.bos_token, tokenizer.eos_token, tokenizer.pad_token = "<s>", "</s>", "<pad>"
    for name, token in named.items():
        setattr(tokenizer, name, token)
        setattr(tokenizer, f"{name}_id", tokenizer.convert_tokens_to_ids(token))
    return tokenizer


def _part(name: str, **settings: Any) -> Any:
    """Make an image or video processor of transformers, of the kind that works without torchvision where there is one."""
    return (getattr(hf, f"{name}Pil", None) or getattr(hf, name))(**settings)


def paligemma() -> Made:
    tokenizer = _tokenizer(image_token="<image>")
    pictures = _part("SiglipImageProcessor", size=SIDE)
    pictures.image_seq_length = 16
    text = hf.GemmaConfig(vocab_size=len(tokenizer), head_dim=16, **TEXT)
    config = hf.PaliGemmaConfig(
        vision_config=hf.SiglipVisionConfig(**TOWER), text_config=text, projection_dim=32, image_token_id=tokenizer.image_token_id
    )
    processor = hf.PaliGemmaProcessor(pictures, tokenizer)  # which adds tokens
    config.text_config.vocab_size = len(tokenizer)
    return hf.PaliGemmaForConditionalGeneration(config), processor


def gemma3() -> Made:
    tokenizer = _tokenizer(image_token="<image_soft_token>", boi_token="<start_of_image>", eoi_token="<end_of_image>")
    text = hf.Gemma3TextConfig(
        vocab_size=len(tokenizer), head_dim=16, sliding_window=64, layer_types=["sliding_attention", "full_attention"], **TEXT
    )
    ids = {f"{name}_id": getattr(tokenizer, f"{name}_id") for name in ("boi_token", "eoi_token", "image_token")}
    config = hf.Gemma3Config(text_config=text, vision_config=hf.SiglipVisionConfig(**TOWER), mm_tokens_per_image=4, **ids)
    processor = hf.Gemma3Processor(_part("Gemma3ImageProcessor", size=SIDE), tokenizer, image_seq_length=4)
    return hf.Gemma3ForConditionalGeneration(config), processor


def llava_next() -> Made:
    tokenizer, points = _tokenizer(image_token="<image>"), [[32, 64], [64, 32], [64, 64]]
    pictures = _part("LlavaNextImageProcessor", size={"shortest_edge": 32}, crop_size=SIDE, image_grid_pinpoints=points)
    settings: Any = {"patch_size": 8, "vision_feature_select_strategy": "default", "num_additional_image_tokens": 1}
    config = hf.LlavaNextConfig(
        text_config=hf.LlamaConfig(vocab_size=len(tokenizer), **TEXT),
        vision_config=hf.CLIPVisionConfig(projection_dim=32, **TOWER),
        image_grid_pinpoints=points,
        image_token_id=tokenizer.image_token_id,
    )
    return hf.LlavaNextForConditionalGeneration(config), hf.LlavaNextProcessor(pictures, tokenizer, **settings)


def llava_next_video() -> Made:
    tokenizer, points = _tokenizer(image_token="<image>", video_token="<video>"), [[32, 64], [64, 32], [64, 64]]
    pictures = _part("LlavaNextImageProcessor", size={"shortest_edge": 32}, crop_size=SIDE, image_grid_pinpoints=points)
    videos = _part("LlavaNextVideoVideoProcessor", size={"shortest_edge": 32}, crop_size=SIDE)
    config = hf.LlavaNextVideoConfig(
        text_config=hf.LlamaConfig(vocab_size=len(tokenizer), **TEXT),
        vision_config=hf.CLIPVisionConfig(projection_dim=32, **TOWER),
        image_grid_pinpoints=points,
        image_token_index=tokenizer.image_token_id,
        video_token_index=tokenizer.video_token_id,
    )
    settings: Any = {"patch_size": 8, "vision_feature_select_strategy": "default", "num_additional_image_tokens": 1}
    processor = hf.LlavaNextVideoProcessor(videos, pictures, tokenizer, **settings)
    return hf.LlavaNextVideoForConditionalGeneration(config), processor


def llava_onevision() -> Made:
    tokenizer = _tokenizer(image_token="<image>", video_token="<video>")
    points = [[32, 32], [32, 64], [64, 32], [64, 64], [32, 96], [96, 96]]
    pictures = _part("LlavaOnevisionImageProcessor", size=SIDE, image_grid_pinpoints=points)
    videos = _part("LlavaOnevisionVideoProcessor", size=SIDE)
    config = hf.LlavaOnevisionConfig(
        text_config=hf.Qwen2Config(vocab_size=len(tokenizer), **TEXT),
        vision_config=hf.SiglipVisionConfig(vision_use_head=False, **TOWER),
        image_grid_pinpoints=points,
        image_token_id=tokenizer.image_token_id,
        video_token_id=tokenizer.video_token_id,
        vision_feature_select_strategy="full",
    )
    processor = hf.LlavaOnevisionProcessor(pictures, tokenizer, videos, num_image_tokens=16, vision_feature_select_strategy="full")
    return hf.LlavaOnevisionForConditionalGeneration(config), processor


def _qwen(family: str, vision: dict[str, Any], rope: dict[str, Any], **text: Any) -> Made:
    names = {"image_token": "<|image_pad|>", "video_token": "<|video_pad|>"}
    ends = {"vision_start_token": "<|vision_start|>", "vision_end_token": "<|vision_end|>"}
    tokenizer = _tokenizer(**names, **ends)
    cut: Any = {"patch_size": 8, "temporal_patch_size": 2}
    pictures = _part("Qwen2VLImageProcessor", merge_size=2, min_pixels=32 * 32, max_pixels=128 * 128, **cut)
    sizes: Any = {"shortest_edge": 32 * 32, "longest_edge": 4 * 64 * 64}
    video = "Qwen3VLVideoProcessor" if family == "Qwen3VL" else "Qwen2VLVideoProcessor"
    videos = _part(video, merge_size=2, size=sizes, cap_pixels_per_frame=False, **cut)
    ids = {f"{name}_id": getattr(tokenizer, f"{name}_id") for name in (*names, *ends)}
    config = getattr(hf, f"{family}Config")(
        text_config={"vocab_size": len(tokenizer), "rope_parameters": rope, **TEXT, **text},
        vision_config={"hidden_size": 32, "num_heads": 2, "spatial_merge_size": 2, **cut, **vision},
        **ids,
    )
    return getattr(hf, f"{family}ForConditionalGeneration")(config), getattr(hf, f"{family}Processor")(pictures, tokenizer, videos)


def qwen2_vl() -> Made:
    return _qwen("Qwen2VL", {"depth": 2, "embed_dim": 32, "mlp_ratio": 2}, ROPE)


def qwen2_5_vl() -> Made:
    tower = {"depth": 2, "intermediate_size": 64, "out_hidden_size": 32, "window_size": 32, "fullatt_block_indexes": [1]}
    return _qwen("Qwen2_5_VL", tower, ROPE)


def qwen3_vl() -> Made:
    deep = {"num_position_embeddings": 64, "deepstack_visual_indexes": [0, 1]}
    tower = {"depth": 3, "intermediate_size": 64, "out_hidden_size": 32, **deep}
    return _qwen("Qwen3VL", tower, {**ROPE, "mrope_interleaved": True}, head_dim=16)


def internvl() -> Made:
    ends = {"start_image_token": "<img>", "end_image_token": "</img>"}
    tokenizer = _tokenizer(**ends, context_image_token="<IMG_CONTEXT>", video_token="<video>")
    pictures = _part("GotOcr2ImageProcessor", size=SIDE, crop_to_patches=True, min_patches=1, max_patches=6)
    config = hf.InternVLConfig(
        text_config=hf.Qwen2Config(vocab_size=len(tokenizer), **TEXT),
        vision_config=hf.InternVLVisionConfig(image_size=[32, 32], patch_size=[8, 8], **SIZE),
        image_token_id=tokenizer.context_image_token_id,
        image_seq_length=4,
        downsample_ratio=0.5,
    )
    videos = _part("InternVLVideoProcessor", size=SIDE)
    return hf.InternVLForConditionalGeneration(config), hf.InternVLProcessor(pictures, tokenizer, videos, image_seq_length=4)


def _idefics(family: str) -> Made:
    """Idefics3's or SmolVLM's model with Idefics3's processor: SmolVLM's gives the same tensors and needs a further package."""
    rows = [f"<row_{row}_col_{column}>" for row in range(1, 7) for column in range(1, 7)]
    tokenizer = _tokenizer("<fake_token_around_image>", "<end_of_utterance>", "<global-img>", *rows, image_token="<image>")
    pictures = _part("Idefics3ImageProcessor", size={"longest_edge": 64}, max_image_size={"longest_edge": 32})
    config = getattr(hf, f"{family}Config")(
        text_config=hf.LlamaConfig(vocab_size=len(tokenizer), **TEXT),
        vision_config=TOWER,
        image_token_id=tokenizer.image_token_id,
        scale_factor=2,
    )
    processor = hf.Idefics3Processor(pictures, tokenizer, image_seq_len=4)
    return getattr(hf, f"{family}ForConditionalGeneration")(config), processor


def idefics3() -> Made:
    return _idefics("Idefics3")


def smolvlm() -> Made:
    return _idefics("SmolVLM")


def blip2() -> Made:
    tokenizer = _tokenizer("<image>")
    text: Any = {"model_type": "opt", "vocab_size": len(tokenizer), "hidden_size": 32, "ffn_dim": 64, "word_embed_proj_dim": 32}
    text |= {"num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": 256}
    config = hf.Blip2Config(
        vision_config=TOWER,
        qformer_config={"vocab_size": 50, "encoder_hidden_size": 32, "initializer_range": 0.3, **SIZE},
        text_config=text,
        num_query_tokens=4,
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
    )
    module: Any = hf.Blip2ForConditionalGeneration(config)
    processor = hf.Blip2Processor(_part("BlipImageProcessor", size=SIDE), tokenizer, num_query_tokens=4)
    with torch.no_grad():
        for parameter in module.qformer.parameters():
            parameter.normal_(std=0.3)
    return module, processor


#: The families that are explained, by the name of their class, with rows and columns of the map of a picture of 100 x 64 pixels.
FAMILIES: dict[str, tuple[Callable[[], Made], tuple[int, int]]] = {
    "PaliGemmaForConditionalGeneration": (paligemma, (4, 4)),
    "Gemma3ForConditionalGeneration": (gemma3, (2, 2)),
    "LlavaNextForConditionalGeneration": (llava_next, (5, 8)),
    "LlavaOnevisionForConditionalGeneration": (llava_onevision, (8, 12)),
    "Qwen2VLForConditionalGeneration": (qwen2_vl, (4, 6)),
    "Qwen2_5_VLForConditionalGeneration": (qwen2_5_vl, (4, 6)),
    "Qwen3VLForConditionalGeneration": (qwen3_vl, (4, 6)),
    "InternVLForConditionalGeneration": (internvl, (4, 6)),
    "Idefics3ForConditionalGeneration": (idefics3, (4, 4)),
    "SmolVLMForConditionalGeneration": (smolvlm, (4, 4)),
}


#: The families that read videos, with rows and columns of the map of a frame of 96 x 64 pixels, and how many frames one map is of.
VIDEO_FAMILIES: dict[str, tuple[Callable[[], Made], tuple[int, int], int]] = {
    "Qwen2VLForConditionalGeneration": (qwen2_vl, (4, 6), 2),
    "Qwen2_5_VLForConditionalGeneration": (qwen2_5_vl, (4, 6), 2),
    "Qwen3VLForConditionalGeneration": (qwen3_vl, (3, 4), 2),
    "LlavaNextVideoForConditionalGeneration": (llava_next_video, (2, 2), 1),
    "LlavaOnevisionForConditionalGeneration": (llava_onevision, (2, 2), 1),
    "InternVLForConditionalGeneration": (internvl, (2, 2), 1),
}


def process(processor: Any, text: str, picture: Image.Image) -> dict[str, torch.Tensor]:
    """Return what ``processor`` itself makes of ``text`` and ``picture`` for the model."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        given = processor(text=[text], images=[picture], return_tensors="pt")
    return {name: tensor for name, tensor in given.items() if isinstance(tensor, torch.Tensor) and name != "labels"}


def build(make: Callable[[], Made]) -> Made:
    """Return a family's module, in eval mode and of random weights where its class begins with zeros, and its processor. It writes four
    tokens.
    """
    torch.manual_seed(0)
    module, processor = make()
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.abs().max() == 0 and parameter.dim() > 1:
                parameter.normal_(std=0.3)
    module.eval().generation_config.max_new_tokens = 4  # type: ignore[union-attr]
    return module, processor


def silent_qwen() -> explainers.Model:
    """A tiny Qwen2.5-VL that writes no token of a picture or a video."""
    made: Any = build(qwen2_5_vl)
    module, processor = made
    with torch.no_grad():
        module.lm_head.weight[[module.config.image_token_id, module.config.video_token_id]] = 0
    return explainers.wrap(module, preprocess=processor)
