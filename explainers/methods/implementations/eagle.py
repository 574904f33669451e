"""EAGLE: an order of parts of the picture, searched for greedily by asking the model alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from explainers.citation import Citation
from explainers.errors import ExplainerError
from explainers.methods.about import About
from explainers.methods.implementations.metric_driven import Ask, SegmentedPicture, patch_squares, with_each
from explainers.methods.implementations.own_masks import PixelQuestion, tensors_of
from explainers.methods.registry import method
from explainers.methods.specs import Option
from explainers.records.trace import MethodOutput, Trace

RENEWED = 5  # all parts are tried, and sorted again, in every so many steps
SCOPE = 10  # parts tried in the steps between
LAST = 8  # parts tried for the place at the end, while more than these are left
PRIOR = 0.5  # share of the answer's probability that stays without any picture from which a note says so


def search_order(ask: Ask, parts: int, nothing: float, whole: float) -> tuple[list[int], list[float]]:
    """Return the numbers of all ``parts`` in order, most important first, and F of the first 0, 1, ... ``parts`` of them:
    p(shown alone) + 1 - p(hidden alone).

    ``ask`` returns the probability p (K,) of the answer for pictures given as rows of shown parts, bool (K, parts); ``nothing`` and
    ``whole`` are p of the picture that shows nothing and of the whole one. In each step the part that makes F largest comes next; in every
    fifth step all that are left are tried and sorted by F, in the others the first ten of them. In the same step the end is filled: the
    part of the last eight without which F of what stays is largest comes last.
    """

    def objective(keep: Tensor) -> Tensor:
        return ask(keep) + 1 - ask(~keep)

    left, first, last = list(range(parts)), list[int](), list[int]()
    rising, falling = list[float](), list[float]()  # F along the beginning, and along the end from behind
    while len(left) > 1:
        is_renewed = len(first) % RENEWED == 0
        tried = left if is_renewed else left[:SCOPE]
        values = objective(with_each(first, tried, parts))
        if is_renewed:
            left = [tried[i] for i in values.argsort(descending=True, stable=True).tolist()]
        best = left[0] if is_renewed else tried[int(values.argmax())]
        first.append(best)
        left.remove(best)
        rising.append(float(values.max()))
        if not last:  # F without the worst part is known: what is shown and what is hidden change places
            last.append(left.pop())
            falling.append(2 - float(values.min()))
        elif len(left) > LAST:
            values = objective(~with_each(last, left[-LAST:], parts))
            falling.append(float(values.max()))
            last.append(left.pop(len(left) - LAST + int(values.argmax())))
    behind = falling[::-1] if left else falling[-2::-1]  # with none left, both ends meet at one set
    return [*first, *left, *reversed(last)], [nothing + 1 - whole, *rising, *behind, whole + 1 - nothing]


def scores_of_order(order: Sequence[int], objective: Sequence[float]) -> Tensor:
    """Return the scores (N,) of parts: by how much F changes, steps up and down alike, after the part in the ``order``; ``objective`` is F
    of the first 0 to N parts. They fall along the order, to 0.
    """
    steps = torch.tensor(objective, dtype=torch.float64).diff().abs()
    after = steps.flip(0).cumsum(0).flip(0) - steps
    return torch.zeros(len(order), dtype=torch.float64).scatter(0, torch.tensor(order), after)


def _parts_of_patches(grid: tuple[int, int], side: int) -> Tensor:
    """Return for each patch of ``grid``, row by row, the number of the part that it lies in: ``side`` x ``side`` parts, or as many rows and
    columns as there are patches.
    """
    counts = [min(side, patches) for patches in grid]
    rows, columns = (torch.arange(patches) * count // patches for patches, count in zip(grid, counts, strict=True))
    return (rows[:, None] * counts[1] + columns).flatten()


@method(
    "eagle",
    title="EAGLE",
    family="guided_perturbation",
    source=Citation(
        authors="Chen et al.",
        year=2026,
        title="Where MLLMs Attend and What They Rely On: Explaining Autoregressive Token Generation",
        venue="CVPR",
        arxiv="2509.22496",
    ),
    rule=None,
    signed=False,
    needs=("image",),
    slow=True,
    passes="22 x side x side + 2 forward",
    options={"side": Option(int, 8, "the picture is cut into side x side parts of whole patches", minimum=2, maximum=16)},
    about=About(
        formula=(
            r"s_{r_i} = \sum_{a > i} \left|F_a - F_{a-1}\right|",
            r"F_a = f\left(r_1, \ldots, r_a\right) + 1 - f\left(\text{all but} \; r_1, \ldots, r_a\right)",
        ),
        words=(
            "Parts r of the picture are put in order by asking the model alone: next comes the part that most raises the answer where it "
            "is shown and lowers it where it is missing; a part scores what is still to change after it."
        ),
        trust="Use it where nothing but answers can be had of a model, and minutes do not matter.",
        fails=(
            "It searches by the insertion and deletion tests that judge maps, so doing well in them says nothing for it. Scores fall along "
            "the order, so they say which part comes first, not how much it does alone (Chen et al. 2026, arXiv 2509.22496)."
        ),
        line="The order in which parts best bring the answer back and take it away, found by trying.",
    ),
)
def eagle(trace: Trace, side: int = 8) -> MethodOutput:
    """Place of each part of the picture in a greedy order: first the part that most raises the answer when shown and lowers it when hidden.

    F(parts) = p(these alone) + 1 - p(all others); each next part makes F largest, and the end of the order is filled in the same steps. The
    score is the sum of |F_a - F_(a-1)| over the places after the part, which the published map stretches to 0 to 1. Hidden parts get the
    mean colour (0 after normalisation; the published code paints black), and parts are squares of whole patches, ``side`` x ``side`` of
    them, where it takes 50 to 64 superpixels. p is the probability of the explained class, for a detector at the explained box.
    """
    grid, scores = trace.layout.grid, torch.zeros_like(trace.recording.block_inputs[0][..., 0]).detach()
    assert grid is not None
    parts = _parts_of_patches(grid, side)
    for sample in range(len(trace.mask)):
        pixels = tensors_of(trace, sample)["pixel_values"]
        height, width = pixels.shape[-2:]
        picture = SegmentedPicture(PixelQuestion(trace, sample), pixels, parts[patch_squares(grid, (height, width))].to(pixels.device))
        by_part = scores_of_order(*_search(trace, sample, picture.on, torch.zeros_like(pixels), int(parts.max()) + 1))
        scores[sample, trace.layout.prefix : trace.layout.prefix + len(parts)] = by_part[parts].to(scores)
    return MethodOutput(scores)


def _search(trace: Trace, sample: int, show: Callable[[Tensor, Tensor], Tensor], grey: Tensor, parts: int) -> tuple[list[int], list[float]]:
    """Return the order of the ``parts`` of a picture and F along it, as :func:`search_order` does; ``show(background, keep)`` asks the
    model about pictures of some parts over the ``grey`` background. Adds a note on the answer's share that needs no picture.

    Raises ExplainerError if the answer is the same with and without the picture.
    """
    whole, nothing = show(grey, torch.tensor([[True], [False]]).expand(2, parts)).tolist()
    if whole == nothing:
        alone = " Of one prompt alone the probability is always 1: send others with it." if trace.recording.model.kind == "clip" else ""
        raise ExplainerError(
            f"The answer is the same for this picture and for one that shows nothing, so no part can be searched for.{alone}"
        )
    if nothing >= PRIOR * whole > 0:
        share = f"{nothing:.2g} of {whole:.2g}"
        trace.notes_of_samples.setdefault(sample, []).append(
            f"With the whole picture hidden the answer keeps {share}: that much does not come from what the picture shows."
        )
    return search_order(lambda keep: show(grey, keep), parts, nothing, whole)
