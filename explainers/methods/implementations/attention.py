"""Methods of attention maps: raw, rolled out, weighted by their gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from explainers.autograd.rules import RULES
from explainers.autograd.structure.around_attention import are_outputs_normalised
from explainers.citation import Citation
from explainers.errors import ExplainerError
from explainers.methods.about import AGNOSTIC, ATTENTION_FAILS, EPSILON, LAYERS, About
from explainers.methods.declaration import Name
from explainers.methods.registry import GRADIENT_ALSO, INTEGRATED, method
from explainers.methods.specs import Option
from explainers.methods.two_rows import attention_of_rows, gradients_at, relevance_of_rows, rows_read
from explainers.papers import ATTCAT, ATTENTION_FLOW, TRANSFORMER_PAPER
from explainers.records.trace import MethodOutput, Trace, over_blocks

FIRST_BLOCK = "first block of the product, counted from 0 at the input, or from -1 back from the output"
START_LAYER = Option(int, 0, FIRST_BLOCK, blocks="index")


def product(identity: Tensor, matrices: Sequence[Tensor], start_layer: int = 0) -> Tensor:
    """Return the product (I + M^L) ... (I + M^(1 + start)) of the blocks' ``matrices`` M (B, S, S), later blocks on the left; ``identity``
    is I and ``start_layer`` the first block, negative from the end. Raises ExplainerError for a start beyond the last block.
    """
    joint = identity
    for matrix in matrices[_first_block(start_layer, len(matrices)) :]:
        joint = joint + matrix @ joint
    return joint


def _first_block(start_layer: int, blocks: int) -> int:
    """Return ``start_layer``, a block counted from 0 or from -1 back, counted from 0. Raises ExplainerError if it is beyond the number of
    ``blocks``.
    """
    if not -blocks <= start_layer < blocks:
        raise ExplainerError(f"start_layer={start_layer}: this model has {blocks} blocks, so choose {-blocks} to {blocks - 1}.")
    return start_layer % blocks


def row_of_product(trace: Trace, matrix_of: Callable[[Tensor, Tensor], Tensor], start_layer: int = 0) -> Tensor:
    """Return the row (B, S) of :func:`product` at which the answer is read, from attention maps of which some queries are in memory at a
    time: the row times one matrix after the other, from the last block back. ``matrix_of(weights, signal)`` is M (B, queries, S), from the
    weights and signals (B, H, queries, S).
    """
    blocks = len(trace.recording.block_inputs)
    first, rows = _first_block(start_layer, blocks), {blocks: trace.row_weights}

    def read(block: int, queries: slice, weights: Tensor, signal: Tensor) -> None:
        after = rows[block + 1]
        rows[block] = rows.get(block, after) + (after[:, None, queries] @ matrix_of(weights, signal))[:, 0]

    trace.read_maps(read, first)
    return rows[first]


def cut(trace: Trace, matrices: Sequence[Tensor]) -> list[Tensor]:
    """Return the ``matrices`` M (B, S, S), one for each attention map, such that I + M leads on nothing of tokens that the model throws
    away inside a block or between two: see :class:`~explainers.autograd.structure.token_links.TokenLinks`.
    """
    pairs = zip(matrices, trace.token_links, strict=True)
    return [matrix if links is None else links.cut(matrix) for matrix, links in pairs]


def drop_class_token(trace: Trace, scores: Tensor) -> Tensor:
    """Return the ``scores`` (B, S) of a map over the tokens of ``trace`` with 0 at the classification token, as the published code for BERT
    has it; a word that the head reads keeps its own.
    """
    token = trace.layout.class_token
    if token is None and trace.row == "class_token":
        token = 0
    return scores if token in (-1, None) else scores.index_fill(1, torch.tensor([token], device=scores.device), 0.0)


@method(
    "raw_attention",
    title="Raw attention",
    family="attention",
    classic=True,
    source=TRANSFORMER_PAPER.with_note("whose weights are read; the last block as the baseline of Chefer et al., 2021, arXiv 2012.09838"),
    rule=None,
    signed=False,
    class_specific=False,
    needs=("attention", "class_token"),
    class_attention="last",
    two_rows=True,
    passes="1 forward",
    about=About(
        formula=(r"s_j = \frac{1}{H} \sum_h A^L_{h,c,j}",),
        words=(
            "The row of the last attention map that belongs to the token the answer is read from. Nothing else of the model is looked at."
        ),
        trust="Use it as a first look at where the last block reads from, and as a baseline that other methods should beat.",
        fails=f"{ATTENTION_FAILS} It skips all blocks but one, where tokens are already mixed. {AGNOSTIC}",
        line="Where the last layer of the model looks. It is the same for every answer.",
    ),
)
def raw_attention(trace: Trace) -> Tensor:
    """Attention of the classification token in the last block, averaged over the heads.

    Of an encoder-decoder it is that of the decoder's last layer, from the token that is read to the words of the source and to those
    written before: two rows that each sum to 1.
    """
    if (of_rows := attention_of_rows(trace)) is not None:
        among, across = (of_rows.mean_over_heads(weights.detach()) for weights in of_rows.decoder[-1])
        return rows_read(trace, among, across)
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
    needs=("attention", "class_token", "product"),
    by_rows=True,
    class_attention="all",
    passes="1 forward",
    default=True,
    options={"start_layer": START_LAYER},
    about=About(
        formula=(r"C = \prod_{l=L}^{1} \frac{\bar{A}^l + I}{2}", r"s_j = C_{c,j}"),
        words=(
            "Follows attention from the answer down through every block to the input. Half of each block's signal is taken to "
            "pass it by on the residual path."
        ),
        trust="Use it when the question is where information can have come from, whatever it says.",
        fails=(
            f"Heads are averaged, values and feed-forward layers left out; background gets a share as attention does (Chefer et al. 2021, "
            f"arXiv 2012.09838). {AGNOSTIC}"
        ),
        line="Where the model looked, followed back through all its layers. It is the same for every answer.",
    ),
)
def rollout(trace: Trace, start_layer: int = 0) -> Tensor:
    """Attention multiplied through all blocks, where half of each block's signal is assumed to stay in place.

    The product of (A + I) / 2 over the blocks, A the mean of the heads; row of the classification token (eq. 1 and the
    residual of section 4). Rows are not renormalised: where those of A do not sum to 1, as of mixed heads or next to a sink, neither do
    those of the product.
    """
    if trace.has_maps_by_rows:
        row = row_of_product(trace, lambda weights, signal: weights.mean(1), start_layer)
        return row * 0.5 ** len(trace.recording.block_inputs[start_layer:])
    halves = cut(trace, [a.mean(1) for a in trace.attentions])
    first = trace.recording.structure.first_map(start_layer)
    joint = product(trace.identity(), halves, first)
    block_count = len(halves) - first % len(halves)
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
    options={"integrated": INTEGRATED},
    reads=("attentions[-1]", "class_attentions"),
    about=About(
        formula=(r"s_j = \left(\frac{1}{H} \sum_h w_h A^L_{h,c,j}\right)^{+}", r"w_h = \text{mean}_j \nabla A^L_{h,c,j}"),
        words=(
            "The last attention map again, but each head counts by how much the answer would gain if that head attended more. "
            "For texts the weight is a mean over the whole map."
        ),
        trust="Use it when one block decides, as in shallow models and for a coarse place in an image.",
        fails=(
            "Where all weighted heads are negative the map is empty, and it knows only the last block (Chefer et al. 2021, arXiv "
            "2012.09838)."
        ),
        line="Where the last layer looks, counting most what would make the answer surer.",
    ),
)
def gradcam_attention(trace: Trace) -> Tensor:
    """Attention of the last block, each head weighted by its mean gradient, negative values set to zero.

    Images: a = A^L[cls, patches], w_h the mean over patches of its gradient. Texts: w_h the mean over the whole map of the real tokens, and
    the entry of [CLS] is 0. Scores are max(0, mean_h w_h a_h), and 0 where all are negative. Returns (B, S).
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
    needs=("attention", "class_token", "product"),
    by_rows=True,
    class_attention="all",
    two_rows=True,
    default=True,
    options={"integrated": INTEGRATED, "start_layer": START_LAYER},
    reads=("attentions", "class_attentions"),
    about=About(
        formula=(r"C = \prod_{l=L}^{1} \left(I + \frac{1}{H} \sum_h \left(A^l_h \odot \nabla A^l_h\right)^{+}\right)", r"s_j = C_{c,j}"),
        words=(
            "In every block, attention is kept where more of it would raise the answer; these maps are then multiplied through the blocks."
        ),
        trust="Use it as a cheap map of a chosen class that needs nothing but attention and its gradient.",
        fails=(
            "It shows only what speaks for the class, and sees what attention moves but not what the values carry (Chefer et al. 2021, "
            "arXiv 2103.15679, leave both out by design)."
        ),
        line="Where the model looked in all layers, counting what would make the answer surer.",
    ),
)
def generic_attention(trace: Trace, start_layer: int = 0) -> Tensor:
    """Attention times its gradient, positive part, multiplied through the blocks (eq. 5 and 6: the product of I + mean_h (A * grad A)^+).

    ``start_layer`` is the first block of the product, negative from the end. Returns the row (B, S) of the classification token. For
    the two rows of an encoder-decoder see :func:`explainers.methods.two_rows.relevance_of_rows`.
    """
    if (of_rows := attention_of_rows(trace)) is not None:
        if start_layer != 0:
            raise ExplainerError("start_layer= is for models with one row of tokens: leave it out for an encoder-decoder.")
        return rows_read(trace, *relevance_of_rows(of_rows, gradients_at(trace, of_rows)))
    if trace.has_maps_by_rows:
        return row_of_product(trace, _positive_products, start_layer)
    maps = [_positive_products(a, g) for a, g in zip(trace.attentions, trace.attention_grads, strict=True)]
    return trace.class_row(product(trace.identity(), cut(trace, maps), trace.recording.structure.first_map(start_layer)))


#: Said of AttCAT where the head reads patches or words of the last block's output, which it leaves out.
POOLED_ATTCAT = (
    "This model goes on with patches or words of the last block that is read here. Their own share in the answer is "
    "not in this map, which ends with the block before, as LibraGrad's code does: attcat?published_code=true takes the last block in, by "
    "its input."
)


#: Said of AttCAT where what a block gives goes on through a normalisation alone.
OUTPUT_EPSILON = "Here a normalisation alone takes what a block gives. " + EPSILON.format(where=" there", method="attcat")


@method(
    "attcat",
    title="AttCAT",
    family="attention_gradient",
    source=ATTCAT,
    rule="gradient",
    also=GRADIENT_ALSO,
    signed=True,
    summed=True,
    needs=("attention", "one_attention"),
    by_rows=True,
    named={"libra": Name("AttCAT · Libra", RULES["libra"].source, names_rule=True)},
    options={
        "integrated": INTEGRATED,
        "published_code": Option(
            bool, False, "pair each block's attention with its input, as AttCAT's own code does, instead of its output"
        ),
    },
    reads=("block_inputs", "block_outputs"),
    about=About(
        formula=(r"s_j = \sum_{l=1}^{L-1} \alpha^l_j \sum_d y^l_{j,d} \nabla y^l_{j,d}", r"\alpha^l_j = \text{mean}_{h,i} A^l_{h,i,j}"),
        words="Each token's share of the answer at the end of every block, weighted by how much attention the token gets there.",
        trust="Use it for texts, for which it was made, and where the sign of a word matters.",
        fails=(
            f"{LAYERS} Paper and published code differ in which tokens meet which attention, and their maps correlate by -0.42 to "
            "0.77 (BERT); the option published_code has the other one."
        ),
        line="What each part adds to the answer, layer by layer; parts that the model looks at count more.",
    ),
)
def attcat(trace: Trace, published_code: bool = False) -> MethodOutput:
    """Token times its gradient, weighted by the attention the token receives, summed over the blocks.

    sum_l alpha^l * sum_d h^l grad h^l; alpha the mean over heads and query rows of A^l, so that no classification token is needed; h^l the
    output of block l or, as in the published code, its input. The last block's output is left out, as LibraGrad's code has it: of a head
    that reads a classification token its gradient is zero elsewhere. Where the head pools all tokens it is not, and a note says so. With
    ``published_code`` tokens are the blocks' inputs.
    """
    if not published_code and trace.recording.layout.class_token is None:
        trace.note(POOLED_ATTCAT)
    values, grads = (
        (trace.block_inputs, trace.block_input_grads) if published_code else (trace.block_outputs[:-1], trace.block_output_grads[:-1])
    )
    if not values:
        raise ExplainerError("AttCAT leaves the last block out, and this model has no other: attcat?published_code=true reads its input.")
    assert trace.rule is not None
    if trace.rule.choice("norm").is_ordinary and not trace.integrated and are_outputs_normalised(trace.recording.nodes):
        trace.note(OUTPUT_EPSILON)
    return over_blocks([r * (h * g).sum(-1) for r, h, g in zip(_received(trace), values, grads, strict=False)])


def _received(trace: Trace) -> list[Tensor]:
    """Return the attention that each token receives in each block, (B, S): its mean over the heads and the queries of real tokens."""
    if not trace.has_maps_by_rows:
        rows = trace.mask.to(trace.block_inputs[0].dtype)[:, :, None]
        return [(a.mean(1) * rows).sum(1) / rows.sum(1) for a in trace.attentions]
    received = [torch.zeros_like(x[..., 0]) for x in trace.block_inputs]
    shares = trace.mask.to(received[0].dtype) / trace.mask.sum(1, keepdim=True)

    def read(block: int, queries: slice, weights: Tensor, signal: Tensor) -> None:
        received[block] += (shares[:, None, queries] @ weights.mean(1))[:, 0]

    trace.read_maps(read)
    return received


def _positive_products(weights: Tensor, signal: Tensor) -> Tensor:
    """Return mean_h (A * grad A)^+ (B, queries, S) of attention weights A and their signal, (B, H, queries, S)."""
    return (weights * signal).clamp(min=0).mean(1)
