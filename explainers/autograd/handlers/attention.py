"""Attention: fused, ``nn.MultiheadAttention``, and the softmax of attention written out."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from explainers.autograd import operators as op
from explainers.autograd.dispatch import TorchFunction, active, call_through, handles
from explainers.autograd.handlers.elementwise import may_write, mul
from explainers.autograd.handlers.linear import linear
from explainers.autograd.handlers.written_softmax import keep_exponent, softmax_of_logarithms, unshifted
from explainers.autograd.nodes import Role
from explainers.autograd.operators.pooling import Mean
from explainers.autograd.recorder import Recorder
from explainers.autograd.rowwise_attention import is_long
from explainers.autograd.rules.operands import LinearMapRole


def attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float | None, rec: Recorder, dropout: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Compute softmax(Q K^T scale + mask) V and its weights step by step, so that the attention map is a node of the graph.

    query (..., S, d), key and value (..., K, d); mask boolean (True: may attend) or additive, broadcast to (..., S, K). A query without a
    key to attend to gives zeros. ``dropout`` of the weights occurs only in a user's own code, as a recording is in eval mode.
    """
    heads, move = query.shape[-3], rec.nodes.move
    if rec.single_head:
        query, key, value = (move(t.transpose(-3, -2).flatten(-2).unsqueeze(-3), t) for t in (query, key, value))
        scale = None
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    turned = move(key.mT, key)
    products = (
        rec.run(op.MatMul, query, turned)
        if rec.active(query)
        else rec.run(op.LinearMap, turned, query, None, op.swapped, op.swapped_back, None)
    )
    scores: Tensor = rec.run(op.Scale, products, factor)
    if mask is not None:
        additive = (
            torch.zeros_like(mask, dtype=scores.dtype).masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else mask.to(scores.dtype)
        )
        # A row without any allowed key would be 0/0: lift its mask, and take its output away below, as the fused kernel does.
        closed = (additive == -math.inf).all(-1, keepdim=True)
        scores = move(scores + torch.where(closed, 0.0, additive), scores)
    else:
        closed = None
    weights = rec.run(op.Softmax, scores, -1, None, role=Role.WEIGHTS)
    if dropout and rec.is_own_code:
        weights = move(F.dropout(weights, dropout), weights, Role.WEIGHTS)
    out: Tensor = rec.run(op.MatMul, weights, value, role=Role.CONTEXT)
    if rec.single_head:
        out = move(out.squeeze(-3).unflatten(-1, (heads, -1)).transpose(-3, -2), out, Role.CONTEXT)
    if closed is not None and bool(closed.any()):
        out = move(out.masked_fill(closed, 0.0), out, Role.CONTEXT)
    return out, weights


@handles(F.scaled_dot_product_attention)
def _sdpa(
    rec: Recorder,
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
    if not (rec.active(query) or rec.active(key) or rec.active(value)):
        return func(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
    if enable_gqa and key.shape[-3] != query.shape[-3]:
        repeats = query.shape[-3] // key.shape[-3]
        key, value = (rec.nodes.move(t.repeat_interleave(repeats, -3), t) for t in (key, value))
    if rec.attend_by_rows is not None and not dropout_p and all(map(rec.active, (query, key, value))) and is_long(query, key):

        def record(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
            return attention(query, key, value, mask, scale, rec)

        return rec.attend_by_rows(query, key, value, attn_mask, is_causal, scale, record)
    if is_causal:
        attn_mask = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device).tril()
    return attention(query, key, value, attn_mask, scale, rec, dropout_p)[0]


def _project(rec: Recorder, x: Tensor, weight: Tensor, bias: Tensor | None, of: LinearMapRole = None) -> Tensor:
    """Return the projection x W^T + b, recorded as a linear map with the role ``of``, or, where weight or bias depend on the input, as
    :func:`linear` records it.
    """
    if rec.active(weight) or rec.active(bias):
        return linear(rec, F.linear, x, weight, bias)
    return op.linear(x, weight, bias, rec, of)


@handles(F.multi_head_attention_forward)
def _multi_head(
    rec: Recorder,
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
    """Compute nn.MultiheadAttention of ``query``, ``key`` and ``value``, (tokens, batch, width) or (tokens, width), by the same projections
    and :func:`attention`, record it and return the result with the weights, as ``F.multi_head_attention_forward``, whose arguments it has.
    """
    if not (rec.active(query) or rec.active(key) or rec.active(value)) or bias_k is not None or static_k is not None or add_zero_attn:
        given = {k: v for k, v in locals().items() if k not in ("rec", "func")}
        attended, shown = F.multi_head_attention_forward(**given)
        if active(attended):
            rec.watch(attended, "attention with keys of its own (add_zero_attn or add_bias_kv)")
        return attended, shown
    batched, move = query.dim() == 3, rec.nodes.move
    q, k, v = (move(t.transpose(0, 1) if batched else t.unsqueeze(0), t) for t in (query, key, value))  # (B, tokens, width)
    if in_proj_weight is not None and not use_separate_proj_weight:
        weights = tuple(move(each, in_proj_weight) for each in in_proj_weight.chunk(3))
    else:
        assert q_proj_weight is not None
        assert k_proj_weight is not None
        assert v_proj_weight is not None
        weights = (q_proj_weight, k_proj_weight, v_proj_weight)
    biases = (None, None, None) if in_proj_bias is None else tuple(move(each, in_proj_bias) for each in in_proj_bias.chunk(3))
    projected = [_project(rec, t, w, b) for t, w, b in zip((q, k, v), weights, biases, strict=True)]
    q, k, v = (move(t.unflatten(-1, (num_heads, -1)).transpose(1, 2), t) for t in projected)
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
    attended, attention_weights = attention(q, k, v, mask, None, rec, dropout_p if training else 0.0)
    out = _project(rec, move(attended.transpose(1, 2).flatten(2), attended), out_proj_weight, out_proj_bias, "attention")
    shown = None
    if need_weights:
        shown = rec.run(Mean, attention_weights, (1,), False, 1 / num_heads, False) if average_attn_weights else attention_weights
        shown = shown if batched else shown.squeeze(0)
    return move(out.transpose(0, 1) if batched else out.squeeze(0), out), shown


@handles(F.softmax)
def _softmax_of_modules(
    rec: Recorder, func: TorchFunction, input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: torch.dtype | None = None
) -> Tensor:
    """Compute the softmax of ``input`` as ``torch.nn.functional.softmax`` does, record it and return the result. Without ``dim`` it is
    taken along the first dimension of a tensor with none, one or three dimensions, else along the second, as in torch.
    """
    return _softmax(rec, torch.softmax, input, (0 if input.dim() in (0, 1, 3) else 1) if dim is None else dim, dtype)


@handles(torch.softmax, Tensor.softmax, torch.special.softmax)
def _softmax(rec: Recorder, func: TorchFunction, input: Tensor, dim: int, dtype: torch.dtype | None = None) -> Tensor:
    if not rec.active(input):
        return torch.softmax(input, dim, dtype=dtype)
    return rec.run(op.Softmax, unshifted(rec, input, dim), dim, dtype, role=Role.WEIGHTS)


@handles(F.softmin)
def _softmin(
    rec: Recorder, func: TorchFunction, input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: torch.dtype | None = None
) -> Tensor:
    """Compute ``softmin`` of ``input`` over ``dim``, record it as the softmax of the numbers with the other sign, and return it."""
    if not rec.active(input):
        return F.softmin(input, dim, _stacklevel, dtype)
    return _softmax_of_modules(rec, F.softmax, mul(rec, torch.mul, input, -1), dim, _stacklevel, dtype)


@handles(F.log_softmax)
def _log_softmax_of_modules(
    rec: Recorder, func: TorchFunction, input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: torch.dtype | None = None
) -> Tensor:
    """Compute ``log_softmax`` of ``input`` as that of ``torch.nn.functional``, record it and return the result; the default ``dim`` is as
    in :func:`_softmax_of_modules`.
    """
    return _log_softmax(rec, torch.log_softmax, input, (0 if input.dim() in (0, 1, 3) else 1) if dim is None else dim, dtype)


@handles(torch.log_softmax, Tensor.log_softmax, torch.special.log_softmax)
def _log_softmax(rec: Recorder, func: TorchFunction, input: Tensor, dim: int, dtype: torch.dtype | None = None) -> Tensor:
    """Compute a log-softmax of ``input`` over ``dim``, record it with its input, and return it. No rule has a choice for it, but its
    exponential is the softmax of the same numbers.
    """
    exponent = unshifted(rec, input, dim) if rec.active(input) else input
    out: Tensor = call_through(rec, torch.log_softmax, (exponent, dim), {"dtype": dtype})
    node = rec.nodes.of(out)
    if node is not None and rec.active(input):
        node.operands = (exponent,)
    return out


@handles(torch.exp, Tensor.exp)
def _exp(rec: Recorder, func: TorchFunction, input: Tensor, **kwargs: Any) -> Any:
    """Compute the exponential of ``input``, record it and return it. Of the logarithms of a softmax it is the softmax; of other numbers it
    is remembered, because divided by its sum it is a softmax.
    """
    if rec.active(input) and not kwargs and (known := softmax_of_logarithms(rec, input)) is not None:
        return _softmax(rec, torch.softmax, known[0], known[1], None if known[0].dtype == input.dtype else input.dtype)
    out = call_through(rec, func, (input,), kwargs)
    if rec.active(input):
        keep_exponent(rec, out, input)
    return out


handles(torch.exp_, Tensor.exp_)(may_write(_exp, torch.exp))


@handles(torch.exp2, Tensor.exp2, torch.special.exp2)
def _exp2(rec: Recorder, func: TorchFunction, input: Tensor, **kwargs: Any) -> Any:
    """Compute two to the power of ``input``, record it as the exponential of the input times the logarithm of two, and return it."""
    out = call_through(rec, func, (input,), kwargs)
    if rec.active(input):
        keep_exponent(rec, out, mul(rec, torch.mul, input, math.log(2)))
    return out


handles(Tensor.exp2_, torch.exp2_)(may_write(_exp2, torch.exp2))
