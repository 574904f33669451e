"""MDA: an order of patches searched for by asking the model, and scores fitted to what it answers along that order."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from explainers.errors import ExplainerError
from explainers.methods.about import About
from explainers.methods.implementations.own_masks import PixelQuestion, tensors_of
from explainers.methods.registry import method
from explainers.methods.specs import Option
from explainers.papers import MDA
from explainers.records.trace import MethodOutput, Trace

REACHED = 0.9  # the search from the blurred picture ends at this share of the way to the whole picture's answer
BLUR, WIDER = 31, 4  # side of the Gaussian kernel and its deviation in pixels, and by how much it grows
FORGOTTEN = 0.01  # so probable the answer may still be when the picture is blurred
MATTERS = 0.005  # from this score on a patch gets its place in the order as its dense score

#: The asked number (K,) of pictures with some patches shown, bool (K, N).
Ask = Callable[[Tensor], Tensor]


def search_beginning(ask: Ask, ranking: Sequence[int], candidates: int, blurred: float, whole: float) -> list[int]:
    """Return patches, most important first, that bring the answer to the ``blurred`` picture up to 0.9 of that to the ``whole`` one; all
    patches if never.

    ``ask`` returns the answers to pictures given as rows of shown patches (bool). In each step the first ``candidates`` patches of the
    ``ranking`` that are not shown yet are tried, and the one with the largest answer is shown.
    """
    shown: list[int] = []
    left = list(ranking)
    while left:
        tried = left[:candidates]
        values = ask(with_each(shown, tried, len(ranking)))
        best = int(values.argmax())
        shown.append(tried[best])
        left.remove(tried[best])
        if (float(values[best]) - blurred) / abs(whole - blurred) >= REACHED:
            break
    return shown


def search_rest(ask: Ask, ranking: Sequence[int], candidates: int, beginning: Sequence[int]) -> list[int]:
    """Return the numbers of all patches in order, most important first: the ``beginning``, then the others, so that the patches that add
    least to a black picture come last.

    Of the last ``candidates`` of the ``ranking`` that are not shown yet, the one with the smallest answer, which ``ask`` returns, is shown
    next.
    """
    shown: list[int] = []
    left = [patch for patch in reversed(ranking) if patch not in set(beginning)]
    while left:
        tried = left[:candidates]
        least = int(ask(with_each(shown, tried, len(ranking))).argmin())
        shown.append(tried[least])
        left.remove(tried[least])
    return [*beginning, *reversed(shown)]


def with_each(shown: Sequence[int], tried: Sequence[int], patches: int) -> Tensor:
    """Return masks bool (tried, patches), each of which shows the ``shown`` patches and one of the ``tried``."""
    keep = torch.zeros(len(tried), patches, dtype=torch.bool)
    keep[:, list(shown)] = True
    keep[torch.arange(len(tried)), list(tried)] = True
    return keep


def rank_superpixels(hint: Tensor, segments: Tensor, grid: tuple[int, int]) -> list[int]:
    """Return the superpixels of ``segments`` (H, W), whole numbers from 0, in the order of their mean of a ``hint`` map (H, W), the largest
    first.

    As in the published code the hint goes down to the ``grid`` of patches, bilinear and antialiased, and back up by nearest neighbours.
    """
    small = F.interpolate(hint[None, None], size=grid, mode="bilinear", antialias=True, align_corners=False)
    large = F.interpolate(small, size=tuple(segments.shape), mode="nearest-exact").flatten().double()
    sizes = segments.flatten().bincount()
    sums = torch.zeros(len(sizes), dtype=torch.float64).index_add(0, segments.flatten(), large)
    return (sums / sizes).argsort(descending=True, stable=True).tolist()


def fit_convex(curve: NDArray[np.float64]) -> NDArray[np.float64]:
    """Fit the nearest falling convex curve (n + 1,) with the same ends to a falling ``curve``, by least squares.

    The curve is the straight line between the ends minus a non-negative bend at each place in between, fitted by non-negative least
    squares. This is exact, while the authors' solver stops early.
    """
    from scipy.optimize import nnls

    n = len(curve) - 1
    places = np.arange(n + 1)
    line = curve[0] + (curve[-1] - curve[0]) * places / n
    bends = np.arange(1, n)
    dips = np.minimum(places[:, None], bends) * (n - np.maximum(places[:, None], bends)) / n
    sizes = np.linalg.norm(dips, axis=0)
    weights, _ = nnls(dips / sizes, line - curve)
    fitted: NDArray[np.float64] = line - (dips / sizes) @ weights
    return fitted


def scores_of_curve(fitted: NDArray[np.float64], sizes: float | NDArray[np.float64], gamma: float) -> NDArray[np.float64]:
    """Return scores (n,) of patches along a fitted curve (n + 1,), in its order: (1 - gamma) sparse + gamma dense; ``sizes`` are the
    patches' numbers of pixels.

    Sparse: d_i / size_i + d_i (n - i) / n, d_i being how far the curve falls at patch i = 1..n. Dense: (n - i) / n where the sparse
    score is 0.005 or more, else that score, scaled to the largest sparse score.
    """
    n = len(fitted) - 1
    falls, places = (fitted[:-1] - fitted[1:]).clip(min=0), (n - np.arange(1, n + 1)) / n
    sparse = falls / sizes + falls * places
    dense = np.where(sparse >= MATTERS, places, sparse)
    if dense.max() > 0:
        dense = dense * sparse.max() / dense.max()
    mixed: NDArray[np.float64] = (1 - gamma) * sparse + gamma * dense
    return mixed


def mean_curve(inserted: Tensor, deleted: Tensor) -> NDArray[np.float64]:
    """Return the falling curve (n + 1,) to fit: 1 - mean(insertion, 1 - deletion).

    ``inserted`` are the explained numbers while patches are shown on the blurred picture, ``deleted`` those while they are hidden from the
    whole one. Each is scaled to the way between its ends and made to rise or fall throughout.
    """
    ends = [(float(inserted[0]), float(inserted[-1])), (float(deleted[-1]), float(deleted[0]))]
    up, down = (
        ((values.double() - low) / abs(high - low)).clamp(0, 1) for values, (low, high) in zip((inserted, deleted), ends, strict=True)
    )
    mean = (up.cummax(0).values + 1 - down.cummin(0).values) / 2
    return (1 - mean).cpu().numpy()


def blur_picture(pixels: Tensor, side: int = BLUR) -> Tensor:
    """Blur pixels (1, C, height, width) by a Gaussian of deviation ``side``, with zeros around the picture.

    The kernel is made as in the code of RISE (Petsiuk et al. 2018), which others use for their blurred start: a point in a square of that
    side is blurred, with reflection at the edges.
    """
    from scipy.ndimage import gaussian_filter1d

    line = torch.from_numpy(gaussian_filter1d((np.arange(side) == side // 2).astype(np.float64), side)).to(pixels)
    rows = pixels.flatten(0, 1)[:, None]
    rows = F.conv2d(rows, line.view(1, 1, 1, -1), padding=(0, side // 2))
    return F.conv2d(rows, line.view(1, 1, -1, 1), padding=(side // 2, 0)).view_as(pixels)


@dataclass(frozen=True)
class SegmentedPicture:
    """The picture of one sample, ``pixels``, for showing only some of its superpixels to the model; ``segments`` (height, width) holds the
    superpixels' numbers.
    """

    question: PixelQuestion
    pixels: Tensor
    segments: Tensor

    def on(self, background: Tensor, keep: Tensor) -> Tensor:
        """Return the explained number (K,) with the superpixels of ``keep`` bool (K, N) shown over a ``background`` (1, C, height,
        width).
        """
        parts = []
        for part in keep.split(self.question.batch):
            shown = part.to(self.pixels.device)[:, self.segments][:, None]
            parts.append(self.question(torch.where(shown, self.pixels, background)))
        return torch.cat(parts)


def patch_squares(grid: tuple[int, int], size: tuple[int, int]) -> Tensor:
    """Return for each pixel (height, width) of a picture of ``size`` the number of the patch that it lies in, counted row by row. ``grid``
    is the number of rows and columns of patches.
    """
    rows, columns = (torch.arange(side) * count // side for side, count in zip(size, grid, strict=True))
    return rows[:, None] * grid[1] + columns


@method(
    "mda",
    title="MDA",
    family="guided_perturbation",
    source=MDA,
    rule=None,
    signed=False,
    needs=("image",),
    slow=True,
    passes="candidates x tokens + 3 x tokens + 3 forward",
    options={
        "gamma": Option(float, 0.5, "0: the few patches that do most stand out; 1: all that matter show", minimum=0, maximum=1),
        "candidates": Option(int, 28, "how many patches are tried for each place in the order, 2 √n of n at most", minimum=1, maximum=1000),
    },
    about=About(
        formula=(
            r"s_i = (1 - \gamma) \left(\frac{d_i}{|i|} + d_i \frac{n - i}{n}\right) + \gamma \, \text{dense}_i",
            r"d_i = u_{i-1} - u_i",
        ),
        words=(
            "An order of the n patches is searched for by asking the model about thousands of pictures, so that few patches "
            "bring the answer back and few take it away; u is a falling curve fitted to its answers along that order, and |i| "
            "the size of a patch in pixels."
        ),
        trust="Use it as the best result that insertion and deletion tests can give: compare other maps with it.",
        fails=(
            "It is made from the tests by which maps are judged, so doing well in them says nothing for it. A search that takes "
            "the best next patch misses those that work only together (Walker et al. 2025)."
        ),
        line="The order of showing and hiding patches that moves the answer most, found by trying.",
    ),
)
def mda(trace: Trace, gamma: float = 0.5, candidates: int = 28) -> MethodOutput:
    """Importance of a patch by its place in the order of patches that makes insertion and deletion tests come out best, and by how much the
    answer changes there.

    From the blurred picture patches are shown until 0.9 of the answer is back, each time the one that helps most; the rest are ordered from
    a black picture (zero after normalisation), the one that helps least first. The answers along that order, mean of insertion and
    deletion, are fitted by a falling convex curve, whose falls are the scores. Candidates are taken by how far the answer falls without
    each patch alone (the paper takes them by an attention map, and its SLIC superpixels are nearly the patches that are taken here).
    ``gamma`` is the weight of the dense part of the scores, ``candidates`` how many patches are tried in each step.
    """
    grid, scores = trace.layout.grid, torch.zeros_like(trace.recording.block_inputs[0][..., 0]).detach()
    assert grid is not None
    for sample in range(len(trace.mask)):
        height, width = tensors_of(trace, sample)["pixel_values"].shape[-2:]
        values = scores_of_search(trace, sample, patch_squares(grid, (height, width)), None, gamma, candidates)
        scores[sample, trace.layout.prefix : trace.layout.prefix + len(values)] = values.to(scores)
    return MethodOutput(scores)


def scores_of_search(trace: Trace, sample: int, segments: Tensor, ranking: Sequence[int] | None, gamma: float, candidates: int) -> Tensor:
    """Search an order of the superpixels of input number ``sample`` of ``trace`` and return their scores (N,), made from the falls of the
    answer along it as :func:`scores_of_curve` does with ``gamma``; ``segments`` (height, width) are their numbers 0 to N - 1. In each step
    at most ``candidates`` superpixels are tried.

    ``ranking`` lists the superpixels, probably most important first, and chooses the candidates; None: they are ranked by how far the
    answer falls without each one. Raises ExplainerError if the answer is the same for the picture and for one that shows nothing.
    """
    pixels = tensors_of(trace, sample)["pixel_values"]
    sizes = segments.flatten().bincount()
    count = len(sizes)
    candidates = min(candidates, 2 * math.isqrt(count))
    pictures = SegmentedPicture(PixelQuestion(trace, sample), pixels, segments.to(pixels.device))
    black = torch.zeros_like(pixels)
    blurred, blurred_value = _forgotten(trace, pictures, pixels)
    whole, black_value = (float(value) for value in pictures.on(black, torch.tensor([[True], [False]]).expand(2, count)))
    if whole in (blurred_value, black_value):
        raise ExplainerError("The answer is the same for this picture and for one that shows nothing, so no patch can be searched for.")
    if ranking is None:
        falls = whole - pictures.on(black, ~torch.eye(count, dtype=torch.bool))
        ranking = falls.argsort(descending=True, stable=True).tolist()
    beginning = search_beginning(lambda keep: pictures.on(blurred, keep), ranking, candidates, blurred_value, whole)
    order = search_rest(lambda keep: pictures.on(black, keep), ranking, candidates, beginning)
    first = torch.ones(count + 1, count, dtype=torch.bool).tril(-1)  # row i: the first i of the order
    shown = torch.zeros_like(first)
    shown[:, order] = first
    curve = mean_curve(pictures.on(blurred, shown), pictures.on(black, ~shown))
    values = torch.from_numpy(scores_of_curve(fit_convex(curve), sizes[order].double().numpy(), gamma))
    return torch.zeros(count, dtype=torch.float64).scatter(0, torch.tensor(order), values)


def _forgotten(trace: Trace, pictures: SegmentedPicture, pixels: Tensor) -> tuple[Tensor, float]:
    """Blur the picture ``pixels`` of ``trace``, asked through ``pictures``, more and more until the probability of the answer is below 1 %;
    return the blurred picture and that probability. If it is never below, the least blurred picture of the search is returned.
    """
    first: tuple[Tensor, float] | None = None
    for side in range(BLUR, max(BLUR, min(pixels.shape[-2:])) + 1, WIDER):
        blurred = blur_picture(pixels, side)
        value = float(pictures.question(blurred))
        first = first or (blurred, value)
        if value < FORGOTTEN:
            return blurred, value
    assert first is not None
    trace.note(f"However much the picture is blurred, its answer stays at {FORGOTTEN:.0%} or more: {first[1]:.3g} where the search begins.")
    return first
