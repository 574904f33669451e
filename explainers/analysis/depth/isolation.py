"""Attention in which no patch or word reads another: each reads itself and the special tokens, in every block."""

from __future__ import annotations

import inspect
import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from explainers.analysis.depth.block_calls import BlockCalls
from explainers.models.model import Model

_SOFTMAXES = frozenset((F.softmax, torch.softmax, Tensor.softmax))
_SDPA = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")  # torch gives this function no signature
_OF_MODULE = tuple(inspect.signature(F.multi_head_attention_forward).parameters)


def allowed_keys(content: Tensor, reader: Tensor | None) -> Tensor:
    """Return which keys each query may read, bool (B, S, S).

    A patch or word, marked in ``content`` (B, S), reads itself and the special tokens. Special tokens read all, and so does ``reader``
    (B,), the token that the head reads.
    """
    itself = torch.eye(content.shape[1], dtype=torch.bool, device=content.device)
    reads_all = ~content if reader is None else (~content).scatter(1, reader[:, None], value=True)
    return reads_all[:, :, None] | ~content[:, None, :] | itself


class IsolatedTokens(BlockCalls):
    """A function mode in which attention inside the blocks gives weight only to ``allowed`` keys, bool (B, S, S).

    blocks  numbers of the blocks whose attention was masked; the caller checks that none is missing
    """

    def __init__(self, model: Model, allowed: Tensor) -> None:
        super().__init__(model)
        self._allowed = allowed
        self.blocks: set[int] = set()

    def call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make the torch call ``func(*args, **kwargs)`` and return its result. If it computes attention, the keys that are not allowed get
        no weight.
        """
        if func is F.scaled_dot_product_attention:
            return self._fused(func, {**dict(zip(_SDPA, args, strict=False)), **kwargs})
        if func is F.multi_head_attention_forward:
            return self._of_module(func, {**dict(zip(_OF_MODULE, args, strict=False)), **kwargs})
        if func in _SOFTMAXES and args and isinstance(args[0], Tensor):
            dim = args[1] if len(args) > 1 else kwargs.get("dim")
            bias = self._bias(args[0].shape, args[0]) if dim in (-1, args[0].dim() - 1) else None
            if bias is not None:
                args = (args[0] + bias, *args[1:])
        return func(*args, **kwargs)

    def _fused(self, func: Any, named: dict[str, Any]) -> Tensor:
        query, key = named["query"], named["key"]
        shape = (*query.shape[:-1], key.shape[-2])
        bias = self._bias(torch.Size(shape), query)
        if bias is not None:
            mask = named.get("attn_mask")
            if mask is not None:
                bias = bias + _as_bias(mask, query)
            if named.get("is_causal"):
                bias = bias + _as_bias(torch.ones(shape[-2:], dtype=torch.bool, device=query.device).tril(), query)
            named = {**named, "attn_mask": bias, "is_causal": False}
        out: Tensor = func(named.pop("query"), named.pop("key"), named.pop("value"), **named)
        return out

    def _of_module(self, func: Any, named: dict[str, Any]) -> Any:
        query, heads = named["query"], named["num_heads"]
        tokens, batch = query.shape[:2]
        bias = self._bias(torch.Size((batch, heads, tokens, named["key"].shape[0])), query)
        if bias is not None:
            mask, padding = named.get("attn_mask"), named.get("key_padding_mask")
            whole = bias.expand(batch, heads, tokens, tokens).flatten(0, 1)
            if mask is not None:
                whole = whole + _as_bias(~mask if mask.dtype == torch.bool else mask, query)
            if padding is not None:
                named["key_padding_mask"] = _as_bias(~padding if padding.dtype == torch.bool else padding, query)
            named = {**named, "attn_mask": whole, "is_causal": False}
        return func(**named)

    def _bias(self, shape: torch.Size, like: Tensor) -> Tensor | None:
        """Return the numbers to add to attention scores of this ``shape`` (..., queries, keys): 0 or minus infinity, in the type and on the
        device of ``like``; None if the scores are not over the tokens.
        """
        batch, tokens = self._allowed.shape[:2]
        if shape[-2:] != (tokens, tokens) or len(shape) < 3 or (shape[0] != batch if len(shape) > 3 else shape[0] % batch):
            return None
        self.blocks.add(self.block)
        bias = _as_bias(self._allowed, like)
        if len(shape) == 3:
            return bias.repeat_interleave(shape[0] // batch, 0)
        return bias.view(batch, *[1] * (len(shape) - 3), tokens, tokens)


def _as_bias(mask: Tensor, like: Tensor) -> Tensor:
    """Convert a mask of attention to numbers that are added to attention scores, in the type of ``like``: a bool mask to 0 where true and
    minus infinity elsewhere; other masks keep their numbers.
    """
    if mask.dtype != torch.bool:
        return mask.to(like.dtype)
    return torch.zeros(mask.shape, dtype=like.dtype, device=like.device).masked_fill(~mask, -math.inf)
