"""Fused attention of long rows of tokens: its weights are never all in memory, neither on the way forward nor on the way back.

Forward, torch's fused kernel runs. On the way back the steps of attention are recorded again for some queries at a time, and the signal at
their outputs goes back through these steps under the rule in force. What arrives at keys and values is summed over all queries. This is for
recordings whose activations inside blocks are not kept (:mod:`explainers.autograd.recomputation`). Whoever wants the weights, or the signal
there, reads them of these queries at that moment (:class:`explainers.autograd.recorder.ReadMap`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from explainers.autograd.recorder import Operator, Recorder, saved_of

#: From how many attention weights of all heads on they are not computed all at once, and how many at most are in memory.
MIN_WEIGHTS, WEIGHTS_AT_ONCE = 2**22, 2**21
#: The number of operators that the steps of attention are recorded as, and which of them are products of two paths.
STEPS, PRODUCTS = 4, (1, 4)
#: Records the steps of attention for (query, key, value, mask), and returns the output and the weights.
Record = Callable[[Tensor, Tensor, Tensor, Tensor | None], tuple[Tensor, Tensor]]


def is_long(query: Tensor, key: Tensor) -> bool:
    """Return whether attention of ``query`` (..., S, d) to ``key`` (..., K, d) has so many weights that it is recorded row by row."""
    return query.shape[:-1].numel() * key.shape[-2] >= MIN_WEIGHTS


class RowwiseAttention(Operator):
    """Attention of queries to keys and values, (..., tokens, d), by torch's fused kernel; its backward pass records the steps again for
    some queries at a time.
    """

    title = "fused attention"

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        is_causal: bool,
        scale: float | None,
        record: Record,
        context: Callable[[], AbstractContextManager[None]],
        rec: Recorder,
    ) -> Tensor:
        """Return the output of attention, (..., S, d). ``record`` records its steps inside the context that ``context`` makes."""
        rec.keep(ctx, query, key, value)
        ctx.mask, ctx.is_causal, ctx.record, ctx.context = mask, is_causal, record, context
        ctx.rec, ctx.block = rec, len(rec.nodes.blocks) - 1
        return F.scaled_dot_product_attention(query, key, value, mask, is_causal=is_causal, scale=scale)

    @staticmethod
    def backward(ctx: Any, *signals: Tensor) -> Any:
        """Return the signals at query, key and value, from those at the output. What reads attention maps is called for some queries at a
        time.
        """
        query, key, value = saved_of(ctx)[:3]
        signal, tokens, keys = signals[0], query.shape[-2], key.shape[-2]
        step = max(1, WEIGHTS_AT_ONCE // (query.shape[:-2].numel() * keys))
        at_queries, at_keys, at_values, read_map = [], None, None, ctx.rec.read_map
        for first in range(0, tokens, step):
            rows = slice(first, min(first + step, tokens))
            mask = ctx.mask
            if ctx.is_causal:
                mask = torch.arange(rows.start, rows.stop, device=query.device)[:, None] >= torch.arange(keys, device=query.device)
            elif mask is not None and mask.shape[-2] > 1:
                mask = mask[..., rows, :]
            with torch.enable_grad(), ctx.context():
                given = [each.detach().requires_grad_() for each in (query[..., rows, :], key, value)]
                out, weights = ctx.record(*given, mask)
            places = given if read_map is None else [*given, weights]
            arrived = torch.autograd.grad(out, places, signal[..., rows, :], allow_unused=True, create_graph=torch.is_grad_enabled())
            at_query, at_key, at_value, *at_weights = (
                torch.zeros_like(each) if each_signal is None else each_signal for each, each_signal in zip(places, arrived, strict=True)
            )
            if read_map is not None:
                read_map(ctx.block, rows, weights.detach(), at_weights[0])
            at_queries.append(at_query)
            at_keys = at_key if at_keys is None else at_keys + at_key
            at_values = at_value if at_values is None else at_values + at_value
        return torch.cat(at_queries, -2), at_keys, at_values, None, None, None, None, None, None
