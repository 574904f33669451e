"""What transformers says of language models that look at pictures: which token of their text a picture is, and how many of them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from explainers.errors import ExplainerError


def picture_token_of(module: nn.Module, library: str) -> int | None:
    """Of a language model that looks at pictures (LLaVA's kind), the id that stands in its text for each token of a picture; else None."""
    if library != "transformers" or not hasattr(module, "get_image_features") or hasattr(module, "get_text_features"):
        return None
    config = getattr(module, "config", None)
    ids = (getattr(config, name, None) for name in ("image_token_id", "image_token_index"))
    return next((index for index in ids if isinstance(index, int)), None)


def picture_tokens_of(module: Any, pixels: Tensor) -> int:
    """How many tokens of its text such a model makes of a picture (1, channels, height, width). Raises ExplainerError where its vision
    tower takes more than pixels.
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
