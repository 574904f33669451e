"""Grad-CAM and its kin at what a block's attention is given, patches alone: the usual recipe for ViTs, and RefineCAM's product over blocks.

What attention is given is the output of the block's first norm in a ViT, the layer that pytorch-grad-cam and torch-cam name for one.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from explainers.citation import Citation
from explainers.methods.registry import GRADIENT_ALSO, method
from explainers.methods.specs import Option
from explainers.records.trace import MethodOutput, Trace

#: A map (B, patches) of activations and gradients (B, patches, D), before negative numbers are cut off.
Cam = Callable[[Tensor, Tensor], Tensor]


def gradcam(x: Tensor, g: Tensor) -> Tensor:
    """Channels weighted by the mean gradient over patches."""
    return (x * g.mean(1, keepdim=True)).sum(-1)


def xgradcam(x: Tensor, g: Tensor) -> Tensor:
    """Channels weighted by the gradient's mean weighted by the activation, which is signed: sum g x / (sum x + 1e-7)."""
    return (x * (g * x).sum(1, keepdim=True) / (x.sum(1, keepdim=True) + 1e-7)).sum(-1)


def hirescam(x: Tensor, g: Tensor) -> Tensor:
    """Each activation times its gradient."""
    return (x * g).sum(-1)


def layercam(x: Tensor, g: Tensor) -> Tensor:
    """Each activation times the positive part of its gradient."""
    return (x * g.clamp(min=0)).sum(-1)


def gradcam_plus_plus(x: Tensor, g: Tensor) -> Tensor:
    """Channels weighted by sum a g+, a = g^2 / (2 g^2 + g^3 sum x + 1e-6), 0 where g is: pytorch-grad-cam's Grad-CAM++."""
    square = g.square()
    alpha = torch.where(g != 0, square / (2 * square + square * g * x.sum(1, keepdim=True) + 1e-6), 0.0)
    return (x * (alpha * g.clamp(min=0)).sum(1, keepdim=True)).sum(-1)


def gradcam_squared(x: Tensor, g: Tensor) -> Tensor:
    """Channels weighted by sum g^2 g+: torch-cam's Grad-CAM++, whose code divides a copy of g^2 by Grad-CAM++'s denominator."""
    return (x * (g.square() * g.clamp(min=0)).sum(1, keepdim=True)).sum(-1)


RECIPE: dict[str, Cam] = {
    "gradcam": gradcam,
    "gradcam++": gradcam_plus_plus,
    "xgradcam": xgradcam,
    "hirescam": hirescam,
    "layercam": layercam,
}
REFINED: dict[str, Cam] = {"gradcam++": gradcam_squared, "layercam": layercam, "gradcam": gradcam}


@method(
    "pytorch_grad_cam",
    title="Grad-CAM (pytorch-grad-cam)",
    family="gradients",
    classic=True,
    source=Citation(
        authors="Selvaraju et al.",
        year=2017,
        title="Grad-CAM: Visual Explanations from Deep Networks via Gradient-based Localization",
        venue="ICCV",
        arxiv="1610.02391",
        note="as pytorch-grad-cam (J. Gildenblat and contributors) has it for ViTs",
    ),
    rule="gradient",
    also=GRADIENT_ALSO,
    signed=False,
    needs=("image", "attention_input"),
    options={"cam": Option(str, "gradcam", "which of the methods that pytorch-grad-cam has for this layer", choices=tuple(RECIPE))},
    reads=("attention_inputs[-1]",),
)
def pytorch_grad_cam(trace: Trace, cam: str = "gradcam") -> Tensor:
    """Patches at the first norm of the last block, weighted by channel with the mean gradient over patches; the positive part.

    z_j = LN(x^L)_j, w_d = mean_j of the gradient of z_jd, s_j = max(0, sum_d w_d z_jd): the recipe with which pytorch-grad-cam reads ViTs.
    The classification token takes no part. cam= has its other methods, at the same place.
    """
    return _on_patches(trace, _positive(trace, RECIPE[cam], trace.attention_inputs[-1], trace.attention_input_grad(-1)))


@method(
    "refinecam",
    title="RefineCAM",
    family="gradients",
    source=Citation(
        authors="Domeniconi et al.",
        year=2026,
        arxiv="2605.14641",
        note="in the form of torch-cam",
    ),
    rule="gradient",
    also=GRADIENT_ALSO,
    signed=False,
    needs=("image", "attention_input"),
    options={"cam": Option(str, "gradcam++", "the maps of which the product is made", choices=tuple(REFINED))},
    reads=("attention_inputs",),
)
def refinecam(trace: Trace, cam: str = "gradcam++") -> MethodOutput:
    """The product over blocks of a Grad-CAM at each block's first norm, each stretched to 0 to 1, and the whole again.

    m_l = max(0, CAM of z = LN(x^l)) over patches, n(m) = (m - min) / (max - min + 1e-8), s = n(prod_l n(m_l)).
    """
    gradients = [trace.attention_input_grad(block) for block in range(len(trace.block_inputs))]
    pairs = zip(trace.attention_inputs, gradients, strict=True)
    maps = torch.stack([_positive(trace, REFINED[cam], z, gradient) for z, gradient in pairs])  # (blocks, B, patches)
    notes = []
    for is_empty in (~maps.any(-1)).T.tolist():
        blocks = [str(number) for number, empty in enumerate(is_empty, 1) if empty]
        notes.append(
            (f"Nothing in block {', '.join(blocks)} speaks for the answer, which makes the product zero everywhere.",) if blocks else ()
        )
    return MethodOutput(_on_patches(trace, _stretched(_stretched(maps).prod(0))), notes=tuple(notes))


def _patches(trace: Trace) -> slice:
    rows, columns = trace.layout.grid or (0, 0)
    return slice(trace.layout.prefix, trace.layout.prefix + rows * columns)


def _positive(trace: Trace, cam: Cam, z: Tensor, gradient: Tensor) -> Tensor:
    """The positive part of a map (B, patches)."""
    patches = _patches(trace)
    return cam(z[:, patches], gradient[:, patches]).clamp(min=0)


def _stretched(scores: Tensor) -> Tensor:
    """Each map (B, patches) from 0 to 1; one that is the same everywhere is 0."""
    above = scores - scores.amin(-1, keepdim=True)
    return above / (above.amax(-1, keepdim=True) + 1e-8)


def _on_patches(trace: Trace, scores: Tensor) -> Tensor:
    """Scores of patches (B, patches) among those of all tokens (B, S), 0 elsewhere."""
    every = torch.zeros(trace.mask.shape, dtype=scores.dtype, device=scores.device)
    every[:, _patches(trace)] = scores
    return every
