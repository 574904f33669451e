"""Methods that propagate every source token on its own: DecompX, GlobEnc, ALTI."""

from __future__ import annotations

import torch
from torch import Tensor

from explainers.autograd.forward_decomposition import ForwardDecomposition
from explainers.autograd.rules import Rule
from explainers.citation import Citation
from explainers.methods.about import AGNOSTIC, About
from explainers.methods.contributions import Shares, measure_blocks, propagate
from explainers.methods.declaration import Promise
from explainers.methods.registry import method
from explainers.methods.specs import Option
from explainers.records.trace import Trace

#: Maximum error of the sum of all contributions, in epsilons of the sum of their sizes.
ROUNDING_OF_SUM = 64.0


def _refusal(rule: Rule) -> str | None:
    """Return why tokens cannot be propagated forward under ``rule``; None if they can."""
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
            "absdot: each bias is shared among the tokens by how large the product of each one's vector with it is, the authors' default; "
            "where values have biases, their code gives another map (7.5 % off in the case that was compared)",
            choices=("left_out", "absdot"),
        )
    },
    promise=Promise(("libra-product", "libra"), "the explained number, but for what the biases add", not_with={"biases": "absdot"}),
    slow=True,
    passes="tokens + 1 forward",
    refuses=_refusal,
    reads=(),
    reads_under={"libra": ("bias",)},
    about=About(
        formula=(
            r"z_{i \leftarrow j} \mapsto \text{block}^l\left(z_{i \leftarrow j}\right)",
            r"s_j = \text{head}\left(z_{c \leftarrow j}\right), \quad \sum_j s_j \approx f",
        ),
        words=(
            "Every token is sent through the model on its own, with attention, scales and gates held at what they were; what arrives "
            "at the answer is its score."
        ),
        trust=(
            "Use it to see what arrives from each token alone. Its scores leave out what biases add to the answer, which can be most of "
            "it: trust the order of parts, not the sizes."
        ),
        fails=(
            "Holding attention constant says nothing of why it went where it went (Modarressi et al. 2023, arXiv 2306.02873). "
            "Slow. Its authors share biases among the tokens, in proportion to |z · b|, which the option biases=absdot does; a "
            "bias is then credited to tokens that it does not come from. Where values have biases, the authors' code gives "
            "another map, 7.5 % off in the case that was compared."
        ),
        line="Each part is sent through the model alone; its score is what arrives.",
    ),
)
def decompx(trace: Trace, biases: str = "left_out") -> Tensor:
    """Contribution of each token to the logit, when every token is propagated forward on its own through all blocks, biases left out.

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

    scores = torch.cat(propagate(trace, None, read, shares_biases=biases == "absdot"), 1)
    whole = (output_gradient * trace.recording.logits.detach()).sum(1)
    if biases == "left_out":
        libra = trace.under("libra")
        _note_missing_sum(trace, scores, whole - libra.bias.sum(1) - libra.unplaced, "the explained number without what the biases add")
    else:
        _note_missing_sum(trace, scores, whole, "the explained number")
    return scores


def _note_missing_sum(trace: Trace, scores: Tensor, part: Tensor, name: str) -> None:
    """Add a note to the trace for each sample whose contributions ``scores`` (B, S) do not add up, except for rounding, to ``part`` (B,) of
    the explained number; ``name`` is the word for that part in the note.
    """
    rounding = ROUNDING_OF_SUM * max(torch.finfo(scores.dtype).eps, trace.recording.nodes.epsilon) * scores.abs().sum(1)
    for sample, (total, expected, bound) in enumerate(zip(scores.sum(1).tolist(), part.tolist(), rounding.tolist(), strict=True)):
        if abs(total - expected) > bound:
            trace.notes_of_samples.setdefault(sample, []).append(
                f"The contributions should add up to {expected:.3g}, {name}; they add up to {total:.3g}."
            )


def _roll_out(trace: Trace, weights: list[Tensor], normalised: bool = True) -> Tensor:
    """Multiply the contributions of the blocks (``weights``: one matrix (B, S to, S from) for each), with rows scaled to sum to 1 if
    ``normalised``; return the row of the classification token, (B, S). Tokens that are thrown away between blocks hand nothing on.
    """
    joint = trace.identity()
    for matrix, kept in zip((w.to(joint.dtype) for w in weights), trace.links_after_attention, strict=True):
        joint = (matrix / matrix.sum(-1, keepdim=True).clamp_min(1e-30) if normalised else matrix) @ joint
        joint = joint if kept is None else joint * kept[:, :, None]
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
    needs=("attention", "one_attention", "class_token", "residual", "product", "own_tokens"),
    class_attention="streams",
    slow=True,
    passes="blocks x tokens forward",
    options={
        "published_code": Option(bool, False, "multiply the lengths as they are, as the published code does, instead of rows that sum to 1")
    },
    about=About(
        formula=(
            r"N^l_{i,j} = \left|v^l_{i \leftarrow j}\right|_2",
            r"C = \prod_{l=L}^{1} \frac{N^l}{\text{row sum}}, \quad s_j = C_{c,j}",
        ),
        words=(
            "Measures the vector v that each token really gives to each other one through attention and the residual path, and rolls these "
            "lengths out over the blocks."
        ),
        trust="Use it in place of rollout: it sees values and residuals, not attention alone.",
        fails=(
            f"The feed-forward layers are left out, and a long vector counts even where others cancel it (Modarressi et al. 2022, "
            f"arXiv 2205.03286). Rows are scaled to sum 1 here; the published code multiplies the lengths as they are, which the option "
            f"published_code does. {AGNOSTIC}"
        ),
        line="How much each part really hands on to the others, through all blocks.",
    ),
)
def globenc(trace: Trace, published_code: bool = False) -> Tensor:
    """Length of the vector that each token passes to each other one through a block's attention and residual, rolled out over the blocks.

    Value vectors carry their bias; the constants after attention are left out. In a post-norm block both LayerNorms act on the vectors.
    """
    return _roll_out(trace, measure_blocks(trace, 2, lambda shares: shares.vectors.norm(dim=-1)), normalised=not published_code)


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
    needs=("attention", "one_attention", "class_token", "residual", "product", "own_tokens"),
    class_attention="streams",
    slow=True,
    passes="blocks x tokens forward",
    about=About(
        formula=(
            r"N^l_{i,j} = \left(|o^l_i|_1 - |o^l_i - v^l_{i \leftarrow j}|_1\right)^{+}",
            r"C = \prod_{l=L}^{1} \frac{N^l}{\text{row sum}}, \quad s_j = C_{c,j}",
        ),
        words="As GlobEnc, but a contribution v counts by how near it comes to what attention really puts out, o, not by its length.",
        trust="Use it in place of GlobEnc where contributions cancel each other.",
        fails=f"The feed-forward layers are left out (Ferrando et al. 2022, arXiv 2203.04212). {AGNOSTIC}",
        line="How near each part's share comes to what a block puts out, through all blocks.",
    ),
)
def alti(trace: Trace) -> Tensor:
    """Nearness of each token's contribution v to the output o of attention, max(0, |o|_1 - |o - v|_1), rolled out over the blocks.

    Of a post-norm block o is what its first LayerNorm gives; of others it is the residual stream after attention. Biases are part of o.
    """

    def nearness(shares: Shares) -> Tensor:
        whole = shares.whole[:, :, None]
        return (whole.abs().sum(-1) - (whole - shares.vectors).abs().sum(-1)).clamp(min=0)

    return _roll_out(trace, measure_blocks(trace, 1, nearness))
