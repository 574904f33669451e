"""Methods of attention maps: raw, rolled out, weighted by their gradient."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from explainers.autograd.rules import RULES
from explainers.citation import Citation
from explainers.errors import ExplainerError
from explainers.methods.declaration import Name
from explainers.methods.registry import GRADIENT_ALSO, INTEGRATED, method
from explainers.methods.specs import Option
from explainers.papers import ATTCAT, ATTENTION_FLOW, CHEFER
from explainers.records.trace import MethodOutput, Trace, over_blocks

FIRST_BLOCK = "first block of the product, counted from 0 at the input, or from -1 back from the output"
START_LAYER = Option(int, 0, FIRST_BLOCK, blocks="index")


def product(identity: Tensor, matrices: Sequence[Tensor], start_layer: int = 0) -> Tensor:
    """(I + M^L) ... (I + M^(1 + start)), later blocks on the left: (B, S, S). Raises ExplainerError for a start beyond the last block."""
    blocks = len(matrices)
    if not -blocks <= start_layer < blocks:
        raise ExplainerError(f"start_layer={start_layer}: this model has {blocks} blocks, so choose {-blocks} to {blocks - 1}.")
    joint = identity
    for matrix in matrices[start_layer % blocks :]:
        joint = joint + matrix @ joint
    return joint


def drop_class_token(trace: Trace, scores: Tensor) -> Tensor:
    """Scores (B, S), 0 at the classification token, as the published code for BERT has it; a word that the head reads keeps its own."""
    token = trace.layout.class_token
    if token is None and trace.row == "class_token":
        token = 0
    return scores if token in (-1, None) else scores.index_fill(1, torch.tensor([token], device=scores.device), 0.0)


@method(
    "raw_attention",
    title="Raw attention",
    family="attention",
    classic=True,
    source=CHEFER.noted("its raw-attention baseline"),
    rule=None,
    signed=False,
    class_specific=False,
    needs=("attention", "class_token"),
    class_attention="last",
    passes="1 forward",
    default=True,
)
def raw_attention(trace: Trace) -> Tensor:
    """What the classification token attends to in the last block, mean of the heads."""
    return trace.class_row(trace.attentions[-1].mean(1))


@method(
    "rollout",
    title="Attention rollout",
    family="attention",
    classic=True,
    source=ATTENTION_FLOW,
    rule=None,
    signed=False,
    class_specific=False,
    needs=("attention", "class_token"),
    class_attention="all",
    passes="1 forward",
    default=True,
    options={"start_layer": START_LAYER},
)
def rollout(trace: Trace, start_layer: int = 0) -> Tensor:
    """Attention multiplied through all blocks, half of each block's signal taken to stay where it is.

    The product of (A + I) / 2 over the blocks, A the mean of the heads; row of the classification token (eq. 1 and the
    residual of section 4).
    """
    halves = [a.mean(1) for a in trace.attentions]
    joint = product(trace.identity(), halves, start_layer)
    block_count = len(halves) - start_layer % len(halves)
    return trace.class_row(joint) * 0.5**block_count


@method(
    "gradcam_attention",
    title="Grad-CAM on attention",
    family="attention_gradient",
    classic=True,
    source=Citation(
        authors="Selvaraju et al.",
        year=2017,
        title="Grad-CAM: Visual Explanations from Deep Networks via Gradient-based Localization",
        venue="ICCV",
        arxiv="1610.02391",
        note="on attention as in the baseline of Chefer et al., 2021, arXiv 2012.09838",
    ),
    rule="gradient",
    also=GRADIENT_ALSO,
    signed=False,
    needs=("attention", "class_token"),
    class_attention="last",
    default=True,
    options={"integrated": INTEGRATED},
    reads=("attentions[-1]", "class_attentions"),
)
def gradcam_attention(trace: Trace) -> Tensor:
    """Attention of the last block, each head weighted by its mean gradient, negative values cut off.

    Images: a = A^L[cls, patches], w_h the mean over patches of its gradient. Texts: w_h the mean over the whole map of
    the real tokens, and the entry of [CLS] is 0.
    Scores are max(0, mean_h w_h a_h), and 0 where all are negative.
    """
    a, g = trace.attentions[-1], trace.attention_grad(-1)
    row = trace.class_row(a)
    if trace.layout.grid is not None:
        weights = trace.class_row(g)[..., trace.layout.patches].mean(-1)
        return (weights[..., None] * row).mean(1).clamp(min=0)
    pairs = (trace.mask[:, :, None] & trace.mask[:, None, :]).to(g.dtype)[:, None]
    weights = (g * pairs).sum((-1, -2)) / pairs.sum((-1, -2))
    return drop_class_token(trace, (weights[..., None] * row).mean(1).clamp(min=0))


@method(
    "generic_attention",
    title="Generic Attention",
    family="attention_gradient",
    source=Citation(
        authors="Chefer et al.",
        year=2021,
        title="Generic Attention-model Explainability for Interpreting Bi-Modal and Encoder-Decoder Transformers",
        venue="ICCV",
        arxiv="2103.15679",
    ),
    rule="gradient",
    also=GRADIENT_ALSO,
    signed=False,
    needs=("attention", "class_token"),
    class_attention="all",
    default=True,
    options={"integrated": INTEGRATED, "start_layer": START_LAYER},
    reads=("attentions", "class_attentions"),
)
def generic_attention(trace: Trace, start_layer: int = 0) -> Tensor:
    """Attention times its gradient, positive part, multiplied through the blocks (eq. 5 and 6: the product of I + mean_h
    (A * grad A)^+).
    """
    maps = [(a * g).clamp(min=0).mean(1) for a, g in zip(trace.attentions, trace.attention_grads, strict=True)]
    return trace.class_row(product(trace.identity(), maps, start_layer))


@method(
    "attcat",
    title="AttCAT",
    family="attention_gradient",
    source=ATTCAT,
    rule="gradient",
    also=GRADIENT_ALSO,
    signed=True,
    summed=True,
    needs=("attention",),
    named={"libra": Name("AttCAT · Libra", RULES["libra"].source, default=True, names_rule=True)},
    options={
        "integrated": INTEGRATED,
        "published_code": Option(
            bool, False, "pair each block's attention with its input, as AttCAT's own code does, instead of its output"
        ),
    },
    reads=("block_inputs", "block_outputs"),
)
def attcat(trace: Trace, published_code: bool = False) -> MethodOutput:
    """Token times its gradient, weighted by the attention the token receives, summed over the blocks.

    sum_l alpha^l * sum_d h^l grad h^l; alpha the mean over heads and query rows of A^l; h^l the output of block l (the
    last block, whose gradient is zero off the
    classification token, is left out) or, as in the published code, its input.
    """
    values, grads = (
        (trace.block_inputs, trace.block_input_grads) if published_code else (trace.block_outputs[:-1], trace.block_output_grads[:-1])
    )
    if not values:
        raise ExplainerError("AttCAT leaves the last block out, and this model has no other: attcat?published_code=true reads its input.")
    rows = trace.mask.to(values[0].dtype)[:, :, None]
    received = [(a.mean(1) * rows).sum(1) / rows.sum(1) for a in trace.attentions]
    return over_blocks([r * (h * g).sum(-1) for r, h, g in zip(received, values, grads, strict=False)])
