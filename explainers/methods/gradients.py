"""Read-outs of tokens and their gradients: Input x Gradient, its integral, the CAM family, FullGrad."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from explainers.methods.registry import Name, method
from explainers.specs import Option
from explainers.trace import Trace

LIBRA = "LibraGrad, CVPR 2025, arXiv 2411.16760"
ALI = "XAI for Transformers: Better Explanations through Conservative Propagation, ICML 2022, arXiv 2202.07304"
ATTNLRP = "AttnLRP: Attention-Aware Layer-Wise Relevance Propagation for Transformers, ICML 2024, arXiv 2402.05602"
GRADIENT_ALSO = ("libra", "conservative", "attnlrp")


@method(
    "input_x_gradient",
    title="Input × Gradient",
    by="Shrikumar et al.",
    year=2017,
    paper="Not Just a Black Box, arXiv 1605.01713",
    rule="gradient",
    also=GRADIENT_ALSO,
    signed=True,
    default=True,
    complete=True,
    named={
        "libra": Name("Input × Gradient · Libra", "Mehri et al.", 2025, LIBRA, default=True),
        "conservative": Name("Conservative LRP", "Ali et al.", 2022, ALI, default=True),
        "attnlrp": Name("AttnLRP", "Achtibat et al.", 2024, ATTNLRP, default=True),
    },
)
def input_x_gradient(trace: Trace) -> Tensor:
    """Each embedded token times its gradient, summed over the width: sum_d x^1 grad x^1."""
    return (trace.block_inputs[0] * trace.block_input_grads[0]).sum(-1)


@method(
    "integrated_gradients",
    title="Integrated Gradients",
    by="Sundararajan et al.",
    year=2017,
    paper="Axiomatic Attribution for Deep Networks, ICML 2017, arXiv 1703.01365",
    rule="gradient",
    also=("libra",),
    signed=True,
    complete=True,
    dear=True,
    passes="steps forward, steps backward",
    options={"steps": Option(int, 50, "points on the path from the zero baseline to the embedded tokens", minimum=1, maximum=1000)},
)
def integrated_gradients(trace: Trace, steps: int = 50) -> Tensor:
    """Input times the mean gradient along the straight path from zero to the embedded tokens.

    sum_d x^1 * int_0^1 grad f(a x^1) da, by Gauss-Legendre quadrature; baseline zero for the whole of x^1 (position
    embedding and classification token included).
    The error reported is |f(x) - f(0) - sum of the scores|.
    """
    nodes, weights = np.polynomial.legendre.leggauss(steps)
    x = trace.block_inputs[0]
    batch = len(x)
    assert trace.rule is not None
    total = torch.zeros_like(x)
    inner = max(1, INNER_BATCH // batch)
    for first in range(0, steps, inner):
        alphas = torch.tensor((nodes[first : first + inner] + 1) / 2, dtype=x.dtype, device=x.device)
        share = torch.tensor(weights[first : first + inner] / 2, dtype=x.dtype, device=x.device)
        recording = trace.rerun(alphas)
        chosen = trace.chosen.repeat(len(alphas))
        gradient = recording.signals(trace.rule, chosen.seed(recording.logits, trace.rule)).block_inputs[0]
        total += (gradient.unflatten(0, (batch, len(alphas))) * share[None, :, None, None]).sum(1)
    scores = (x * total).sum(-1)
    at_baseline = trace.value(trace.rerun(torch.zeros(1, dtype=x.dtype, device=x.device)).logits)
    trace.error = (trace.value() - at_baseline - scores.sum(1)).abs()
    return scores


INNER_BATCH = 16  # inputs in one forward pass of the path: bounds memory


@method(
    "hirescam",
    title="HiResCAM",
    by="Draelos & Carin",
    year=2020,
    paper="Use HiResCAM instead of Grad-CAM, arXiv 2011.08891; on tokens as in LibraGrad",
    rule="gradient",
    also=GRADIENT_ALSO,
    signed=True,
)
def hirescam(trace: Trace) -> Tensor:
    """Each token at the last block's input times its gradient, summed over the width."""
    return (trace.block_inputs[-1] * trace.block_input_grads[-1]).sum(-1)


@method(
    "gradcam_plus",
    title="GradCAM+",
    by="Mehri et al.",
    year=2025,
    paper=LIBRA + " (Grad-CAM summed over all blocks)",
    rule="gradient",
    also=GRADIENT_ALSO,
    signed=True,
)
def gradcam_plus(trace: Trace) -> Tensor:
    """Tokens weighted by channel with the mean gradient over tokens, summed over the inputs of all blocks."""
    pairs = zip(trace.block_inputs, trace.block_input_grads, strict=True)
    return torch.stack([(x * trace.token_mean(g)).sum(-1) for x, g in pairs]).sum(0)


@method(
    "fullgrad",
    title="FullGrad",
    by="Srinivas & Fleuret",
    year=2019,
    paper="Full-Gradient Representation, NeurIPS 2019, arXiv 1905.00780",
    rule="gradient",
    also=GRADIENT_ALSO,
    signed=True,
    complete=True,
    named={"libra": Name("FullGrad · Libra", "Mehri et al.", 2025, LIBRA)},
)
def fullgrad(trace: Trace) -> Tensor:
    """Input times gradient plus every bias times its gradient, at the token where it acts.

    sum_d x^1 grad x^1 + sum over biases b of sum_d b grad b. Under Libra the scores sum to the explained logit. Biases
    without a token (of the head)
    go to the first prefix token; where there is none they stay outside the map, and are counted only in the completeness error.
    """
    return input_x_gradient(trace) + trace.signals.bias


@method(
    "fullgrad_plus",
    title="FullGrad+",
    by="Mehri et al.",
    year=2025,
    paper=LIBRA,
    rule="gradient",
    also=GRADIENT_ALSO,
    signed=True,
    named={"libra": Name("FullGrad+ · Libra", "Mehri et al.", 2025, LIBRA, default=True)},
)
def fullgrad_plus(trace: Trace) -> Tensor:
    """Input times gradient summed over the inputs of all blocks, plus every bias times its gradient once."""
    pairs = zip(trace.block_inputs, trace.block_input_grads, strict=True)
    return torch.stack([(x * g).sum(-1) for x, g in pairs]).sum(0) + trace.signals.bias
