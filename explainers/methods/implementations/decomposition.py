"""Methods that propagate every source token on its own: DecompX, GlobEnc, ALTI."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from explainers.autograd.forward_decomposition import ForwardDecomposition
from explainers.autograd.rules import RULES, Rule
from explainers.citation import Citation
from explainers.errors import ExplainerError
from explainers.methods.class_attention import ClassAttentionTrace, add_class_token
from explainers.methods.declaration import Promise
from explainers.methods.registry import method
from explainers.methods.specs import Option
from explainers.records.trace import Trace

T = TypeVar("T")
INNER_BATCH = 33  # copies in one forward pass: bounds memory
#: What the sum of all contributions may be off by, in epsilons of the sum of their sizes.
ROUNDING_OF_SUM = 64.0


def _propagate(
    trace: Trace,
    block: int | None,
    read: Callable[[ForwardDecomposition, int], T],
    class_attention_stage: bool = False,
    shares_biases: bool = False,
) -> list[T]:
    """What is ``read`` of forward passes over all source tokens, some at a time, and of how many sources each holds. Only one of them is in
    memory at a time. Where biases are shared among the sources, all of these go through one pass.
    """
    parts = []
    rule, x = trace.rule or RULES["libra"], trace.recording.block_inputs[0]
    tokens = x.shape[1] + class_attention_stage
    # of one block every contribution is kept, joined to one tensor and measured
    apart = 0 if block is None else 4 * x.numel() * tokens * x.element_size()
    least = 1 + tokens if shares_biases else 2
    inner = trace.repeats_at_once(max(INNER_BATCH, least * len(x)), least, propagated=True, apart=apart) - 1
    for first in range(0, tokens, inner):
        sources = torch.arange(first, min(first + inner, tokens))
        how = {
            "sources": sources,
            "rule": rule,
            "block": block,
            "class_attention_stage": class_attention_stage,
            "attention_kind": trace.recording.structure.attention_kind,
            "shares_biases": shares_biases,
        }
        propagation = trace.rerun(1 + len(sources), kind=ForwardDecomposition, **how)
        assert isinstance(propagation, ForwardDecomposition)
        for name in sorted(propagation.unruled):
            trace.note(f"This model uses {name}, which is not linear: what tokens contribute there does not add up.")
        parts.append(read(propagation, len(sources)))
        del propagation
    return parts


def _refusal(rule: Rule) -> str | None:
    """Why tokens cannot be propagated forward under a rule, or None."""
    if rule.has_linear_form:
        return None
    return "it propagates tokens forward through the weights as they are, attention, scales and gates held constant, and leaves biases out"


@method(
    "decompx",
    title="DecompX",
    family="decomposition",
    source=Citation(
        authors="Modarressi et al.",
        year=2023,
        title="DecompX: Explaining Transformers Decisions by Propagating Token Decomposition",
        venue="ACL",
        arxiv="2306.02873",
        note="without biases, as in LibraGrad; with biases=absdot as its authors have it",
    ),
    rule="libra-product",
    also=("libra",),
    signed=True,
    options={
        "biases": Option(
            str,
            "left_out",
            "absdot: each bias is shared among the tokens by how large the product of each one's vector with it is, the authors' default",
            choices=("left_out", "absdot"),
        )
    },
    promise=Promise(("libra-product", "libra"), "the explained number, but for what the biases add", not_with={"biases": "absdot"}),
    slow=True,
    passes="tokens + 1 forward",
    refuses=_refusal,
    reads=(),
    reads_under={"libra": ("bias",)},
)
def decompx(trace: Trace, biases: str = "left_out") -> Tensor:
    """Contribution of each token to the logit, every token propagated forward on its own through all blocks, biases left out.

    Attention weights, scales of normalisations and gates act(x)/x are constants, so that the contributions of a sum add up. With
    ``biases`` absdot biases are shared among the tokens, and contributions add up to the logit. Where a model multiplies two paths, read it
    with the rule libra: what the halves of libra-product miss would be shared as a bias is.
    """
    rule = trace.rule
    assert rule is not None
    output_gradient = trace.chosen.output_gradient(trace.recording.logits.detach(), rule)

    def read(propagation: ForwardDecomposition, count: int) -> Tensor:
        contributions = propagation.logits.detach().unflatten(0, (-1, 1 + count))[:, 1:]
        shares: Tensor = (contributions * output_gradient[:, None]).sum(-1)
        return shares

    scores = torch.cat(_propagate(trace, None, read, shares_biases=biases == "absdot"), 1)
    whole = (output_gradient * trace.recording.logits.detach()).sum(1)
    if biases == "left_out":
        libra = trace.under("libra")
        _hold_to_account(trace, scores, whole - libra.bias.sum(1) - libra.unplaced, "the explained number without what the biases add")
    else:
        _hold_to_account(trace, scores, whole, "the explained number")
    return scores


def _hold_to_account(trace: Trace, scores: Tensor, part: Tensor, name: str) -> None:
    """Say where contributions (B, S) miss, by more than rounding, the part (B,) of the explained number that is called ``name``."""
    rounding = ROUNDING_OF_SUM * torch.finfo(scores.dtype).eps * scores.abs().sum(1)
    for sample, (total, expected, bound) in enumerate(zip(scores.sum(1).tolist(), part.tolist(), rounding.tolist(), strict=True)):
        if abs(total - expected) > bound:
            trace.notes_of_samples.setdefault(sample, []).append(
                f"The contributions should add up to {expected:.3g}, {name}; they add up to {total:.3g}."
            )


@dataclass(frozen=True)
class Shares:
    """What a block's attention sub-layer, residual included, makes of each token of the block's input.

    vectors  (B, S to, S from, D): contribution of every token, constants that attention does not carry left out
    whole    (B, S, D): what the sub-layer really gives on
    """

    vectors: Tensor
    whole: Tensor


def after_attention(trace: Trace, block: int, norms: int) -> Shares:
    """The contributions after attention and its residual; in a post-norm block the first ``norms`` of its two LayerNorms act on
    them, the feed-forward layer between the two left out.
    """
    place = _last_mixing_sum(trace, block)

    def read(propagation: ForwardDecomposition, count: int) -> tuple[Tensor, Tensor]:
        middle = propagation.structure.sums[block][place]
        vectors = middle
        output = propagation.block_outputs[-1]
        if any(normed is output for _, normed, _ in propagation.norms):  # post-norm: the block's output is itself normalised
            for x, normed, _ in propagation.norms:
                vectors = normed if x is middle else vectors
            if norms == 2:
                factor = next(factor for _, normed, factor in propagation.norms if normed is output)
                vectors = (vectors - vectors.mean(-1, keepdim=True)) * factor
        groups = vectors.detach().unflatten(0, (-1, 1 + count))
        return groups[:, 1:], groups[:, 0].clone()  # a view would keep all copies

    return _shares(_propagate(trace, block, read))


def _shares(parts: list[tuple[Tensor, Tensor]]) -> Shares:
    """Of the contributions of some sources each, and the whole, which each of the passes had."""
    return Shares(torch.cat([vectors for vectors, _ in parts], 1).transpose(1, 2), parts[0][1])


def _last_mixing_sum(trace: Trace, block: int) -> int:
    """Which of a block's sums is the last that brings tokens together: the first, of attention over them, unless that is over channels
    (XCiT's), and convolutions after it reach further.
    """
    recording = trace.recording
    if not recording.structure.sums[block]:
        raise ExplainerError("This model's blocks do not add attention to a residual stream.")
    if recording.attentions[block] is not None:
        return 0
    x, token_counts = recording.block_inputs[block], []
    for total in recording.structure.sums[block]:
        start_signal = torch.zeros_like(total)
        start_signal[:, total.shape[1] // 2] = torch.linspace(1, 2, total.shape[-1], dtype=x.dtype, device=x.device)
        signal = recording.pull(RULES["libra"], total, x, start_signal)
        assert signal is not None
        token_counts.append(int((signal != 0).any(-1).sum()))
    return token_counts.index(max(token_counts))


def after_class_attention(trace: Trace, block: int) -> Shares:
    """The same in a block of class attention, where S counts the classification token too; or of that token alone (B, 1, S from, D),
    where the block gives nothing but it.
    """

    def read(propagation: ForwardDecomposition, count: int) -> tuple[Tensor, Tensor]:
        middle = propagation.structure.class_attention.blocks[block].mid_residual
        assert middle is not None
        groups = middle.detach().unflatten(0, (-1, 1 + count))
        return groups[:, 1:], groups[:, 0].clone()

    return _shares(_propagate(trace, block, read, class_attention_stage=True))


def _measure_blocks(trace: Trace, norms: int, measure: Callable[[Shares], Tensor]) -> list[Tensor]:
    """Per block what ``measure`` makes of its shares: (B, S to, S from). Behind the blocks of a model whose classification token joins
    there, S counts it, and before it has joined it has a row of its own.
    """
    blocks = [measure(after_attention(trace, block, norms)) for block in range(len(trace.recording.block_inputs))]
    if not isinstance(trace, ClassAttentionTrace):
        return blocks
    squares = [add_class_token(matrix, 1.0) for matrix in blocks]
    for i, block in enumerate(trace.class_blocks):
        matrix = measure(after_class_attention(trace, i))
        if matrix.shape[1] == 1:  # each of the others gives itself
            others = block.input.detach()[:, 1:]
            itself = measure(Shares(others[:, :, None], others))[..., 0]
            matrix = torch.cat([matrix, torch.nn.functional.pad(torch.diag_embed(itself), (1, 0))], 1)
        squares.append(matrix)
    return squares


def _roll_out(trace: Trace, weights: list[Tensor], normalised: bool = True) -> Tensor:
    """Contributions, each row scaled to sum 1 if ``normalised``, multiplied through the blocks; row of the classification token."""
    joint = trace.identity()
    for matrix in (w.to(joint.dtype) for w in weights):
        joint = (matrix / matrix.sum(-1, keepdim=True).clamp_min(1e-30) if normalised else matrix) @ joint
    return trace.class_row(joint)


@method(
    "globenc",
    title="GlobEnc",
    family="decomposition",
    source=Citation(
        authors="Modarressi et al.",
        year=2022,
        title="GlobEnc: Quantifying Global Token Attribution by Incorporating the Whole Encoder Layer in Transformers",
        venue="NAACL",
        arxiv="2205.03286",
    ),
    rule=None,
    signed=False,
    class_specific=False,
    needs=("attention", "class_token", "residual"),
    class_attention="streams",
    slow=True,
    passes="blocks x tokens forward",
    options={
        "published_code": Option(bool, False, "multiply the lengths as they are, as the published code does, instead of rows that sum to 1")
    },
)
def globenc(trace: Trace, published_code: bool = False) -> Tensor:
    """Length of what each token gives each other one through a block's attention and residual, rolled out over the blocks.

    Value vectors carry their bias; the constants after attention are left out. In a post-norm block both LayerNorms act on the vectors.
    """
    return _roll_out(trace, _measure_blocks(trace, 2, lambda shares: shares.vectors.norm(dim=-1)), normalised=not published_code)


@method(
    "alti",
    title="ALTI",
    family="decomposition",
    source=Citation(
        authors="Ferrando et al.",
        year=2022,
        title="Measuring the Mixing of Contextual Information in the Transformer",
        venue="EMNLP",
        arxiv="2203.04212",
    ),
    rule=None,
    signed=False,
    class_specific=False,
    needs=("attention", "class_token", "residual"),
    class_attention="streams",
    slow=True,
    passes="blocks x tokens forward",
)
def alti(trace: Trace) -> Tensor:
    """How near each contribution v comes to the output o of attention: max(0, |o|_1 - |o - v|_1), rolled out over the blocks.

    Of a post-norm block o is what its first LayerNorm gives; of others it is the residual stream after attention. Biases are part of o.
    """

    def nearness(shares: Shares) -> Tensor:
        whole = shares.whole[:, :, None]
        return (whole.abs().sum(-1) - (whole - shares.vectors).abs().sum(-1)).clamp(min=0)

    return _roll_out(trace, _measure_blocks(trace, 1, nearness))
