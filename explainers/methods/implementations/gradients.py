"""Methods of tokens and their gradients: Input x Gradient, its integral, the CAM family, FullGrad."""

from __future__ import annotations

from torch import Tensor

from explainers.autograd.rules import RULES
from explainers.autograd.structure.around_attention import is_added_and_normalised, is_normalised_first
from explainers.citation import Citation
from explainers.methods.about import BREAKS, EPSILON, LAYERS, About
from explainers.methods.declaration import Name, Promise
from explainers.methods.registry import GRADIENT_ALSO, INTEGRATED, method
from explainers.methods.specs import Option
from explainers.papers import ALI, ATTNLRP, FULLGRAD, GIM_PAPER, LIBRAGRAD
from explainers.records.trace import MethodOutput, Trace, from_pixels, inner_products, over_blocks

AT = Option(
    str,
    "tokens",
    "where input and gradient meet: at the embedded tokens, or at the pixels, then summed over each patch",
    choices=("tokens", "pixels"),
)

_ALL_EPSILON = "Here a normalisation takes the input before anything else does. " + EPSILON.format(where="", method="input_x_gradient")
_LAST_EPSILON = "Here the head reads one token, which the others reach through the normalisation of the last block alone. "


def _note_epsilon(trace: Trace, method: str) -> None:
    """Add a note on ``method`` to ``trace`` if the scores of all tokens but the class token come only from the epsilon of the last block's
    normalisation.
    """
    assert trace.rule is not None
    recording = trace.recording
    if not trace.rule.choice("norm").is_ordinary or trace.integrated or recording.class_tokens is None or trace.layout.other_tokens:
        return
    if is_added_and_normalised(recording.nodes, recording.nodes.blocks[-1]):
        trace.note(_LAST_EPSILON + EPSILON.format(where=" at the others", method=method))


@method(
    "input_x_gradient",
    title="Input × Gradient",
    family="gradients",
    source=Citation(
        authors="Shrikumar et al.",
        year=2016,
        title="Not Just a Black Box: Learning Important Features Through Propagating Activation Differences",
        arxiv="1605.01713",
    ),
    rule="gradient",
    also=(*GRADIENT_ALSO, "gim"),
    signed=True,
    default=True,
    promise=Promise(("libra",), "the explained number, but for what the biases add", not_with={"at": "pixels"}),
    named={
        "libra": Name("Input × Gradient · Libra", LIBRAGRAD, names_rule=True),
        "conservative": Name("Conservative LRP", ALI.with_note("its LRP (AH+LN)"), default=True),
        "conservative-attention": Name("Conservative LRP, attention alone", ALI.with_note("its LRP (AH)")),
        "attnlrp": Name("AttnLRP", ATTNLRP, default=True),
        "attnlrp-epsilon": Name("AttnLRP with ε", RULES["attnlrp-epsilon"].source),
        "cp-lrp": Name("CP-LRP", RULES["cp-lrp"].source),
        "cp-lrp-gamma": Name("CP-LRP with γ", RULES["cp-lrp-gamma"].source),
        "gim": Name("GIM", GIM_PAPER),
    },
    options={"integrated": INTEGRATED, "at": AT},
    reads=("block_inputs[0]",),
    about=About(
        formula=(r"s_j = \sum_d x^1_{j,d} \nabla x^1_{j,d}",),
        words=(
            "Each embedded token times the signal that came back to it. With the rules of Ali et al. this is "
            "Conservative LRP, with those of Achtibat et al. AttnLRP, with those of Edin et al. GIM."
        ),
        trust=(
            "Do not trust it with the ordinary gradient. Under every rule it leaves out what biases add to the answer, which can be most "
            "of it: trust the order of parts, not the sizes. FullGrad under Libra counts the biases too."
        ),
        fails=BREAKS,
        line="How much each part itself counts for or against the answer.",
    ),
)
def input_x_gradient(trace: Trace, at: str = "tokens") -> MethodOutput:
    """Each embedded token times its gradient, summed over the width: sum_d x^1 grad x^1. Or each pixel times its gradient.

    x^1 is what enters the first block: of a text the sum of everything that is looked up for a token (word, position, type), or of every
    table in which it is looked up. What a score says is of that sum.
    """
    assert trace.rule is not None
    if trace.rule.choice("norm").is_ordinary and not trace.integrated and is_normalised_first(trace.recording.nodes, at == "pixels"):
        trace.notes.append(_ALL_EPSILON)
    elif at == "tokens" and len(trace.block_inputs) == 1:
        _note_epsilon(trace, "input_x_gradient")
    if at == "pixels":
        terms = trace.pixel_values * trace.pixel_grads
        return from_pixels(trace, terms.sum(1), terms=terms)
    return inner_products(trace.block_inputs[0], trace.block_input_grad(0))


@method(
    "hirescam",
    title="HiResCAM",
    family="gradients",
    source=Citation(
        authors="Draelos & Carin",
        year=2020,
        title="Use HiResCAM instead of Grad-CAM for faithful explanations of convolutional neural networks",
        arxiv="2011.08891",
        note="on tokens as in LibraGrad",
    ),
    rule="gradient",
    also=GRADIENT_ALSO,
    signed=True,
    options={"integrated": INTEGRATED},
    reads=("block_inputs[-1]",),
    about=About(
        formula=(r"s_j = \sum_d x^L_{j,d} \nabla x^L_{j,d}",),
        words="Token times gradient where the last block begins.",
        trust="Use it when the tokens are still near their patches in the last block.",
        fails=f"Late tokens are mixtures of many patches, so the place may be wrong (Mehri et al. 2025 compare the layers). {BREAKS}",
        line="What each part adds to the answer, measured before the last layer.",
    ),
)
def hirescam(trace: Trace) -> MethodOutput:
    """Each token at the last block's input times its gradient, summed over the width.

    Where the head reads one token, the others reach it through the LayerNorm of the last block alone, whose input times its ordinary
    gradient is zero but for its epsilon: a note on such a map says so.
    """
    _note_epsilon(trace, "hirescam")
    return inner_products(trace.block_inputs[-1], trace.block_input_grad(-1))


@method(
    "saliency",
    title="Saliency",
    family="gradients",
    classic=True,
    source=Citation(
        authors="Simonyan et al.",
        year=2014,
        title="Deep Inside Convolutional Networks: Visualising Image Classification Models and Saliency Maps",
        venue="ICLR workshop",
        arxiv="1312.6034",
    ),
    rule="gradient",
    also=GRADIENT_ALSO,
    signed=False,
    options={"integrated": INTEGRATED, "at": AT},
    reads=("block_inputs[0]",),
    about=About(
        formula=(r"s_j = \sum_d \left|\nabla x^1_{j,d}\right|",),
        words="How strongly the answer reacts to a small change of each token, whichever way.",
        trust="Use it for the question where the model is sensitive, which is not the question what it used.",
        fails=(
            "Gradients of deep networks are noisy (Smilkov et al. 2017, arXiv 1706.03825), and a feature that is used to the full has none "
            "(Shrikumar et al. 2017, arXiv 1704.02685)."
        ),
        line="How much the answer reacts to a small change of each part.",
    ),
)
def saliency(trace: Trace, at: str = "tokens") -> Tensor | MethodOutput:
    """Size of the gradient at each embedded token: sum_d |grad x^1|. Or at each pixel, summed over colours.

    ``at`` is "tokens" or "pixels". Returns scores (B, S).
    """
    if at == "pixels":
        return from_pixels(trace, trace.pixel_grads.abs().sum(1))
    return trace.block_input_grad(0).abs().sum(-1)


@method(
    "gradcam_plus",
    title="GradCAM+",
    family="gradients",
    source=LIBRAGRAD.with_note("Grad-CAM summed over all blocks"),
    rule="gradient",
    also=GRADIENT_ALSO,
    signed=True,
    summed=True,
    options={"integrated": INTEGRATED},
    reads=("block_inputs",),
    about=About(
        formula=(r"s_j = \sum_{l=1}^{L} \sum_d w^l_d x^l_{j,d}, \quad w^l_d = \text{mean}_j \nabla x^l_{j,d}",),
        words="Grad-CAM on tokens, in every block: channels are weighted by their mean gradient, and the maps are added.",
        trust="Use it for the rough place of a class when one map for all blocks is wanted.",
        fails=(
            f"One weight for a channel everywhere: it cannot tell two places that use it differently (Draelos & Carin 2020, "
            f"arXiv 2011.08891). The mean is over the classification token too, as in LibraGrad's code. {LAYERS}"
        ),
        line="Which parts hold features that raise the answer, added up over all layers.",
    ),
)
def gradcam_plus(trace: Trace) -> MethodOutput:
    """Tokens weighted by channel with the mean gradient over tokens, summed over the inputs of all blocks."""
    pairs = zip(trace.block_inputs, trace.block_input_grads, strict=True)
    return over_blocks([(x * trace.token_mean(g)).sum(-1) for x, g in pairs])


@method(
    "xgradcam_plus",
    title="XGradCAM+",
    family="gradients",
    source=LIBRAGRAD.with_note("XGrad-CAM of Fu et al., 2020, arXiv 2008.02312, with absolute activations, summed over all blocks"),
    rule="gradient",
    also=GRADIENT_ALSO,
    signed=True,
    summed=True,
    options={"integrated": INTEGRATED},
    reads=("block_inputs",),
    about=About(
        formula=(
            r"s_j = \sum_{l=1}^{L} \sum_d w^l_d x^l_{j,d}, \quad w^l_d = \frac{\sum_j |x^l_{j,d}| \nabla x^l_{j,d}}{\sum_j |x^l_{j,d}|}",
        ),
        words="GradCAM+ with channel weights that depend more on the tokens where the channel is active.",
        trust="Use it like GradCAM+, where activity is spread unevenly.",
        fails=f"The sign of the activity is left out, other than in XGrad-CAM's own formula (Fu et al. 2020, arXiv 2008.02312). {LAYERS}",
        line="Which parts hold features that raise the answer, counted where they are strong, over all layers.",
    ),
)
def xgradcam_plus(trace: Trace) -> MethodOutput:
    """Tokens weighted by channel with the gradient's mean weighted by |activation|, summed over the inputs of all blocks.

    w_d = sum_S g |x| / (sum_S |x| + 1e-7) over the real tokens; score sum_l sum_d x w, as LibraGrad's code computes it.
    """
    real = trace.mask[..., None].to(trace.block_inputs[0].dtype)
    maps = []
    for x, g in zip(trace.block_inputs, trace.block_input_grads, strict=True):
        size = x.abs() * real
        weight = (g * size).sum(1, keepdim=True) / (size.sum(1, keepdim=True) + 1e-7)
        maps.append((x * weight).sum(-1))
    return over_blocks(maps)


@method(
    "fullgrad",
    title="FullGrad",
    family="gradients",
    source=FULLGRAD,
    rule="gradient",
    also=GRADIENT_ALSO,
    signed=True,
    promise=Promise(("libra",), "the explained number", unplaced=True),
    named={"libra": Name("FullGrad · Libra", LIBRAGRAD, names_rule=True)},
    options={"integrated": INTEGRATED},
    reads=("block_inputs[0]", "bias"),
    about=About(
        formula=(
            r"s_j = \sum_d x^1_{j,d} \nabla x^1_{j,d} + \sum_{b} \sum_d b_{j,d} \nabla b_{j,d}",
            r"\sum_j s_j = f \quad \text{under Libra}",
        ),
        words=(
            "Input times gradient, and every bias times its gradient at the token where it acts. Under Libra this is the whole account of "
            "the answer."
        ),
        trust=(
            "Under Libra, and no other rule, its scores add up to the answer, so their sign and size can be taken at their word. The line "
            "“sum is off by” of its plate says how far that holds."
        ),
        fails=f"Biases of the head have no place in the input: they go to the token that the head reads. {BREAKS}",
        line="What each part adds to the answer; under Libra nothing of the answer is left out.",
    ),
)
def fullgrad(trace: Trace) -> Tensor:
    """Input times gradient plus every bias times its gradient, at the token where it acts.

    sum_d x^1 grad x^1 + sum over biases b of sum_d b grad b. Under Libra the scores sum to the explained logit. Biases without a token (of
    the head) go to the first prefix token, and of a text without one to the word that the head reads; where there is neither they stay
    outside the map, and are counted only in the completeness error.
    """
    return (trace.block_inputs[0] * trace.block_input_grad(0)).sum(-1) + trace.bias


@method(
    "fullgrad_plus",
    title="FullGrad+",
    family="gradients",
    source=LIBRAGRAD,
    rule="gradient",
    also=GRADIENT_ALSO,
    signed=True,
    summed=True,
    named={"libra": Name("FullGrad+ · Libra", LIBRAGRAD, default=True, names_rule=True)},
    promise=Promise(("libra",), "the explained number, in a model without biases", unplaced=True, only_with={"reduction": "mean"}),
    options={
        "integrated": INTEGRATED,
        "reduction": Option(
            str,
            "sum",
            "add the maps of all blocks up, as the paper does, or average them, as its authors' notebook on Llama does: without biases, "
            "the mean adds up to the explained number under Libra",
            choices=("sum", "mean"),
        ),
    },
    reads=("block_inputs", "bias"),
    about=About(
        formula=(r"s_j = \sum_{l=1}^{L} \sum_d x^l_{j,d} \nabla x^l_{j,d} + \sum_{b} \sum_d b_{j,d} \nabla b_{j,d}",),
        words=(
            "FullGrad with the tokens of every block, not of the first alone: evidence that is only formed later is seen where "
            "it is formed."
        ),
        trust="Use it under Libra, for the ranking of parts: the method that its paper recommends (Mehri et al. 2025).",
        fails=(
            f"{LAYERS} {BREAKS} The tables of its paper explain the probability of a class; here that is its logit, unless the "
            "probability is asked for. On CLIP, Libra holds the norm of the embeddings constant, which the paper's code does by "
            "one of its presets only."
        ),
        line="What each part adds to the answer, added up over all layers.",
    ),
)
def fullgrad_plus(trace: Trace, reduction: str = "sum") -> MethodOutput:
    """Input times gradient summed over the inputs of all blocks, plus every bias times its gradient once. With the ``reduction`` "mean"
    the terms of the blocks are averaged in place of summed: the same order of tokens where a model has no biases.
    """
    parts = len(trace.block_inputs) if reduction == "mean" else 1
    pairs = zip(trace.block_inputs, trace.block_input_grads, strict=True)
    return over_blocks([(x * g).sum(-1) / parts for x, g in pairs], rest=trace.bias)
