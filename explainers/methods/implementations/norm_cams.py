"""Grad-CAM and related methods at the input of a block's attention: the usual recipe for ViTs, CDAM, and RefineCAM's product over blocks.

What attention is given is the output of the block's first norm in a ViT, the layer that pytorch-grad-cam and torch-cam name for one.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from explainers.citation import Citation
from explainers.methods.about import About
from explainers.methods.registry import GRADIENT_ALSO, method
from explainers.methods.specs import Option
from explainers.records.trace import MethodOutput, Trace, inner_products

#: A map (B, patches) of activations and gradients (B, patches, D), before negative numbers are cut off.
Cam = Callable[[Tensor, Tensor], Tensor]


def gradcam(x: Tensor, g: Tensor) -> Tensor:
    """Return the map of Grad-CAM (B, patches) from activations ``x`` and their gradient ``g``, both (B, patches, D): activations summed
    over channels, each channel weighted by its mean gradient over patches.
    """
    return (x * g.mean(1, keepdim=True)).sum(-1)


def xgradcam(x: Tensor, g: Tensor) -> Tensor:
    """Return the map of XGrad-CAM (B, patches) from activations ``x`` and their gradient ``g``, both (B, patches, D): each channel weighted
    by sum g x / (sum x + 1e-7) over patches, with signed activations x.
    """
    return (x * (g * x).sum(1, keepdim=True) / (x.sum(1, keepdim=True) + 1e-7)).sum(-1)


def hirescam(x: Tensor, g: Tensor) -> Tensor:
    """Return the map of HiResCAM (B, patches) from activations ``x`` and their gradient ``g``, both (B, patches, D): each activation times
    its gradient, summed over channels.
    """
    return (x * g).sum(-1)


def layercam(x: Tensor, g: Tensor) -> Tensor:
    """Return the map of LayerCAM (B, patches) from activations ``x`` and their gradient ``g``, both (B, patches, D): each activation times
    the positive part of its gradient, summed over channels.
    """
    return (x * g.clamp(min=0)).sum(-1)


def gradcam_plus_plus(x: Tensor, g: Tensor) -> Tensor:
    """Return the map of pytorch-grad-cam's Grad-CAM++ (B, patches) from activations ``x`` and their gradient ``g``, both (B, patches, D):
    channels weighted by sum a g+, a = g^2 / (2 g^2 + g^3 sum x + 1e-6), 0 where g is 0.
    """
    square = g.square()
    alpha = torch.where(g != 0, square / (2 * square + square * g * x.sum(1, keepdim=True) + 1e-6), 0.0)
    return (x * (alpha * g.clamp(min=0)).sum(1, keepdim=True)).sum(-1)


def gradcam_squared(x: Tensor, g: Tensor) -> Tensor:
    """Return the map of torch-cam's Grad-CAM++ (B, patches) from activations ``x`` and their gradient ``g``, both (B, patches, D): channels
    weighted by sum g^2 g+, as its code divides a copy of g^2 by Grad-CAM++'s denominator.
    """
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
    about=About(
        formula=(
            r"s_j = \left(\sum_d w_d z_{j,d}\right)^{+}, \quad w_d = \text{mean}_j \nabla z_{j,d}, \quad z = \text{LN}\left(x^L\right)",
        ),
        words=(
            "Grad-CAM at the first norm of the last block, the classification token left out: what pytorch-grad-cam's users draw of a ViT."
        ),
        trust="Use it to see here what the library pytorch-grad-cam shows.",
        fails=(
            "Where the head reads one token, patches reach the answer through the last attention alone, so their gradients are "
            "small and noisy; one weight for a channel everywhere cannot tell two places that use it differently. What speaks "
            "against the class is left out."
        ),
        line="Which parts hold features that raise the answer, as the last layer reads them.",
    ),
)
def pytorch_grad_cam(trace: Trace, cam: str = "gradcam") -> Tensor:
    """Patches at the first norm of the last block, weighted by channel with the mean gradient over patches; the positive part.

    z_j = LN(x^L)_j, w_d = mean_j of the gradient of z_jd, s_j = max(0, sum_d w_d z_jd): the recipe with which pytorch-grad-cam reads ViTs.
    The classification token takes no part. cam= has its other methods, at the same place.
    """
    return _on_patches(trace, _positive(trace, RECIPE[cam], trace.attention_inputs[-1], trace.attention_input_grad(-1)))


@method(
    "cdam",
    title="CDAM",
    family="gradients",
    source=Citation(
        authors="Brocki et al.", year=2023, title="Class-Discriminative Attention Maps for Vision Transformers", arxiv="2312.02364"
    ),
    rule="gradient",
    also=GRADIENT_ALSO,
    signed=True,
    needs=("attention_input",),
    reads=("attention_inputs[-1]",),
    about=About(
        formula=(r"s_j = \sum_d z_{j,d} \nabla z_{j,d}, \quad z = \text{LN}\left(x^L\right)",),
        words="HiResCAM one step later: token times gradient at the first norm of the last block, as attention takes it.",
        trust=(
            "Use it as HiResCAM, where the head reads one token: the normalisation that makes HiResCAM's sum almost zero lies before the "
            "place where this one is read."
        ),
        fails=(
            "Late tokens are mixtures of many patches, so the place may be wrong. Patches reach the answer through the last attention "
            "alone. The authors' smooth and integrated forms average it over changed tokens, and are not here."
        ),
        line="What each part adds to the answer, as the last layer reads it.",
    ),
)
def cdam(trace: Trace) -> MethodOutput:
    """Each token at the first norm of the last block times its gradient, summed over the width: sum_d z grad z.

    z is what the last attention takes; where a block normalises after attention, that is the block's input, and the map is HiResCAM's. The
    published code leaves the classification token out.
    """
    return inner_products(trace.attention_inputs[-1], trace.attention_input_grad(-1))


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
    about=About(
        formula=(
            r"s_j = n\left(\prod_{l=1}^{L} n\left(m^l\right)\right)_j, \quad m^l_j = \left(\sum_d w^l_d z^l_{j,d}\right)^{+}",
            r"n(m) = \frac{m - \min m}{\max m - \min m}",
        ),
        words="A Grad-CAM of every block, each stretched to the range from 0 to 1, multiplied: what is left is where all blocks agree.",
        trust=(
            "Use it for a sharp outline in networks whose early layers are finer; in a ViT all blocks have the same patches, and it "
            "sharpens alone."
        ),
        fails=(
            "One block without a positive score makes the whole map zero, and its note says which. The weights are those of torch-cam's "
            "Grad-CAM++ unless cam= says otherwise: sums of g² g⁺, as its code divides by Grad-CAM++'s denominator in a copy that it drops "
            "(Domeniconi et al. 2026, arXiv 2605.14641, resize each map to the picture first)."
        ),
        line="Where the features that raise the answer lie in every layer at once.",
    ),
)
def refinecam(trace: Trace, cam: str = "gradcam++") -> MethodOutput:
    """The product over blocks of a Grad-CAM at each block's first norm, each stretched to 0 to 1; the product is stretched again.

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
    return MethodOutput(_on_patches(trace, _stretch(_stretch(maps).prod(0))), notes=tuple(notes))


def _patches(trace: Trace) -> slice:
    rows, columns = trace.layout.grid or (0, 0)
    return slice(trace.layout.prefix, trace.layout.prefix + rows * columns)


def _positive(trace: Trace, cam: Cam, z: Tensor, gradient: Tensor) -> Tensor:
    """Return the positive part of the map (B, patches) that ``cam`` makes of the patches' activations ``z`` (B, S, D) and their
    ``gradient``.
    """
    patches = _patches(trace)
    return cam(z[:, patches], gradient[:, patches]).clamp(min=0)


def _stretch(scores: Tensor) -> Tensor:
    """Scale each map (..., patches) of ``scores`` to run from 0 to 1, and return them; a map that is the same everywhere becomes 0."""
    above = scores - scores.amin(-1, keepdim=True)
    return above / (above.amax(-1, keepdim=True) + 1e-8)


def _on_patches(trace: Trace, scores: Tensor) -> Tensor:
    """Return scores (B, S) of all tokens of ``trace`` from ``scores`` of its patches (B, patches); tokens that are no patch get 0."""
    every = torch.zeros(trace.mask.shape, dtype=scores.dtype, device=scores.device)
    every[:, _patches(trace)] = scores
    return every
