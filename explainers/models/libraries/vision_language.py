"""Facts that transformers declares about language models that look at pictures: the token that stands for a picture, and how many."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from explainers.errors import ExplainerError
from explainers.models.libraries.words_and_patches import WordsAndPatches

#: The tensors that processors of transformers give with pictures besides ``pixel_values``; those that they give with videos; and all of
#: these with the one that marks the tokens of pictures.
PICTURE_TENSORS = ("image_grid_thw", "image_sizes", "pixel_attention_mask", "batch_num_images")
VIDEO_PIXELS = "pixel_values_videos"  # also of clips, in modules that do not use the name for pictures
VIDEO_TENSORS = (VIDEO_PIXELS, "video_grid_thw", "second_per_grid_ts")
MULTIMODAL_TENSORS = (*PICTURE_TENSORS, *VIDEO_TENSORS, "mm_token_type_ids")


def pixels_name(tensors: Mapping[str, Tensor]) -> str:
    """Return the name of the pixel values among ``tensors``: those of a video, else those of pictures."""
    return VIDEO_PIXELS if VIDEO_PIXELS in tensors else "pixel_values"


def later_entries_of(module: Any) -> int:
    """Return to how many blocks of its language model ``module``, a vision-language model, adds the picture once more (Qwen3-VL's
    deepstack), as its configuration declares.
    """
    vision = getattr(getattr(module, "config", None), "vision_config", None)
    return len(getattr(vision, "deepstack_visual_indexes", None) or ())


def with_positions(module: Any, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return ``tensors``, an input of ``module``, with the positions of all tokens, if the model computes those in rows and columns of a
    picture from the tokens that are not masked: where some are, the positions of the others would move.
    """
    mask = tensors.get("attention_mask")
    inner: Any = getattr(module, "model", None)
    if mask is None or "mm_token_type_ids" not in tensors or not hasattr(inner, "get_rope_index") or bool(mask.all()):
        return tensors
    names = ("input_ids", "mm_token_type_ids", "image_grid_thw", "video_grid_thw", "second_per_grid_ts")
    takes = inspect.signature(inner.get_rope_index).parameters
    given = {name: tensors[name] for name in names if name in tensors and name in takes}
    return {**tensors, "position_ids": inner.get_rope_index(**given)[0]}


def video_tokens_of(module: nn.Module) -> tuple[int, ...]:
    """Return the ids that may stand for each token of a video in the text of ``module``, a vision-language model: its own, then that of
    pictures, as which some families read frames.
    """
    config = getattr(module, "config", None)
    names = ("video_token_id", "video_token_index", "image_token_id", "image_token_index")
    return tuple(index for name in names if isinstance(index := getattr(config, name, None), int))


def picture_token_of(module: nn.Module, library: str) -> int | None:
    """Return the id that stands for each token of a picture in the text of ``module``, if it is a language model of transformers that reads
    pictures (LLaVA's kind), or reads a picture after the text (:class:`WordsAndPatches`); None for other modules.
    """
    if isinstance(module, WordsAndPatches):
        return module.picture_token
    if library != "transformers" or not hasattr(module, "get_image_features") or hasattr(module, "get_text_features"):
        return None
    config = getattr(module, "config", None)
    ids = (getattr(config, name, None) for name in ("image_token_id", "image_token_index"))
    return next((index for index in ids if isinstance(index, int)), None)


def refuse_without_processor(module: Any, reason: str) -> None:
    """Raise ExplainerError if the vision tower of ``module``, a vision-language model without a processor, needs more than the pixel
    values. ``reason`` says why a processor that was saved with it could not be used; empty if none was.
    """
    takes = inspect.signature(module.get_image_features).parameters
    is_needed = "image_sizes" in takes and takes["image_sizes"].default is inspect.Parameter.empty
    if needs := "image_grid_thw" if "image_grid_thw" in takes else "image_sizes" if is_needed else "":
        raise ExplainerError(
            f"{type(module).__name__} is told the size of each picture ({needs}), which its processor computes: pass the processor, "
            "preprocess=transformers.AutoProcessor.from_pretrained(...), or save it in the model's folder"
            f"{f'. The one that was saved could not be used: {reason}' if reason else ''}"
        )


def picture_tokens_of(module: Any, pixels: Tensor) -> int:
    """Return the number of text tokens that stand for a picture, ``pixels`` (1, channels, height, width), in a vision-language model,
    ``module``.

    Raises ExplainerError if its vision tower takes more than pixels.
    """
    try:
        with torch.no_grad():
            given = module.get_image_features(pixel_values=pixels)
    except (TypeError, ValueError, AttributeError, RuntimeError, IndexError) as problem:
        raise ExplainerError(
            f"{type(module).__name__} makes no tokens of pixels (1, channels, height, width) alone ({problem}): models that cut a picture "
            "into parts, or pack its patches, are not explained with a picture."
        ) from problem
    features = getattr(given, "pooler_output", given)
    parts = [features] if isinstance(features, Tensor) else list(features)
    return sum(part.shape[:-1].numel() for part in parts)
