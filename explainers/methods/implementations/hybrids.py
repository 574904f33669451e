"""Methods that weigh attention or its gradient by what the tokens do or how well they fit: TokenTM, LeGrad, AGCAM, Grad-ECLIP."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from explainers.autograd.signals import fields_of
from explainers.citation import Citation
from explainers.errors import ExplainerError
from explainers.methods.about import About
from explainers.methods.declaration import Name
from explainers.methods.registry import GRADIENT_ALSO, INTEGRATED, method
from explainers.methods.specs import Option
from explainers.papers import AGCAM_PAPER
from explainers.records.trace import MethodOutput, Trace, over_blocks


def _transformation(before: Tensor, after: Tensor, mask: Tensor) -> Tensor:
    """Return TokenTM's weight of each token (B, S) from the tokens ``before`` and ``after`` a layer, (B, S, D), and the ``mask`` (B, S) of
    real ones: the ratio of its lengths ``after`` and ``before``, times the softmax over real tokens of the cosine between them.
    """
    length = after.norm(dim=-1) / (before.norm(dim=-1) + 1e-8)
    direction = F.cosine_similarity(before, after, dim=-1).masked_fill(~mask, -torch.inf).softmax(-1)
    weight: Tensor = length * direction
    return weight


@method(
    "token_tm",
    title="TokenTM",
    family="attention_gradient",
    source=Citation(
        authors="Wu et al.",
        year=2024,
        title="Token Transformation Matters: Towards Faithful Post-hoc Explanation for Vision Transformer",
        venue="CVPR",
        arxiv="2403.14552",
        note="the formula is that of LibraGrad's code, as none was published",
    ),
    rule="gradient",
    also=GRADIENT_ALSO,
    signed=False,
    needs=("attention", "one_attention", "class_token", "residual", "product"),
    class_attention="all",
    options={"integrated": INTEGRATED},
    reads=("attentions", "class_attentions"),
    about=About(
        formula=(
            r"C^l = \left(I + W^l_{\text{mlp}}\right) \left(I + \left(\bar{A}^l W^l_{\text{att}}\right) \odot "
            r"\text{mean}_h \left(\nabla A^l_h\right)^{+}\right) C^{l-1}",
            r"W = \text{diag}\left(\frac{|x'|}{|x|} \, \text{softmax} \cos(x, x')\right)",
            r"C^0 = \text{diag} \, |x^1|, \quad s_j = C^L_{c,j}",
        ),
        words=(
            "Attention and its gradient through the blocks, each token weighted by how its length and its direction change on the way "
            "from x to x′ in each half of a block."
        ),
        trust="Use it when long vectors that a block shrinks should not count as much as attention alone would have it.",
        fails=(
            "The authors published no formula for the weights; this is the one of LibraGrad's code. Positive parts only. In a post-norm "
            "block, which that code has none of, x′ after attention is the sum before its norm."
        ),
        line="Where the model looked in all layers; parts that a layer changes much count more.",
    ),
)
def token_tm(trace: Trace) -> Tensor:
    """Attention and its gradient through the blocks, each token weighted by how its length and direction change.

    C^0 = diag |x^1|; per block U_att = I + (mean_h A W_att) * mean_h (grad A)^+, U_mlp = I + W_mlp, C^l = U_mlp U_att
    C^(l-1); W = diag(length
    ratio * softmax of the cosine), from the block's input to the stream after attention, and from there to the block's output. Of a
    post-norm block the stream after attention is the sum of input and attention before the norm, the output the one after its last norm.
    """
    eye = trace.identity()
    joint = eye * trace.block_inputs[0].norm(dim=-1)[:, None, :]
    streams = zip(trace.block_inputs, trace.mid_residuals, trace.block_outputs, trace.tokens_of_blocks, strict=True)
    for (x, middle, y, tokens), a, g, links in zip(streams, trace.attentions, trace.attention_grads, trace.token_links, strict=True):
        weights = (a.mean(1) * _transformation(x, middle, tokens)[:, None, :]) * g.clamp(min=0).mean(1)
        joint = (eye + (weights if links is None else links.cut(weights))) @ joint
        joint = (1 + _transformation(middle, y, tokens))[:, :, None] * joint
    return trace.class_row(joint)


@method(
    "legrad",
    title="LeGrad",
    family="attention_gradient",
    source=Citation(
        authors="Bousselham et al.",
        year=2025,
        title="LeGrad: An Explainability Method for Vision Transformers via Feature Formation Sensitivity",
        venue="ICCV",
        arxiv="2404.03214",
    ),
    rule="gradient",
    also=GRADIENT_ALSO,
    signed=False,
    summed=True,
    needs=("attention", "one_attention"),
    passes="1 forward, layers backward",
    options={"layers": Option(int, 2, "how many of the last blocks take part", minimum=1, blocks="count")},
    reads=(),
    about=About(
        formula=(
            r"s_j = \sum_{l} \text{mean}_{h,i} \left(\nabla_{A^l} f^l\right)^{+}_{h,i,j}",
            r"f^l = \text{head}\left(\text{mean}_i \, y^l_i\right)",
        ),
        words=(
            "Asks after each of the last blocks: if the model had to answer now, how would the answer grow with attention? The positive "
            "gradients are averaged over heads and queries and added."
        ),
        trust="Use it for CLIP, for which it was made, and where several layers form the answer.",
        fails=(
            "It gives the head a mean of tokens that it was not trained on, and shows sensitivity, not what attention carried (by its own "
            "definition: Bousselham et al. 2025, arXiv 2404.03214)."
        ),
        line="Where looking more would make the answer surer, added up over the layers.",
    ),
)
def legrad(trace: Trace, layers: int = 2) -> MethodOutput:
    """Positive part of the gradient, with respect to attention, of the score formed at each of the last blocks: averaged over heads and
    queries, summed over these blocks.

    The head is given, for block l, the mean of that block's output over all tokens (the classification token among them, as in the
    published code) at every token; the gradient of the target's score there, with respect to A^l. A head that pools the tokens by attention
    of its own is given block l's output as it is, and the gradient is that with respect to its attention, first query. ``layers`` is the
    number of last blocks.
    """
    blocks = len(trace.block_inputs)
    if layers > blocks:
        raise ExplainerError(f"layers={layers}: this model has {blocks} blocks.")
    assert trace.rule is not None

    def pool(x: Tensor) -> Tensor:
        return trace.token_mean(x).expand_as(x)

    rows = trace.mask.to(trace.block_inputs[0].dtype)
    pools_by_attention = trace.recording.structure.pooling is not None
    terms = []
    for block in range(blocks - layers, blocks):
        recording, logits = trace.recording, None if pools_by_attention else trace.recording.logits_from(block, pool)
        if logits is None:  # it has another attention of its own for each block, or calls that cannot be made again
            recording = trace.rerun(exit_block=block, exit_through=None if pools_by_attention else pool)
            logits = recording.logits
        fields = fields_of(["pooling", f"attentions[{block}]"])
        signals = recording.backward(trace.rule, trace.chosen.output_gradient(logits, trace.rule), fields, logits)
        if signals.pooling is not None:
            terms.append(signals.pooling.clamp(min=0).mean(1)[:, 0])
            continue
        signal = signals.attentions[block]
        assert signal is not None
        terms.append((signal.clamp(min=0).mean(1) * rows[:, :, None]).sum(1) / rows.sum(1, keepdim=True))
    return over_blocks(terms, first=blocks - layers)


#: Said of a map that is read at a class token which the head does not read.
NOTHING_ARRIVES = (
    "The head of this model does not read the class token, and under this rule no gradient passes attention, so its row has none: "
    "agcam:gradient?row=class_token differentiates attention, agcam?row=mean takes the rows of all tokens."
)


@method(
    "agcam",
    title="AGCAM",
    family="attention_gradient",
    source=AGCAM_PAPER,
    rule="cut-attention",
    also=("gradient", *GRADIENT_ALSO),
    signed=False,
    needs=("attention", "class_token", "scores"),
    passes="2 forward, 1 backward",
    summed=True,
    named={"gradient": Name("AGCAM, ordinary gradient", AGCAM_PAPER.with_note("with the gradient through attention too"))},
    reads=("contexts",),
    about=About(
        formula=(r"s_j = \sum_{l=1}^{L} \sum_h \left(\nabla A^l_{h,c,j}\right)^{+} \sigma\left(e^l_{h,c,j}\right)",),
        words=(
            "In every block and head: how well the key of a token fits the query of the classification token, times how much the answer "
            "would gain if more of that token were taken."
        ),
        trust="Use it for the place of a class in a picture: a sigmoid of scores shows whole things where a softmax picks out few patches.",
        fails=(
            "As published, no gradient goes back through attention, so what a block adds is seen only where later blocks keep it at the "
            "same token: agcam:gradient lets it through, which is another map. What speaks against the class is left out. The sigmoid of "
            "large scores is nearly the same for all tokens, and then the gradient alone tells them apart."
        ),
        line="Where the model looks in all layers, counting what would make the answer surer.",
    ),
)
def agcam(trace: Trace) -> MethodOutput:
    """Positive gradient of attention times the sigmoid of its scores before the softmax, summed over heads and blocks.

    s_j = sum_l sum_h max(0, grad A^l_hcj) sigmoid(e^l_hcj) in the row c of the classification token, e the scaled and masked products of
    queries and keys. By default grad is the gradient with what attention takes held constant, as the published code detaches it; under
    the rule ``gradient`` the ordinary one. Under any rule it is that of the product of weights and values, before a factor of one half.
    The model runs once more, to keep the scores. Where the head pools, ``row=mean`` takes the mean over the rows of all tokens.
    """
    assert trace.rule is not None
    if trace.row == "class_token" and trace.layout.class_token is None and trace.rule.choice("attention").weights_are_constant:
        trace.note(NOTHING_ARRIVES)
    maps = []
    recording = trace.rerun(keeps_scores=True)  # lives as long as its structure is asked
    for (scores, value), signal in zip(recording.structure.scores_and_values, trace.signals_with("contexts").contexts, strict=True):
        assert signal is not None
        gradient = signal @ value.detach().mT  # of the weights that meet these values
        maps.append(trace.class_row(gradient.clamp(min=0) * scores.detach().sigmoid()).sum(1))
    return over_blocks(maps)


@method(
    "grad_eclip",
    title="Grad-ECLIP",
    family="attention_gradient",
    source=Citation(authors="Zhao et al.", year=2024, title="Gradient-based Visual Explanation for Transformer-based CLIP", venue="ICML"),
    rule="gradient",
    also=GRADIENT_ALSO,
    signed=False,
    needs=("attention", "class_token", "parts"),
    class_attention="last",
    options={
        "integrated": INTEGRATED,
        "single_head": Option(
            bool,
            False,
            "let the last block attend with one head over its whole width, as the published code does; the model then says something else",
        ),
    },
    reads=("contexts[-1]", "class_contexts"),
    about=About(
        formula=(
            r"s_j = \left(\lambda_j \sum_d g_d v_{j,d}\right)^{+}",
            r"g = \nabla o_c, \quad \lambda_j = \text{scaled} \cos(q_c, k_j)",
        ),
        words=(
            "The values v of the last block, weighted by the gradient g at what attention put out there, and by how like its query q "
            "each key k is. No softmax is in it, so strong tokens do not drown the others."
        ),
        trust="Use it for image and prompt in CLIP, for which it was made.",
        fails=(
            "One block only. The published code runs that block with one head, and then the model says something else; the "
            "option single_head has that (Zhao et al. 2024 and their code). On texts their notebook adds eight blocks, this one "
            "takes the last."
        ),
        line="What the last layer takes from each part, times what the answer needs of it.",
    ),
)
def grad_eclip(trace: Trace, single_head: bool = False) -> Tensor:
    """Values of the last block weighted by the gradient of its attention output, and by how like its query each key is.

    max(0, lambda_i sum_d g_d v_id): g the gradient at the output of attention (before its projection) at the
    classification token, v the values of all
    heads, lambda_i the cosine of projected query and keys, scaled to 0..1 over the content tokens.
    """
    assert trace.rule is not None
    if single_head and trace.integrated:
        raise ExplainerError(
            "single_head runs the model in another way, and integrated= averages over the usual one: leave one of them out."
        )
    recording = trace.rerun(single_head=True) if single_head else trace.recording
    parts, projection = trace.last_parts(recording)
    if single_head and parts.query.shape[1] != 1:
        raise ExplainerError("single_head: this model writes its last attention out step by step, so its heads stay; leave it out.")
    fields = fields_of(["contexts[-1]", "class_contexts"])
    output_gradient = trace.chosen.output_gradient(recording.logits, trace.rule)
    signals = recording.cached_backward(trace.rule, output_gradient, fields) if single_head else trace.signals
    values = (trace.class_row(trace.last_context(signals))[:, :, None] * parts.value.detach()).sum((1, 3))
    query, key = (_project(heads, projection) for heads in (parts.query, parts.key))
    likeness = F.cosine_similarity(trace.class_row(query)[:, None], key, dim=-1)
    content = trace.content_rows
    low = likeness.masked_fill(~content, torch.inf).amin(1, keepdim=True)
    high = likeness.masked_fill(~content, -torch.inf).amax(1, keepdim=True)
    scaled_likeness = torch.where(high > low, (likeness - low) / (high - low), torch.ones_like(likeness))
    return (scaled_likeness * values).clamp(min=0).masked_fill(~content, 0.0)


def _project(heads: Tensor, projection: tuple[Tensor, Tensor | None]) -> Tensor:
    """Apply the output projection of attention (weight, bias) to queries or keys ``heads`` (B, H, S, d), and return (B, S, D)."""
    return F.linear(heads.detach().transpose(1, 2).flatten(2).to(projection[0].dtype), *projection)  # rotated in float32 by GPT-J
