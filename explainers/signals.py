"""What a recording hands out: what one backward pass brought back, and what one attention was made of."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Signals:
    """What one backward pass brought back for one target. A signal is a gradient, or under a relevance rule a relevance.

    block_inputs  per block (B, S, D): signal at x^l; the first is x^1, the embedded tokens
    block_outputs per block (B, S, D)
    attentions    per block (B, H, S, S): signal at the attention weights; None where the block has no attention map
    contexts      per block (B, H, S, d): signal at the output of attention, before its projection; None likewise
    bias          (B, S): FullGrad's bias terms by token; of relevance, what constants beside the tokens got (a class token laid to them)
    unplaced      (B,): the same where it belongs to no token: of a head that pools, or inside windows of a map of tokens
    pixels        (B, C, height, width), or None where the recording did not start at the pixels
    unruled       names of functions without a rule that the signal passed by ordinary gradient
    seconds       how long the pass took
    """

    block_inputs: tuple[Tensor, ...]
    block_outputs: tuple[Tensor, ...]
    attentions: tuple[Tensor | None, ...]
    contexts: tuple[Tensor | None, ...]
    bias: Tensor
    unplaced: Tensor
    pixels: Tensor | None
    unruled: frozenset[str]
    seconds: float


@dataclass(frozen=True)
class AttentionParts:
    """What one attention was made of: queries, keys, values and outputs (B, H, S, d), and weights (B, H, S, S)."""

    query: Tensor
    key: Tensor
    value: Tensor
    weights: Tensor
    output: Tensor
