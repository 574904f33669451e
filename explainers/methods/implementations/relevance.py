"""Methods of relevance: LRP, partial LRP, Transformer Attribution."""

from __future__ import annotations

from torch import Tensor

from explainers.citation import Citation
from explainers.errors import ExplainerError
from explainers.methods.about import CANCELS, About
from explainers.methods.implementations.attention import FIRST_BLOCK, START_LAYER, cut, drop_class_token, product
from explainers.methods.registry import method
from explainers.methods.specs import Option
from explainers.papers import CHEFER, LRP_PAPER
from explainers.records.trace import MethodOutput, Trace, from_pixels


def _gradient_times_relevance(trace: Trace) -> list[Tensor]:
    """Return for each block of a trace mean_h (grad A * R)^+ (B, S, S): the M of eq. 13."""
    gradients = trace.under("gradient").attention_grads
    return [(g * r).clamp_(min=0).mean(1) for g, r in zip(gradients, trace.attention_grads, strict=True)]


def _gradient_times_relevance_of(trace: Trace, block: int) -> Tensor:
    """Return the mean over heads of the positive part of attention gradient times attention relevance, mean_h (grad A * R)^+ (B, S, S), of
    block ``block`` in ``trace``.
    """
    return (trace.under("gradient").attention_grad(block) * trace.attention_grad(block)).clamp(min=0).mean(1)


@method(
    "transformer_attribution",
    title="Transformer Attribution",
    family="relevance",
    source=CHEFER,
    rule="deep_taylor",
    also=("lrp",),
    signed=False,
    needs=("attention", "class_token", "product"),
    class_attention="all",
    passes="1 forward, 2 backward",
    default=True,
    options={
        "start_layer": Option(int, None, f"{FIRST_BLOCK}; all blocks if not given", blocks="index"),
        "published_code": Option(
            bool,
            False,
            "for texts, what the published code does: last block only unless start_layer is given, rows "
            "normalised, [CLS] set to the smallest score",
        ),
    },
    reads=("attentions", "class_attentions"),
    reads_under={"gradient": ("attentions", "class_attentions")},
    about=About(
        formula=(r"C = \prod_{l=L}^{1} \left(I + \frac{1}{H} \sum_h \left(\nabla A^l_h \odot R^l_h\right)^{+}\right)", r"s_j = C_{c,j}"),
        words=(
            "Relevance is taken back from the class to every attention map, weighted with the gradient there, and the positive parts are "
            "multiplied through the blocks."
        ),
        trust="Use it for the place of an object of a chosen class: it is the map that many later papers compare with.",
        fails=f"It shows only what speaks for the class. {CANCELS}",
        line="Credit for the answer is handed back, layer by layer, along what the model looked at.",
    ),
)
def transformer_attribution(trace: Trace, start_layer: int | None = None, published_code: bool = False) -> Tensor:
    """Attention relevance times attention gradient, positive part, multiplied through the blocks.

    Eq. 13 and 14: the product of I + mean_h (grad A * R)^+ over the blocks, row of the classification token; the clamp is taken in each
    head. ``start_layer`` is the first block of the product. With ``published_code`` rows are normalised and the classification token gets
    the smallest score, as in the authors' code.
    """
    if published_code and trace.row == "mean":
        raise ExplainerError(
            "The published code gives the token that its map starts from the smallest score; with row=mean the map starts from all tokens, "
            "so there is none to give it to: leave published_code or row=mean out."
        )
    maps = cut(trace, _gradient_times_relevance(trace))
    if not published_code:
        return trace.class_row(product(trace.identity(), maps, trace.recording.structure.first_map(start_layer or 0)))
    eye = trace.identity()
    rows = [(eye + m) / (eye + m).sum(-1, keepdim=True).clamp_min(1e-30) for m in maps]
    row = trace.class_row(
        product(eye, [r - eye for r in rows], trace.recording.structure.first_map(-1 if start_layer is None else start_layer))
    )
    lowest = row.masked_fill(~trace.mask, float("inf")).amin(1, keepdim=True)
    return row.scatter(1, trace.class_tokens[:, None], lowest)


@method(
    "transformer_attribution_without_gradient",
    title="Transformer Attribution without gradient",
    family="relevance",
    source=CHEFER.with_note("ablation i"),
    rule="deep_taylor",
    also=("lrp",),
    signed=False,
    class_specific=True,
    needs=("attention", "class_token", "product"),
    class_attention="all",
    options={
        "start_layer": START_LAYER,
        "published_code": Option(bool, False, "relevance alone, as the published code has it, instead of attention times relevance"),
    },
    reads=("attentions", "class_attentions"),
    about=About(
        formula=(r"C = \prod_{l=L}^{1} \left(I + \frac{1}{H} \sum_h \left(A^l_h \odot R^l_h\right)^{+}\right)", r"s_j = C_{c,j}"),
        words="Transformer Attribution with attention in the place of its gradient: shows what the gradient was good for.",
        trust="Use it to understand Transformer Attribution, not to explain a model.",
        fails=f"Worse than the whole method in the authors' own tests (Chefer et al. 2021, arXiv 2012.09838, ablation). {CANCELS}",
        line="Transformer Attribution without the step that tells classes apart.",
    ),
)
def without_gradient(trace: Trace, start_layer: int = 0, published_code: bool = False) -> Tensor:
    """Transformer Attribution with attention in place of its gradient: the product of I + mean_h (A * R)^+ over the blocks.

    ``start_layer`` is the first block of the product. With ``published_code`` R alone is taken, without A, as in the authors' code.
    """
    relevance = trace.attention_grads
    if not published_code:
        relevance = [a * r for a, r in zip(trace.attentions, relevance, strict=True)]
    return trace.class_row(
        product(trace.identity(), cut(trace, [r.clamp(min=0).mean(1) for r in relevance]), trace.recording.structure.first_map(start_layer))
    )


@method(
    "transformer_attribution_last_block",
    title="Transformer Attribution, last block only",
    family="relevance",
    source=CHEFER.with_note("ablation ii"),
    rule="deep_taylor",
    also=("lrp",),
    signed=False,
    needs=("attention", "class_token"),
    class_attention="last",
    passes="1 forward, 2 backward",
    reads=("attentions[-1]", "class_attentions"),
    reads_under={"gradient": ("attentions[-1]", "class_attentions")},
    about=About(
        formula=(r"s_j = \frac{1}{H} \sum_h \left(\nabla A^L_{h,c,j} R^L_{h,c,j}\right)^{+}",),
        words="Transformer Attribution that stops at the last block.",
        trust="Use it to see how much of the map of Transformer Attribution comes from the blocks before the last.",
        fails=(
            "Tokens of the last block are mixtures already, so a patch may speak for its neighbours (Chefer et al. 2021, "
            f"ablation). {CANCELS}"
        ),
        line="Transformer Attribution, read at the last block alone.",
    ),
)
def last_block(trace: Trace) -> Tensor:
    """Attention relevance times attention gradient of the block nearest the output, positive part, mean of the heads."""
    return trace.class_row(_gradient_times_relevance_of(trace, -1))


@method(
    "transformer_attribution_second_block",
    title="Transformer Attribution, second block only",
    family="relevance",
    source=CHEFER.with_note("ablation iii"),
    rule="deep_taylor",
    also=("lrp",),
    signed=False,
    needs=("attention", "one_attention", "class_token"),
    passes="1 forward, 2 backward",
    reads=("attentions[0]", "attentions[1]"),
    reads_under={"gradient": ("attentions[0]", "attentions[1]")},
    about=About(
        formula=(r"s_j = \frac{1}{H} \sum_h \left(\nabla A^2_{h,c,j} R^2_{h,c,j}\right)^{+}",),
        words="Transformer Attribution read at the second block alone, near the input.",
        trust="Use it to see how well the class can be told so near the input.",
        fails=f"One early block says little of the class (Chefer et al. 2021, arXiv 2012.09838, ablation). {CANCELS}",
        line="Transformer Attribution, read at one early block.",
    ),
)
def second_block(trace: Trace) -> Tensor:
    """Attention relevance times attention gradient of the second block from the input, positive part, mean of the heads.

    The paper counts that block as B-1 from the output.
    """
    return trace.class_row(_gradient_times_relevance_of(trace, min(1, len(trace.recording.block_inputs) - 1)))


@method(
    "partial_lrp",
    title="Partial LRP",
    family="relevance",
    classic=True,
    source=Citation(
        authors="Voita et al.",
        year=2019,
        title="Analyzing Multi-Head Self-Attention: Specialized Heads Do the Heavy Lifting, the Rest Can Be Pruned",
        venue="ACL",
        arxiv="1905.09418",
        note="as the baseline of Chefer et al., 2021, arXiv 2012.09838",
    ),
    rule="lrp",
    also=("deep_taylor",),
    signed=False,
    needs=("attention", "class_token"),
    class_attention="last",
    passes="1 forward, 1 backward",
    reads=("attentions[-1]", "class_attentions"),
    about=About(
        formula=(r"s_j = \frac{1}{H} \sum_h \left(R^L_{h,c,j}\right)^{+}",),
        words="Relevance of the last attention map, positive part, mean of the heads.",
        trust="Use it as a baseline between raw attention and Transformer Attribution.",
        fails=(
            "One block only; hardly differs from class to class (pictures of two classes in Chefer et al. 2021, arXiv "
            f"2012.09838). {CANCELS}"
        ),
        line="Credit for the answer is handed back through the last layer only.",
    ),
)
def partial_lrp(trace: Trace) -> Tensor:
    """Relevance of the attention map of the last block: positive part, mean of the heads, row of the classification token."""
    row = trace.class_row(trace.attention_grad(-1).clamp(min=0).mean(1))
    return row if trace.layout.grid is not None else drop_class_token(trace, row)


@method(
    "lrp",
    title="LRP",
    family="relevance",
    classic=True,
    source=LRP_PAPER.with_note("as the baseline of Chefer et al., 2021, arXiv 2012.09838"),
    rule="lrp",
    also=("deep_taylor",),
    signed=True,
    pixels=True,
    reads=("block_inputs[0]",),
    about=About(
        formula=(r"s_j = \sum_d R^1_{j,d}",),
        words="Relevance taken all the way back: to the pixels, summed over each patch, or to the embedded words.",
        trust="Use it as the baseline of many tables. Compare it with Conservative LRP or AttnLRP, which repair it for Transformers.",
        fails=(
            f"The published baseline doubles relevance at every linear layer, and its map hardly depends on the class (Chefer et al. 2021, "
            f"and their code). {CANCELS}"
        ),
        line="Credit for the answer is handed back, step by step, to each part.",
    ),
)
def lrp(trace: Trace) -> Tensor | MethodOutput:
    """Relevance taken all the way back: to the pixels, summed over each patch, or to the word embeddings.

    Images: relevance of the pixels (z^B rule at the patch embedding), summed over colours, then over the pixels of each
    patch. Prefix tokens and texts: relevance of the embedded tokens
    summed over its width.
    """
    tokens = trace.block_input_grad(0).sum(-1)
    pixels = trace.signals.pixels
    if pixels is None:
        return tokens
    return from_pixels(trace, pixels.sum(1), tokens)
