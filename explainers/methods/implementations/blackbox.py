"""Black-box methods: tokens are hidden and the change of the answer is measured; through Captum where it has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from explainers.citation import Citation
from explainers.methods.about import HIDING, About
from explainers.methods.hidden_parts import SAMPLES, attribute_each, likeness_when_hidden
from explainers.methods.registry import method
from explainers.methods.seed_correlations import group_of
from explainers.methods.smooth_masks import map_of_pixel_masks, pixel_size
from explainers.methods.specs import Option
from explainers.metrics.rank_correlation import rank_correlations
from explainers.models.removal.patches import patch_removal
from explainers.records.trace import MethodOutput, Trace

if TYPE_CHECKING:
    pass  # Captum takes seconds to import: done where it is needed

#: Rank correlation from which painting patches and taking them out count as giving the same order.
ALIKE_HIDING = 0.8
#: A patch counts whose fall is at least this share of the largest, in both ways.
COUNTS = 0.2


@method(
    "occlusion",
    title="Occlusion",
    family="perturbation",
    source=Citation(
        authors="Zeiler & Fergus", year=2014, title="Visualizing and Understanding Convolutional Networks", venue="ECCV", arxiv="1311.2901"
    ),
    rule=None,
    signed=True,
    class_specific=True,
    needs=("mask_token",),
    slow=True,
    passes="2 x tokens + 2 forward",
    options={
        "window": Option(int, 1, "side of the hidden square of patches, or length of the hidden run of word pieces", minimum=1, maximum=64),
        "compare": Option(bool, True, "single patches: also take each one out, and say where that disagrees with painting it grey"),
    },
    about=About(
        formula=(r"s_j = f(x) - f\left(x \; \text{without} \; j\right)",),
        words=(
            "A token, or a window around it, is hidden (a patch painted grey, in the mean colour; a word piece masked), and the "
            "fall of the answer is its score."
        ),
        trust="Use it when the question is about the effect of one place, and hiding it leaves a plausible input.",
        fails=f"Evidence that stands there twice is missed, as the other copy still serves. {HIDING}",
        line="How far the answer falls when each patch is painted grey, or each word masked.",
    ),
)
def occlusion(trace: Trace, window: int = 1, compare: bool = True) -> MethodOutput:
    """Fall of the answer when a patch is painted grey or a word piece masked; for a window, the mean over the windows that cover it.

    ``window`` is the side of the hidden square, in patches or word pieces. With ``compare``, and a window of one patch, a note says where
    taking patches out of the input would give another answer than painting them.
    """
    from captum.attr import Occlusion

    grid = trace.layout.grid

    def attribute(f: Callable[[Tensor], Tensor], ones: Tensor) -> list[Tensor]:
        ones_on_grid = ones if grid is None else ones.unflatten(1, grid)
        sides = tuple(min(window, side) for side in ones_on_grid.shape[1:])
        return [
            Occlusion(f).attribute(ones_on_grid, sliding_window_shapes=sides, baselines=0, perturbations_per_eval=trace.answer_passes.rows)
        ]

    output = attribute_each(trace, attribute)
    if grid is None or window > 1 or not compare:
        return output
    falls = (output.scores[sample, trace.content[sample]].cpu() for sample in range(len(output.scores)))
    return replace(output, notes=tuple(_compare_hiding(trace, sample, each, grid) for sample, each in enumerate(falls)))


def _compare_hiding(trace: Trace, sample: int, painted_falls: Tensor, grid: tuple[int, int]) -> tuple[str, ...]:
    """Return a sentence, in a tuple, on the difference between painting patches grey and taking them out, for input number ``sample`` on
    its ``grid`` (rows, columns) of patches; an empty tuple if both agree, or if patches cannot be taken out of the model's input.

    ``painted_falls`` (N,) is how much the answer fell when each patch was painted.
    """
    tensors: dict[str, Tensor] = {}

    def record_tensor(name: str, tensor: Tensor) -> Tensor:
        tensors[name] = tensor
        return tensor

    trace.answer(sample, 1, record_tensor)
    removal = patch_removal(trace.recording.model, tensors, grid)
    if removal.how != "removed":
        return ()
    count = removal.tokens
    keep_masks = torch.cat([torch.ones(1, count, dtype=torch.bool), ~torch.eye(count, dtype=torch.bool)])
    values = (
        trace.chosen.only(sample).repeat(count + 1).value(removal.logits(keep_masks, trace.before_pass).to(trace.recording.logits)).cpu()
    )
    removed_falls = values[0] - values[1:]
    note = describe_disagreement(painted_falls, removed_falls, grid)
    return (note,) if note else ()


def describe_disagreement(painted_falls: Tensor, removed_falls: Tensor, grid: tuple[int, int]) -> str:
    """Return a sentence on how the falls of the answer (N,) differ between patches of a ``grid`` painted grey and taken out; "" if their
    order is alike (a rank correlation of ``ALIKE_HIDING`` or more) and no patch that matters has the opposite sign.
    """
    rho = float(rank_correlations(np.stack([painted_falls.double().numpy(), removed_falls.double().numpy()]))[0, 1])
    shares = [falls / falls.abs().max().clamp(min=torch.finfo(falls.dtype).tiny) for falls in (painted_falls, removed_falls)]
    strength = torch.minimum(shares[0].abs(), shares[1].abs())
    is_opposite = (shares[0] * shares[1] < 0) & (strength >= COUNTS)
    is_alike = not rho < ALIKE_HIDING  # also where one of them orders nothing
    if is_alike and not bool(is_opposite.any()):
        return ""
    order = "much the same order" if is_alike else "another order"
    sentence = f"Here a hidden patch is painted grey. Taken out in its place, patches come in {order} (rank correlation {rho:.2f})."
    if not bool(is_opposite.any()):
        return sentence
    most = int((strength * is_opposite).argmax())
    row, column = divmod(most, grid[1])
    painted_fall, removed_fall = (f"{float(-falls[most]):+.2g}" for falls in (painted_falls, removed_falls))
    return (
        f"{sentence} {int(is_opposite.sum())} of {len(is_opposite)} raise the answer in one way and lower it in the other: most of all "
        f"row {row + 1}, column {column + 1}, where painting it changes the answer by {painted_fall} and taking it out by {removed_fall}."
    )


@method(
    "rise",
    title="RISE",
    family="perturbation",
    source=Citation(
        authors="Petsiuk et al.",
        year=2018,
        title="RISE: Randomized Input Sampling for Explanation of Black-box Models",
        venue="BMVC",
        arxiv="1806.07421",
    ),
    rule=None,
    signed=True,
    needs=("mask_token",),
    slow=True,
    passes="samples + 1 forward",
    options={
        "samples": SAMPLES,
        "keep": Option(float, 0.5, "share of the input that is kept", minimum=0.05, maximum=0.95),
        "cells": Option(int, 7, "images: cells a side of the coarse random grid that is smoothed to a mask", minimum=2, maximum=64),
        "at": Option(
            str,
            "patches",
            "images: masks that hide whole patches in part, or as smooth as pixels, as the paper has them",
            choices=("patches", "pixels"),
        ),
    },
    about=About(
        formula=(r"s_j = \frac{1}{p} \text{mean}_m \left(f(x \odot m) - \text{mean} \, f\right) m_j",),
        words="Hundreds of random maskings: a token scores high where the answer is high while it is shown. p is the share that is kept.",
        trust="Use it as a judge from outside: it needs no look inside the model.",
        fails=f"Random: another seed, another map; more samples make it calmer (Petsiuk et al. 2018, arXiv 1806.07421). {HIDING}",
        line="Random parts are painted grey, or masked, many times; what matters when shown is bright.",
    ),
)
def rise(trace: Trace, samples: int = 400, keep: float = 0.5, cells: int = 7, at: str = "patches") -> MethodOutput:
    """Mean of the answer over random maskings, weighted by how much of the token each kept.

    E[(f - mean f) m_j] / keep: the mean is taken off because f is a logit, not a probability, and would add the same to every token.
    ``samples`` maskings are drawn, each of which keeps a cell with probability ``keep``. at=pixels: the paper's masks, cells x cells random
    numbers stretched over (cells + 1) cells of pixels and shifted by up to a cell; a patch has the mean of its pixels.
    """
    grid = trace.layout.grid
    if grid is not None and at == "pixels":
        return attribute_each(trace, lambda f, ones: map_of_pixel_masks(f, grid, pixel_size(trace), samples, keep, cells), samples)

    def attribute(f: Callable[[Tensor], Tensor], ones: Tensor) -> list[Tensor]:
        if grid is None:
            masks = (torch.rand(samples, ones.shape[1]) < keep).to(ones)
        else:
            coarse = (torch.rand(samples, 1, cells + 1, cells + 1) < keep).to(ones)
            steps = [-(-side // cells) for side in grid]
            fine = F.interpolate(coarse, size=[(cells + 1) * step for step in steps], mode="bilinear", align_corners=False)[:, 0]
            shifts = [torch.randint(0, step, (samples,)) for step in steps]
            masks = torch.stack(
                [m[a : a + grid[0], b : b + grid[1]] for m, a, b in zip(fine, *(s.tolist() for s in shifts), strict=True)]
            ).flatten(1)
        answers, groups = f(masks), group_of(samples)

        def scores(is_chosen: Tensor) -> Tensor:
            chosen_answers = answers[is_chosen]
            return ((chosen_answers - chosen_answers.mean())[:, None] * masks[is_chosen]).mean(0) / keep

        return [scores(groups >= 0), *(scores(groups != group) for group in groups.unique())]

    return attribute_each(trace, attribute, samples)


@method(
    "d_rise",
    title="D-RISE",
    family="perturbation",
    source=Citation(
        authors="Petsiuk et al.",
        year=2021,
        title="Black-box Explanation of Object Detectors via Saliency Maps",
        venue="CVPR",
        arxiv="2006.03204",
    ),
    rule=None,
    signed=True,
    class_specific=False,
    needs=("boxes", "image"),
    slow=True,
    passes="samples + 1 forward",
    options={
        "samples": SAMPLES,
        "keep": Option(float, 0.5, "share of the picture that is kept", minimum=0.05, maximum=0.95),
        "cells": Option(int, 16, "cells a side of the coarse random grid that is smoothed to a mask", minimum=2, maximum=64),
    },
    about=About(
        formula=(
            r"s_j = \frac{1}{p} \text{mean}_m \left(L(x \odot m) - \text{mean} \, L\right) m_j",
            r"L(x) = \max_{d} \; \text{IoU}(b_t, b_d) \cos(c_t, c_d) \, o_d",
        ),
        words=(
            "Hundreds of random maskings of the picture. Each is asked for the box most like the explained one: by overlap, by its classes "
            "and by how sure it is of an object. A patch scores high where that likeness is high while the patch is shown."
        ),
        trust="Use it for any detector, as it reads nothing but boxes and classes; it follows a box whatever number the model gives it.",
        fails=f"Random: another seed, another map; the paper takes 5,000 samples. It has one map for all classes of a box. {HIDING}",
        line="Random parts are painted grey many times; what keeps the box where and what it is when shown is bright.",
    ),
)
def d_rise(trace: Trace, samples: int = 400, keep: float = 0.5, cells: int = 16) -> MethodOutput:
    """Mean over random maskings of how like the explained box the most similar box is, weighted by how much of a patch each kept.

    Likeness is the overlap (IoU) times the cosine of the probabilities of classes times the probability of an object, if the model gives
    one. E[(L - mean L) m_j] / keep over ``samples`` maskings of ``cells`` x ``cells`` random numbers, each kept with probability ``keep``,
    stretched over (cells + 1) cells of pixels and shifted by up to a cell. The mean is taken off as in RISE here: it would add nearly the
    same to every patch.
    """
    grid = trace.layout.grid
    assert grid is not None

    def like(masks: Tensor) -> Tensor:
        return likeness_when_hidden(trace, masks)

    return attribute_each(trace, lambda f, ones: map_of_pixel_masks(like, grid, pixel_size(trace), samples, keep, cells), samples)


class _Refit:
    """A linear model, built by ``make``, in the form that Captum's LIME takes. It is fitted to all samples, and again without each group of
    samples, to see how much the result depends on them.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self.without: list[Tensor] = []

    def fit(self, train_data: DataLoader[Any]) -> None:
        """Fit to all masks, answers and weights in ``train_data``, which Captum gives, then again without each group. Pairs stay together;
        samples with more than weight 1 are never left out.
        """
        rows: tuple[Tensor, ...] = train_data.dataset.tensors  # type: ignore[attr-defined]  # a TensorDataset
        groups = group_of(len(rows[0]), together=2)
        ends = (rows[2] > 1).cpu()
        self._all = self._fit_to(rows)
        for group in groups.unique():
            is_kept = ends | (groups != group)
            self.without.append(self._fit_to([row[is_kept.to(row.device)] for row in rows]))

    def _fit_to(self, rows: Sequence[Tensor]) -> Tensor:
        model = self._make()
        model.fit(DataLoader(TensorDataset(*rows), batch_size=len(rows[0])))
        weights: Tensor = model.representation()
        return weights

    def representation(self) -> Tensor:
        """Return the weights of the fit to all samples."""
        return self._all


@method(
    "lime",
    title="LIME",
    family="perturbation",
    source=Citation(
        authors="Ribeiro et al.",
        year=2016,
        title="“Why Should I Trust You?”: Explaining the Predictions of Any Classifier",
        venue="KDD",
        arxiv="1602.04938",
    ),
    rule=None,
    signed=True,
    needs=("mask_token",),
    slow=True,
    passes="samples + 1 forward",
    options={
        "samples": SAMPLES,
        "alpha": Option(float, 0.01, "strength of the lasso: the larger, the fewer tokens get a weight", minimum=0, maximum=100),
    },
    about=About(
        formula=(r"s = \text{argmin}_s \sum_m \pi(m) \left(f(x \odot m) - s_0 - \sum_j s_j m_j\right)^2 + \alpha \sum_j |s_j|",),
        words="A sparse straight-line fit to the answers under random maskings, near maskings counting more.",
        trust="Use it when a handful of parts is wanted, and a second run gives the same ones.",
        fails=f"Unstable: small changes of input or seed can give another map (Alvarez-Melis & Jaakkola 2018, arXiv 1806.08049). {HIDING}",
        line="The few parts whose hiding or showing best predicts how the answer changes.",
    ),
)
def lime(trace: Trace, samples: int = 400, alpha: float = 0.01) -> MethodOutput:
    """Weights of a sparse linear model (lasso) fitted to the answers under random maskings, near maskings counting more.

    ``samples`` maskings are drawn; ``alpha`` is the weight of the lasso's penalty.
    """
    from captum._utils.models.linear_model import SkLearnLasso
    from captum.attr import Lime

    def attribute(f: Callable[[Tensor], Tensor], ones: Tensor) -> list[Tensor]:
        model = _Refit(lambda: SkLearnLasso(alpha=alpha))
        Lime(f, interpretable_model=model).attribute(
            ones, baselines=0, n_samples=samples, perturbations_per_eval=trace.answer_passes.rows, return_input_shape=False
        )
        return [weights.flatten().to(ones) for weights in (model.representation(), *model.without)]

    return attribute_each(trace, attribute, samples)
