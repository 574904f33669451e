"""Methods of tokens and their gradients: Input x Gradient, its integral, the CAM family, FullGrad."""

from __future__ import annotations

from torch import Tensor

from explainers.autograd.rules import RULES
from explainers.citation import Citation
from explainers.methods.declaration import Name, Promise
from explainers.methods.registry import GRADIENT_ALSO, INTEGRATED, method
from explainers.methods.specs import Option
from explainers.papers import ALI, ATTNLRP, FULLGRAD, LIBRAGRAD
from explainers.records.trace import MethodOutput, Trace, from_pixels, inner_products, over_blocks

AT = Option(
    str,
    "tokens",
    "where input and gradient meet: at the embedded tokens, or at the pixels, then summed over each patch",
    choices=("tokens", "pixels"),
)


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
    also=GRADIENT_ALSO,
    signed=True,
    default=True,
    promise=Promise(("libra",), "the explained number, but for what the biases add", not_with={"at": "pixels"}),
    named={
        "libra": Name("Input × Gradient · Libra", LIBRAGRAD, default=True, names_rule=True),
        "conservative": Name("Conservative LRP", ALI.noted("its LRP (AH+LN)"), default=True),
        "conservative-attention": Name("Conservative LRP, attention alone", ALI.noted("its LRP (AH)")),
        "attnlrp": Name("AttnLRP", ATTNLRP, default=True),
        "attnlrp-epsilon": Name("AttnLRP with ε", RULES["attnlrp-epsilon"].source),
        "cp-lrp": Name("CP-LRP", RULES["cp-lrp"].source),
        "cp-lrp-gamma": Name("CP-LRP with γ", RULES["cp-lrp-gamma"].source),
    },
    options={"integrated": INTEGRATED, "at": AT},
    reads=("block_inputs[0]",),
)
def input_x_gradient(trace: Trace, at: str = "tokens") -> MethodOutput:
    """Each embedded token times its gradient, summed over the width: sum_d x^1 grad x^1. Or each pixel times its gradient."""
    if at == "pixels":
        return from_pixels(trace, (trace.pixel_values * trace.pixel_grads).sum(1))
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
)
def hirescam(trace: Trace) -> MethodOutput:
    """Each token at the last block's input times its gradient, summed over the width.

    Where the head reads one token, the others reach it through the LayerNorm of the last block alone, whose input times its ordinary
    gradient is zero but for its epsilon: a note on such a map says so.
    """
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
)
def saliency(trace: Trace, at: str = "tokens") -> Tensor | MethodOutput:
    """Size of the gradient at each embedded token: sum_d |grad x^1|. Or at each pixel, summed over colours."""
    if at == "pixels":
        return from_pixels(trace, trace.pixel_grads.abs().sum(1))
    return trace.block_input_grad(0).abs().sum(-1)


@method(
    "gradcam_plus",
    title="GradCAM+",
    family="gradients",
    source=LIBRAGRAD.noted("Grad-CAM summed over all blocks"),
    rule="gradient",
    also=GRADIENT_ALSO,
    signed=True,
    summed=True,
    options={"integrated": INTEGRATED},
    reads=("block_inputs",),
)
def gradcam_plus(trace: Trace) -> MethodOutput:
    """Tokens weighted by channel with the mean gradient over tokens, summed over the inputs of all blocks."""
    pairs = zip(trace.block_inputs, trace.block_input_grads, strict=True)
    return over_blocks([(x * trace.token_mean(g)).sum(-1) for x, g in pairs])


@method(
    "xgradcam_plus",
    title="XGradCAM+",
    family="gradients",
    source=LIBRAGRAD.noted("XGrad-CAM of Fu et al., 2020, arXiv 2008.02312, with absolute activations, summed over all blocks"),
    rule="gradient",
    also=GRADIENT_ALSO,
    signed=True,
    summed=True,
    options={"integrated": INTEGRATED},
    reads=("block_inputs",),
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
)
def fullgrad(trace: Trace) -> Tensor:
    """Input times gradient plus every bias times its gradient, at the token where it acts.

    sum_d x^1 grad x^1 + sum over biases b of sum_d b grad b. Under Libra the scores sum to the explained logit. Biases
    without a token (of the head)
    go to the first prefix token; where there is none they stay outside the map, and are counted only in the completeness error.
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
    options={"integrated": INTEGRATED},
    reads=("block_inputs", "bias"),
)
def fullgrad_plus(trace: Trace) -> MethodOutput:
    """Input times gradient summed over the inputs of all blocks, plus every bias times its gradient once."""
    pairs = zip(trace.block_inputs, trace.block_input_grads, strict=True)
    return over_blocks([(x * g).sum(-1) for x, g in pairs], rest=trace.bias)
