"""Attention: fused, ``nn.MultiheadAttention``, and the softmax of attention written out."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as F

from explainers import operators as op
from explainers.dispatch import TorchFunction, active, give_role, handles
from explainers.pooling import Mean

if TYPE_CHECKING:
    from explainers.recording import Recording


@handles(F.scaled_dot_product_attention)
def _sdpa(
    rec: Recording,
    func: TorchFunction,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    if not (active(query) or active(key) or active(value)):
        return func(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
    if enable_gqa and key.shape[-3] != query.shape[-3]:
        repeats = query.shape[-3] // key.shape[-3]
        key, value = key.repeat_interleave(repeats, -3), value.repeat_interleave(repeats, -3)
    if is_causal:
        attn_mask = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device).tril()
    return op.attention(query, key, value, attn_mask, scale, rec)


@handles(F.multi_head_attention_forward)
def _multi_head(
    rec: Recording,
    func: TorchFunction,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """nn.MultiheadAttention, (tokens, batch, width) or (tokens, width): the same projections, then :func:`operators.attention`."""
    if not (active(query) or active(key) or active(value)) or bias_k is not None or static_k is not None or add_zero_attn:
        given = {k: v for k, v in locals().items() if k not in ("rec", "func")}
        return F.multi_head_attention_forward(**given)
    batched = query.dim() == 3
    q, k, v = (t.transpose(0, 1) if batched else t.unsqueeze(0) for t in (query, key, value))  # (B, tokens, width)
    if in_proj_weight is not None and not use_separate_proj_weight:
        weights = in_proj_weight.chunk(3)
    else:
        assert q_proj_weight is not None
        assert k_proj_weight is not None
        assert v_proj_weight is not None
        weights = (q_proj_weight, k_proj_weight, v_proj_weight)
    biases = in_proj_bias.chunk(3) if in_proj_bias is not None else (None, None, None)
    q, k, v = (
        op.linear(t, w, b, rec).unflatten(-1, (num_heads, -1)).transpose(1, 2) for t, w, b in zip((q, k, v), weights, biases, strict=True)
    )
    mask = None
    for given_mask in (
        attn_mask if attn_mask is None or attn_mask.dim() == 2 else attn_mask.unflatten(0, (-1, num_heads)),
        None if key_padding_mask is None else key_padding_mask.view(-1, 1, 1, key_padding_mask.shape[-1]),
    ):
        if given_mask is not None:  # True means "may not attend" here
            additive = (
                torch.zeros_like(given_mask, dtype=q.dtype).masked_fill(given_mask, -math.inf)
                if given_mask.dtype == torch.bool
                else given_mask
            )
            mask = additive if mask is None else mask + additive
    out = op.attention(q, k, v, mask, None, rec).transpose(1, 2).flatten(2)
    out = op.linear(out, out_proj_weight, out_proj_bias, rec)
    shown = None
    if need_weights:
        shown = rec.last_attention
        shown = rec.run(Mean, shown, (1,), False, 1 / num_heads) if average_attn_weights else shown
        shown = shown if batched else shown.squeeze(0)
    return (out.transpose(0, 1) if batched else out.squeeze(0)), shown


@handles(F.softmax, torch.softmax, Tensor.softmax)
def _softmax(
    rec: Recording, func: TorchFunction, input: Tensor, dim: int = -1, *args: Any, dtype: torch.dtype | None = None, **kwargs: Any
) -> Tensor:
    if not active(input):
        return torch.softmax(input, dim, dtype=dtype)
    weights: Tensor = rec.run(op.Softmax, input, dim, dtype)
    rec.saw_attention(weights)
    return give_role(weights, "weights")
