"""Read-outs that propagate every source token on its own: DecompX, GlobEnc, ALTI."""

from __future__ import annotations

import torch
from torch import Tensor

from explainers.errors import ExplainerError
from explainers.methods.registry import method
from explainers.propagation import Propagation
from explainers.rules import RULES
from explainers.trace import Trace

INNER_BATCH = 33  # copies in one forward pass: bounds memory


def _propagate(trace: Trace, block: int | None) -> list[tuple[Propagation, int]]:
    """Forward passes over all source tokens, some at a time, and how many sources each holds."""
    rule = trace.rule or RULES["libra"]
    tokens = trace.block_inputs[0].shape[1]
    inner = max(1, INNER_BATCH // len(trace.block_inputs[0]) - 1)
    passes = []
    for first in range(0, tokens, inner):
        sources = torch.arange(first, min(first + inner, tokens))
        propagation = trace.rerun(1 + len(sources), kind=Propagation, sources=sources, rule=rule, block=block)
        assert isinstance(propagation, Propagation)
        passes.append((propagation, len(sources)))
    return passes


@method(
    "decompx",
    title="DecompX",
    by="Modarressi et al.",
    year=2023,
    paper="DecompX, ACL 2023, arXiv 2306.02873; without biases, as in LibraGrad",
    rule="libra-product",
    also=("libra",),
    signed=True,
    complete=True,
    dear=True,
    passes="tokens + 1 forward",
    refuses=dict.fromkeys(
        ("gradient", "conservative", "attnlrp", "libra-attention", "libra-norm", "libra-activation", "libra-bias"),
        "it propagates tokens forward with attention, scales and gates held constant, and leaves biases out",
    ),
)
def decompx(trace: Trace) -> Tensor:
    """Contribution of each token to the logit, every token propagated forward on its own through all blocks, biases left out.

    Attention weights, scales of normalisations and gates act(x)/x are constants, so that the contributions of a sum add up.
    """
    rule = trace.rule
    assert rule is not None
    if (rule.attention, rule.norm, rule.activation) != ("constant", "constant", "gate"):
        raise ExplainerError("decompx holds attention, scales and gates constant: give a rule that does, such as libra or libra-product.")
    found = []
    for propagation, count in _propagate(trace, None):
        contributions = propagation.logits.detach().unflatten(0, (-1, 1 + count))[:, 1:]
        seed = trace.chosen.seed(trace.recording.logits.detach(), rule)
        found.append((contributions * seed[:, None]).sum(-1))
    return torch.cat(found, 1)


def _after_attention(trace: Trace, block: int) -> Tensor:
    """Contribution of every token at the input of a block to the vector after its attention sub-layer: (B, S to, S from, D).

    Attention with its residual; in a post-norm block both LayerNorms act on it, the feed-forward layer between them left out.
    """
    parts = []
    for propagation, count in _propagate(trace, block):
        middle = propagation.middles[block]
        if middle is None:
            raise ExplainerError("This model's blocks do not add attention to a residual stream.")
        vectors = middle
        output = propagation.block_outputs[-1]
        if any(normed is output for _, normed, _ in propagation.norms):  # post-norm: the block's output is itself normalised
            for x, normed, _ in propagation.norms:
                vectors = normed if x is middle else vectors
            factor = next(factor for _, normed, factor in propagation.norms if normed is output)
            vectors = (vectors - vectors.mean(-1, keepdim=True)) * factor
        parts.append(vectors.detach().unflatten(0, (-1, 1 + count))[:, 1:])
    return torch.cat(parts, 1).transpose(1, 2)


def _rolled(trace: Trace, weights: list[Tensor]) -> Tensor:
    """Row-normalised contributions multiplied through the blocks, row of the classification token."""
    joint = trace.identity()
    for matrix in weights:
        joint = (matrix / matrix.sum(-1, keepdim=True).clamp_min(1e-30)) @ joint
    return trace.class_row(joint)


@method(
    "globenc",
    title="GlobEnc",
    by="Modarressi et al.",
    year=2022,
    paper="GlobEnc, NAACL 2022, arXiv 2205.03286",
    rule=None,
    signed=False,
    class_specific=False,
    needs=("attention", "class_token", "residual"),
    dear=True,
    passes="blocks x tokens forward",
)
def globenc(trace: Trace) -> Tensor:
    """Length of what each token gives each other one through a block's attention and residual, rolled out over the blocks."""
    return _rolled(trace, [_after_attention(trace, block).norm(dim=-1) for block in range(len(trace.block_inputs))])


@method(
    "alti",
    title="ALTI",
    by="Ferrando et al.",
    year=2022,
    paper="Measuring the Mixing of Contextual Information in the Transformer, EMNLP 2022, arXiv 2203.04212",
    rule=None,
    signed=False,
    class_specific=False,
    needs=("attention", "class_token", "residual"),
    dear=True,
    passes="blocks x tokens forward",
)
def alti(trace: Trace) -> Tensor:
    """How near each contribution v comes to their sum o: max(0, |o|_1 - |o - v|_1), rolled out over the blocks."""
    weights = []
    for block in range(len(trace.block_inputs)):
        v = _after_attention(trace, block)
        whole = v.sum(2, keepdim=True)
        weights.append((whole.abs().sum(-1) - (whole - v).abs().sum(-1)).clamp(min=0))
    return _rolled(trace, weights)
