"""Tokens in a row, whatever shape a model's blocks give them: the one place where maps of tokens are turned into rows and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Size, Tensor

from explainers.errors import ExplainerError


def as_tokens(x: Tensor, channels: int) -> Tensor:
    """Return the tokens ``x`` of a block's input or output as (B, S, D): the tensor itself, or a map (B, H, W, D) or (B, D, H, W), whose
    axis ``channels`` is the width, read row by row.
    """
    return x if channels == 2 else x.movedim(channels, -1).flatten(1, 2)


def map_size(shape: Size, channels: int) -> tuple[int, int]:
    """Return (height, width) of a map of tokens with this shape (B, H, W, D) or (B, D, H, W); ``channels`` is the axis of the width D."""
    height, width = (side for axis, side in enumerate(shape) if axis not in (0, channels))
    return height, width


def as_given(tokens: Tensor, shape: Size, channels: int) -> Tensor:
    """Reshape tokens (B, S, D) to the ``shape`` of a block's tensor, whose axis ``channels`` is the width; the inverse of
    :func:`as_tokens`. Only height and width of the shape are read.

    The result is a copy if the shape differs, because blocks may write into their inputs.
    """
    if channels == 2:
        return tokens
    shaped: Tensor = tokens.unflatten(1, map_size(shape, channels)).movedim(-1, channels).clone()
    return shaped


def tokens_in(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Tensor:
    """Return the tokens among the arguments of a block: its first tensor of floating point. Raises ExplainerError if there is none."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, Tensor) and value.is_floating_point():
            return value
    raise ExplainerError(
        "A block was called without a tensor of tokens: pass blocks=[...] to wrap() with modules whose first argument is the tokens."
    )


def with_tokens(args: tuple[Any, ...], kwargs: Mapping[str, Any], x: Tensor) -> tuple[Any, Any]:
    """Return the arguments of a block with its tokens replaced by ``x`` in every argument that holds them: Funnel's layers take queries,
    keys and values separately.
    """
    given = tokens_in(args, kwargs)
    return tuple(x if value is given else value for value in args), {name: x if value is given else value for name, value in kwargs.items()}


def mask_of(tensors: Mapping[str, Tensor], x: Tensor) -> Tensor:
    """Return a bool mask (B, S) of the real tokens of the texts in ``tensors``, whose embedded tokens are ``x`` (B, S, D), True where a
    token is no padding; the model may have added padding at the end of ``x``. Raises ExplainerError if ``x`` has fewer tokens than the
    text.
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
    """Return the number of tokens in a row of texts or molecules, with padding and the ``prefix`` of special ones.

    Without ids and a mask, the first tensor has a row for each atom.
    """
    row = tensors.get("input_ids", tensors.get("attention_mask"))
    return int(next(iter(tensors.values())).shape[1]) + prefix if row is None else int(row.shape[1])
