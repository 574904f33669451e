"""Tokens in a row, whatever shape a model's blocks give them: the one place where maps of tokens are turned into rows and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Size, Tensor

from explainers.errors import ExplainerError


def as_tokens(x: Tensor, channels: int) -> Tensor:
    """(B, S, D) from what a block takes or gives: itself, or a map (B, H, W, D) or (B, D, H, W) read row by row.

    ``channels`` is the axis of the width; 2 says that tokens lie in a row already.
    """
    return x if channels == 2 else x.movedim(channels, -1).flatten(1, 2)


def map_size(shape: Size, channels: int) -> tuple[int, int]:
    """(height, width) of a map of tokens of this shape."""
    height, width = (side for axis, side in enumerate(shape) if axis not in (0, channels))
    return height, width


def as_given(tokens: Tensor, shape: Size, channels: int) -> Tensor:
    """The inverse: (B, S, D) in the ``shape`` that :func:`as_tokens` was given, of which only height and width are read.

    A copy where the shape differs, because blocks may write into what they are given.
    """
    if channels == 2:
        return tokens
    shaped: Tensor = tokens.unflatten(1, map_size(shape, channels)).movedim(-1, channels).clone()
    return shaped


def tokens_in(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Tensor:
    """The tokens among the arguments of a block: its first tensor of floating point. Raises ExplainerError where there is none."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, Tensor) and value.is_floating_point():
            return value
    raise ExplainerError(
        "A block was called without a tensor of tokens: pass blocks=[...] to wrap() with modules whose first argument is the tokens."
    )


def with_tokens(args: tuple[Any, ...], kwargs: Mapping[str, Any], x: Tensor) -> tuple[Any, Any]:
    """The arguments of a block with other tokens."""
    for i, value in enumerate(args):
        if isinstance(value, Tensor) and value.is_floating_point():
            return (*args[:i], x, *args[i + 1 :]), kwargs
    name = next(k for k, v in kwargs.items() if isinstance(v, Tensor) and v.is_floating_point())
    return args, {**kwargs, name: x}


def mask_of(tensors: Mapping[str, Tensor], x: Tensor) -> Tensor:
    """bool (B, S): which tokens of a text ``x`` are real. A model may add padding at its end. Raises ExplainerError where tokens are fewer
    than those of the text.
    """
    ids = tensors.get("input_ids")
    mask = tensors.get("attention_mask")
    if mask is None:
        mask = torch.ones(x.shape[:2] if ids is None else ids.shape, device=x.device)
    added = x.shape[1] - mask.shape[1]
    if added < 0:
        raise ExplainerError(
            f"The model's blocks see {x.shape[1]} tokens of a text of {mask.shape[1]}, so that which word a score belongs to is not known: "
            "pass blocks=[...] to wrap() with those that see each of them."
        )
    return torch.nn.functional.pad(mask.bool(), (0, added))


def row_length(tensors: Mapping[str, Tensor], prefix: int) -> int:
    """How many tokens a row of texts or molecules has, padding and the ``prefix`` of special ones included. Without ids and a mask, the
    first tensor has a row for each atom.
    """
    row = tensors.get("input_ids", tensors.get("attention_mask"))
    return int(next(iter(tensors.values())).shape[1]) + prefix if row is None else int(row.shape[1])
