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
from explainers.methods.implementations.own_masks import PixelQuestion, tensors_of
from explainers.methods.registry import method
from explainers.methods.specs import Option
from explainers.models.removal.patches import painted
from explainers.papers import MDA
from explainers.records.trace import MethodOutput, Trace

REACHED = 0.9  # the search from the blurred picture ends at this share of the way to the whole picture's answer
BLUR, WIDER = 31, 4  # side of the Gaussian kernel and its deviation in pixels, and by how much it grows
FORGOTTEN = 0.01  # so probable the answer may still be when the picture is blurred
MATTERS = 0.005  # from this score on a patch gets its place in the order as its dense score

#: The asked number (K,) of pictures with some patches shown, bool (K, N).
Ask = Callable[[Tensor], Tensor]


def search_beginning(ask: Ask, ranking: Sequence[int], candidates: int, blurred: float, whole: float) -> list[int]:
    """The patches, most important first, that bring the answer back from the ``blurred`` to 0.9 of the ``whole`` picture's; all where that
    is never reached.

    Of the ``candidates`` first of the ``ranking`` that are not shown yet, the one with the largest answer is shown next.
    """
    shown: list[int] = []
    left = list(ranking)
    while left:
        tried = left[:candidates]
        values = ask(_with_each(shown, tried, len(ranking)))
        best = int(values.argmax())
        shown.append(tried[best])
        left.remove(tried[best])
        if (float(values[best]) - blurred) / abs(whole - blurred) >= REACHED:
            break
    return shown


def search_rest(ask: Ask, ranking: Sequence[int], candidates: int, beginning: Sequence[int]) -> list[int]:
    """The whole order, most important first: the ``beginning``, and the others, of which those come last that add least to a black picture.

    Of the last ``candidates`` of the ``ranking`` that are not shown yet, the one with the smallest answer is shown next.
    """
    shown: list[int] = []
    left = [patch for patch in reversed(ranking) if patch not in set(beginning)]
    while left:
        tried = left[:candidates]
        least = int(ask(_with_each(shown, tried, len(ranking))).argmin())
        shown.append(tried[least])
        left.remove(tried[least])
    return [*beginning, *reversed(shown)]


def _with_each(shown: Sequence[int], tried: Sequence[int], patches: int) -> Tensor:
    """bool (tried, patches): what is shown, and one of the tried with it."""
    keep = torch.zeros(len(tried), patches, dtype=torch.bool)
    keep[:, list(shown)] = True
    keep[torch.arange(len(tried)), list(tried)] = True
    return keep


def fit_convex(curve: NDArray[np.float64]) -> NDArray[np.float64]:
    """The falling convex curve (n + 1,) with the same ends that is nearest to a falling one by squares.

    It is the straight line between the ends less what non-negative bends take off at each place in between: non-negative least squares,
    exact where the authors' solver stops early. It stays between the ends by itself, as the given curve does.
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
    """Scores (n,) of patches of so many pixels along a fitted curve (n + 1,), in its order: (1 - gamma) sparse + gamma dense.

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
    """The curve (n + 1,) that is fitted: 1 - mean(insertion, 1 - deletion), of the asked numbers while patches are shown on the blurred
    picture, and while they are hidden from the whole one. Each is scaled to the way between its ends and made to rise or fall throughout.
    """
    ends = [(float(inserted[0]), float(inserted[-1])), (float(deleted[-1]), float(deleted[0]))]
    up, down = (
        ((values.double() - low) / abs(high - low)).clamp(0, 1) for values, (low, high) in zip((inserted, deleted), ends, strict=True)
    )
    mean = (up.cummax(0).values + 1 - down.cummin(0).values) / 2
    return (1 - mean).cpu().numpy()


def blurred_picture(pixels: Tensor, side: int = BLUR) -> Tensor:
    """Pixels (1, C, height, width) under a Gaussian of deviation ``side``, with zeros around the picture.

    The kernel is a square of that side in which a point was blurred, what leaves it being reflected, as in the code of RISE (Petsiuk et al.
    2018), which others use for their blurred start.
    """
    from scipy.ndimage import gaussian_filter1d

    line = torch.from_numpy(gaussian_filter1d((np.arange(side) == side // 2).astype(np.float64), side)).to(pixels)
    rows = pixels.flatten(0, 1)[:, None]
    rows = F.conv2d(rows, line.view(1, 1, 1, -1), padding=(0, side // 2))
    return F.conv2d(rows, line.view(1, 1, -1, 1), padding=(side // 2, 0)).view_as(pixels)


@dataclass(frozen=True)
class _Pictures:
    """One sample with some of its patches shown on another background."""

    question: PixelQuestion
    pixels: Tensor
    grid: tuple[int, int]

    def on(self, background: Tensor, keep: Tensor) -> Tensor:
        """The asked number (K,) with the patches of ``keep`` bool (K, N) over a ``background`` (1, C, height, width)."""
        parts = []
        for part in keep.split(self.question.batch):
            shown = painted((self.pixels - background).expand(len(part), -1, -1, -1), part.to(self.pixels.device), self.grid)
            parts.append(self.question(background + shown))
        return torch.cat(parts)


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
)
def mda(trace: Trace, gamma: float = 0.5, candidates: int = 28) -> MethodOutput:
    """How soon a patch comes in an order that is searched for so that insertion and deletion tests come out best, and what it does there.

    From the blurred picture patches are shown until 0.9 of the answer is back, each time the one that helps most; the rest are ordered from
    a black picture (zero after normalisation), the one that helps least first. The answers along that order, mean of insertion and
    deletion, are fitted by a falling convex curve, whose falls are the scores. Candidates are taken by how far the answer falls without
    each patch alone (the paper takes them by an attention map, and its SLIC superpixels are nearly the patches that are taken here).
    """
    grid, scores = trace.layout.grid, torch.zeros_like(trace.recording.block_inputs[0][..., 0]).detach()
    assert grid is not None
    count = grid[0] * grid[1]
    candidates = min(candidates, 2 * math.isqrt(count))
    for sample in range(len(trace.mask)):
        pixels = tensors_of(trace, sample)["pixel_values"]
        pictures = _Pictures(PixelQuestion(trace, sample), pixels, grid)
        black = torch.zeros_like(pixels)
        blurred, blurred_value = _forgotten(trace, pictures, pixels)
        whole, black_value = (float(value) for value in pictures.on(black, torch.tensor([[True], [False]]).expand(2, count)))
        if whole in (blurred_value, black_value):
            raise ExplainerError("The answer is the same for this picture and for one that shows nothing, so no patch can be searched for.")
        falls = whole - pictures.on(black, ~torch.eye(count, dtype=torch.bool))
        ranking = falls.argsort(descending=True, stable=True).tolist()
        beginning = search_beginning(lambda keep: pictures.on(blurred, keep), ranking, candidates, blurred_value, whole)  # noqa: B023
        order = search_rest(lambda keep: pictures.on(black, keep), ranking, candidates, beginning)  # noqa: B023
        first = torch.ones(count + 1, count, dtype=torch.bool).tril(-1)  # row i: the first i of the order
        shown = torch.zeros_like(first)
        shown[:, order] = first
        curve = mean_curve(pictures.on(blurred, shown), pictures.on(black, ~shown))
        values = scores_of_curve(fit_convex(curve), pixels.shape[-2] * pixels.shape[-1] / count, gamma)
        scores[sample, trace.layout.prefix + torch.tensor(order)] = torch.from_numpy(values).to(scores)
    return MethodOutput(scores)


def _forgotten(trace: Trace, pictures: _Pictures, pixels: Tensor) -> tuple[Tensor, float]:
    """The picture blurred until its answer is under 1 % probable, and that answer; where it never is, as little as that begins."""
    first: tuple[Tensor, float] | None = None
    for side in range(BLUR, max(BLUR, min(pixels.shape[-2:])) + 1, WIDER):
        blurred = blurred_picture(pixels, side)
        value = float(pictures.question(blurred))
        first = first or (blurred, value)
        if value < FORGOTTEN:
            return blurred, value
    assert first is not None
    trace.note(f"However much the picture is blurred, its answer stays at {FORGOTTEN:.0%} or more: {first[1]:.3g} where the search begins.")
    return first
