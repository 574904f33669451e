"""The vectors that the heads of a block add to its residual stream: attention weights times values, through the output projection."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from explainers.autograd.operators import Norm
from explainers.autograd.recording import Recording
from explainers.errors import ExplainerError

#: Maximum difference, relative to the largest number, between what attention adds to the stream and the sum of its terms.
CLOSE = 1e-3


@dataclass(frozen=True)
class AttentionTerms:
    """The attention of a block as a sum: token i gets sum over heads h and tokens j of weights[h, i, j] projection[:, h] value[h, j], and
    the bias.

    weights     (B, H, S, S)
    value       (B, H, S, d), with the bias of the values
    projection  (D, H, d), times the scale of the branch where the model has one (LayerScale, a residual multiplier)
    bias        (D,)
    """

    weights: Tensor
    value: Tensor
    projection: Tensor
    bias: Tensor


def attention_terms(recording: Recording, block: int, x: Tensor, refusal: Callable[[str], ExplainerError]) -> AttentionTerms:
    """Return the terms of the attention of ``block`` in ``recording``, whose input is ``x`` (B, S, D), see :func:`stream_into`.

    Raises what ``refusal`` makes of a reason, a clause, if the terms cannot be read or do not add up to what the block adds to ``x``.
    """
    parts, projection = recording.parts[block], recording.structure.output_projections[block]
    mid = recording.mid_residuals[block]
    if parts is None or projection is None or mid is None or projection[0] is None:
        raise refusal(f"what the attention of block {block + 1} adds to the residual stream cannot be read")
    weight, bias = projection[0].detach(), projection[1]
    bias = weight.new_zeros(len(weight)) if bias is None else bias.detach()
    added = mid.detach() - x
    given = F.linear(parts.output.detach().transpose(1, 2).flatten(2), weight, bias)
    scale = (added * given).sum((0, 1)) / given.square().sum((0, 1)).clamp_min(torch.finfo(given.dtype).tiny)  # LayerScale, else 1
    if float((added - given * scale).abs().max()) > CLOSE * float(added.abs().max().clamp_min(torch.finfo(given.dtype).tiny)):
        raise refusal(f"block {block + 1} does more to what its attention gives than to project and to scale it")
    heads = parts.value.shape[1], parts.value.shape[3]
    return AttentionTerms(parts.weights.detach(), parts.value.detach(), (weight * scale[:, None]).unflatten(1, heads), bias * scale)


def stream_into(recording: Recording, block: int) -> Tensor:
    """Return the residual stream (B, S, D) at the input of ``block`` in ``recording``; before the first one, after the LayerNorm that the
    model may have there.
    """
    x, nodes = recording.block_inputs[block].detach(), recording.nodes
    for node in nodes.ran[nodes.entry : nodes.blocks[0].first] if block == 0 else ():
        if node.operator is Norm:
            x = F.layer_norm(x, x.shape[-1:], node.settings["weight"], node.settings["bias"], node.settings["eps"]).detach()
    return x
