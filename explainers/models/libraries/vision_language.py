"""Facts that transformers declares about language models that look at pictures: the token that stands for a picture, and how many."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor, nn

from explainers.errors import ExplainerError


def picture_token_of(module: nn.Module, library: str) -> int | None:
    """Return the id that stands for each token of a picture in the text of ``module``, if it is a language model of transformers that reads
    pictures (LLaVA's kind); None for other modules.
    """
    if library != "transformers" or not hasattr(module, "get_image_features") or hasattr(module, "get_text_features"):
        return None
    config = getattr(module, "config", None)
    ids = (getattr(config, name, None) for name in ("image_token_id", "image_token_index"))
    return next((index for index in ids if isinstance(index, int)), None)


def refuse_packed_pictures(module: Any) -> None:
    """Raise ExplainerError if ``module``, a vision-language model, packs the patches of pictures of any size into rows and needs their
    numbers as input.
    """
    if "image_grid_thw" in inspect.signature(module.get_image_features).parameters:
        raise ExplainerError(
            f"{type(module).__name__} takes pictures of any size, as packed rows of patches with the size of each (image_grid_thw): how "
            "many tokens a picture has, and where they lie, changes with it, which is not explained here. Models that make a square of "
            "tokens of each picture (LLaVA's kind) are"
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
