"""Kernel SHAP: Shapley values of parts of the input, from all coalitions of them where they fit, else from a weighted draw."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from explainers.citation import Citation
from explainers.errors import ExplainerError, NotInstalledError
from explainers.installation import not_installed
from explainers.methods.about import HIDING, About
from explainers.methods.hidden_parts import SAMPLES, attribute_each
from explainers.methods.implementations.own_masks import tensors_of
from explainers.methods.registry import method
from explainers.methods.seed_correlations import group_of
from explainers.methods.specs import Option
from explainers.models.grids import halve_grid
from explainers.models.superpixels import find_superpixels
from explainers.records.trace import MethodOutput, Trace

OF_PICTURE, OF_TEXT = 16, 49  # default numbers of parts
Coalitions = tuple[Tensor, Tensor, Tensor]


def slic_segments(pixels: Tensor, grid: tuple[int, int], most: int) -> Tensor:
    """Return the segment of each patch of a ``grid`` (rows, columns): the superpixel (by SLIC of scikit-image) that contains most of the
    patch's pixels. Segments are int64 (rows * columns,), row by row, numbered from 0 without gaps, at most ``most`` of them.

    ``pixels`` (C, height, width) is the picture as the model takes it, usually normalised. Raises ExplainerError without scikit-image.
    """
    segments = torch.zeros(math.prod(grid), dtype=torch.long)
    for wish in range(most, 1, -1):  # SLIC takes its number of segments for a wish
        try:
            labels = find_superpixels(pixels, wish)
        except NotInstalledError:
            message = not_installed("segments=slic needs the package scikit-image", "segments")
            raise ExplainerError(f"{message}, or choose segments=grid") from None
        covers = F.adaptive_avg_pool2d(F.one_hot(labels).permute(2, 0, 1).double(), grid)  # how much of each patch
        segments = covers.flatten(1).argmax(0).unique(return_inverse=True)[1]
        if int(segments.max()) < most:
            break
    return segments


def even_runs(pieces: int, most: int) -> Tensor:
    """Return the part that each word piece belongs to (pieces,): at most ``most`` runs of neighbours, as even as can be."""
    return torch.arange(pieces) if pieces <= most else torch.arange(pieces) * most // pieces


def draw_coalitions(parts: int, samples: int) -> Coalitions:
    """Return at most ``samples`` coalitions of the parts, bool (K, parts), without the empty and the full one; their weights (K,); and bool
    (K,), which were drawn at random, the others being all of their size.

    The weight of a size is (n - 1) / (k (n - k)), the Shapley kernel times the number of its coalitions. Sizes k and n - k are enumerated
    from the outside in, as long as what they would get of the remaining samples is enough for all of them; what is left is drawn by
    weight, each with its complement (Covert & Lee, Improving KernelSHAP, AISTATS 2021, arXiv 2012.01536), with torch's generator.
    """
    sizes = range(1, parts)
    mass = {k: (parts - 1) / (k * (parts - k)) for k in sizes}
    whole: list[int] = list(sizes) if 2**parts - 2 <= samples else []
    left = samples
    for k in range(1, parts // 2 + 1) if not whole else ():
        pair = {k, parts - k}
        count = sum(math.comb(parts, size) for size in pair)
        if count > left * sum(mass[size] for size in pair) / sum(mass[size] for size in sizes if size not in whole):
            break
        whole += sorted(pair)
        left -= count
    rows = [row for k in whole for row in _all_of_size(parts, k)]
    weights = [mass[k] / math.comb(parts, k) for k in whole for _ in range(math.comb(parts, k))]
    enumerated = torch.tensor(rows, dtype=torch.bool).view(-1, parts)
    open_sizes = [k for k in sizes if k not in whole]
    if not open_sizes or left < 2:
        return enumerated, torch.tensor(weights, dtype=torch.float64), torch.zeros(len(enumerated), dtype=torch.bool)
    pairs = left // 2
    chances = torch.tensor([mass[k] for k in open_sizes], dtype=torch.float64)
    drawn_sizes = torch.tensor(open_sizes)[torch.multinomial(chances, pairs, replacement=True)]
    ranks = torch.rand(pairs, parts).argsort(1).argsort(1)
    drawn = ranks < drawn_sizes[:, None]
    drawn = torch.stack([drawn, ~drawn], dim=1).flatten(0, 1)
    share = float(chances.sum()) / len(drawn)
    return (
        torch.cat([enumerated, drawn]),
        torch.tensor([*weights, *[share] * len(drawn)], dtype=torch.float64),
        torch.arange(len(enumerated) + len(drawn)) >= len(enumerated),
    )


def _all_of_size(parts: int, size: int) -> Iterator[list[bool]]:
    for chosen in combinations(range(parts), size):
        members = set(chosen)
        yield [i in members for i in range(parts)]


def fit_shapley(coalitions: Tensor, weights: Tensor, values: Tensor, nothing: float, everything: float) -> Tensor:
    """Fit Shapley values (parts,) to the ``values`` (K,) of coalitions (K, parts), by least squares with ``weights`` (K,) and the sum fixed
    at ``everything`` minus ``nothing``, the values of all parts and of none. Exact if every coalition is among them.
    """
    total = everything - nothing
    z = coalitions.double().cpu().numpy()
    if z.shape[1] == 1:
        return torch.tensor([total], dtype=torch.float64)
    roots = weights.double().sqrt().cpu().numpy()
    targets = values.double().cpu().numpy() - nothing - z[:, -1] * total
    fitted, *_ = np.linalg.lstsq((z[:, :-1] - z[:, -1:]) * roots[:, None], targets * roots, rcond=None)
    return torch.from_numpy(np.append(fitted, total - fitted.sum()))


@method(
    "kernel_shap",
    title="Kernel SHAP",
    family="perturbation",
    source=Citation(
        authors="Lundberg & Lee", year=2017, title="A Unified Approach to Interpreting Model Predictions", venue="NIPS", arxiv="1705.07874"
    ),
    rule=None,
    signed=True,
    needs=("mask_token",),
    slow=True,
    passes="samples + 2 forward",
    options={
        "samples": SAMPLES,
        "features": Option(
            int,
            None,
            "how many parts are hidden on their own, at most, 16 of a picture and 49 of a text unless asked otherwise: of more patches or "
            "word pieces neighbours are hidden together and share; with 2^parts no more than samples the values are exact",
            minimum=2,
            maximum=100_000,
        ),
        "segments": Option(
            str, "grid", "images: parts are a grid that is halved, or superpixels (SLIC, by scikit-image)", choices=("grid", "slic")
        ),
    },
    about=About(
        formula=(
            r"s = \text{argmin}_s \sum_m \pi(m) \left(f(x \odot m) - s_0 - \sum_j s_j m_j\right)^2",
            r"\pi(m) \propto \frac{1}{\binom{n}{|m|} |m| (n - |m|)}",
        ),
        words=(
            "A weighted straight-line fit to the answers for coalitions of parts, whose weights are Shapley values: each part's "
            "fair share. n is the number of parts: patches or word pieces, or where there are many, neighbours that are hidden "
            "together, of a grid that is halved or of superpixels. Where all 2^n coalitions can be asked they are, and the "
            "values are exact; else whole sizes are asked that fit, and others drawn."
        ),
        trust=(
            "Use it for texts of some dozen words, and for regions of a picture: features=8 is exact. Two seeds' correlation stands with "
            "the map."
        ),
        fails=f"With hardly more maskings than parts the fit is not determined, and the map is mostly noise. {HIDING}",
        line="Each part's fair share of the answer, from hiding parts together.",
    ),
)
def kernel_shap(trace: Trace, samples: int = 400, features: int | None = None, segments: str = "grid") -> MethodOutput:
    """Shapley values of parts of the input, patches that are hidden together or word pieces, exact where all their coalitions are asked.

    A weighted linear fit to the answers for coalitions of parts. Sizes of which every coalition fits into the samples are enumerated, the
    others drawn. 196 patches, each hidden on its own, are not determined by some hundred samples: two seeds correlated by 0.07 to 0.25,
    those of 49 parts by 0.0 to 0.1 on a scene, of 16 by 0.97. The paper too takes regions of a picture. The patches of a part share its
    value alike. ``samples`` is the number of coalitions asked, ``features`` the largest number of parts, and ``segments`` says whether a
    picture is divided by a grid or by SLIC superpixels.
    """
    grid = trace.layout.grid
    most = features or (OF_TEXT if grid is None else OF_PICTURE)
    exact: list[bool] = []
    parts: list[int] = []

    def attribute(f: Callable[[Tensor], Tensor], ones: Tensor) -> list[Tensor]:
        part_of = segment(len(exact), ones.shape[1])
        sizes = part_of.bincount()
        coalitions, weights, is_drawn = draw_coalitions(len(sizes), samples)
        ends = torch.tensor([[False], [True]]).expand(2, len(sizes))
        values = f(torch.cat([ends, coalitions])[:, part_of].to(ones))
        nothing, everything = values[:2].tolist()
        exact.append(not bool(is_drawn.any()) and len(coalitions) == 2 ** len(sizes) - 2)
        parts.append(len(sizes))

        def scores(is_kept: Tensor) -> Tensor:
            kept_weights = weights[is_kept].clone()
            scale = weights[is_drawn].sum() / kept_weights[is_drawn[is_kept]].sum().clamp(min=torch.finfo(torch.float64).tiny)
            kept_weights[is_drawn[is_kept]] *= scale
            shapley = fit_shapley(coalitions[is_kept], kept_weights, values[2:].cpu()[is_kept], nothing, everything)
            return (shapley / sizes)[part_of]

        groups = torch.full((len(coalitions),), -1)
        groups[is_drawn] = group_of(int(is_drawn.sum()), together=2)
        whole = scores(groups >= -1)
        if exact[-1]:
            return [whole, whole, whole]  # no seed changes it
        return [whole, *(scores(groups != group) for group in groups[is_drawn].unique())]

    def segment(sample: int, count: int) -> Tensor:
        if grid is None:
            return even_runs(count, most)
        if segments == "slic":
            return slic_segments(tensors_of(trace, sample)["pixel_values"][0], grid, most)
        return halve_grid(grid, most)

    output = attribute_each(trace, attribute, samples)
    notes = tuple(
        (*before, f"All {2**count} coalitions of {count} parts were asked: these Shapley values are exact.") if is_exact else before
        for is_exact, count, before in zip(exact, parts, output.notes or ((),) * len(exact), strict=True)
    )
    return replace(output, notes=notes)
