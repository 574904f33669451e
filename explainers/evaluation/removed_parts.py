"""What a model answers without parts of a picture that the data set rendered again, and what maps score these parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from explainers.datasets.base import Mask, RemovableParts
from explainers.evaluation.explained_classes import ExplainedClass
from explainers.models.inputs.types import ImageInput
from explainers.records.result import Attribution

DILATION = 5  # side of the square, in pixels of the data set's picture, by which the mask of a piece is widened


def pixels_per_patch(masks: Sequence[Mask], grid: tuple[int, int], crop: tuple[int, int, int, int]) -> Tensor:
    """Return how many pixels of the widened ``masks``, bool (height, width), lie in each of the N patches of a map, float64 (N,); a pixel
    in two masks counts twice.

    grid  rows and columns of the patches
    crop  x0, y0, x1, y1: the part of the picture that they cover; pixels outside it count nowhere
    """
    (rows, columns), (x0, y0, x1, y1) = grid, crop
    counts = torch.zeros(rows, columns, dtype=torch.float64)
    for mask in masks:
        seen = torch.from_numpy(mask).float()[None, None]
        ys, xs = torch.nonzero(F.max_pool2d(seen, DILATION, stride=1, padding=DILATION // 2)[0, 0], as_tuple=True)
        inside = (ys >= y0) & (ys < y1) & (xs >= x0) & (xs < x1)
        places = ((ys[inside] - y0) * rows // (y1 - y0), (xs[inside] - x0) * columns // (x1 - x0))
        counts.index_put_(places, torch.ones(len(places[0]), dtype=torch.float64), accumulate=True)
    return counts.flatten()


def all_pixels_per_patch(grid: tuple[int, int], crop: tuple[int, int, int, int]) -> Tensor:
    """Return how many pixels of the ``crop`` (x0, y0, x1, y1) lie in each of the N patches of a map with this ``grid``, float64 (N,)."""
    (rows, columns), (x0, y0, x1, y1) = grid, crop
    of_rows = torch.bincount(torch.arange(y1 - y0) * rows // (y1 - y0), minlength=rows)
    of_columns = torch.bincount(torch.arange(x1 - x0) * columns // (x1 - x0), minlength=columns)
    return torch.outer(of_rows, of_columns).double().flatten()


@dataclass(frozen=True, kw_only=True)
class RemovedParts:
    """The answers about one picture without its parts, and the scores of these parts, for metrics that compare both.

    parts     the parts of the picture
    record    how the model saw it
    target    the explained class
    whole     the logits for the whole picture, (C,)
    maps      the maps of the explained class by M methods
    ask       function from a picture to logits (C,)
    explain   function from classes to the maps of each by the same methods
    class_of  function from a label of the data set to the class; None if the model has no such class
    """

    parts: RemovableParts
    record: ImageInput
    target: ExplainedClass
    whole: Tensor
    maps: Sequence[Attribution]
    ask: Callable[[Image.Image], Tensor]
    explain: Callable[[Sequence[ExplainedClass]], Sequence[Sequence[Attribution]]]
    class_of: Callable[[str | int], ExplainedClass | None]

    def of(self, need: str) -> Tensor | None:
        """Compute the value of ``need``, a key of :data:`explainers.metrics.removed_parts.PART_NEEDS`, with a row for each of the M maps,
        and keep it. None if this input has no such value, as where a map has no grid.
        """
        if need not in self._values:
            self._values[need] = None if self.maps[0].patches is None else self._compute(need)
        return self._values[need]

    @cached_property
    def _values(self) -> dict[str, Tensor | None]:
        return {}

    def _compute(self, need: str) -> Tensor | None:
        of_maps: dict[str, Callable[[], Tensor | None]] = {
            "part_scores": lambda: _sums(self.maps, self._pixels_of_parts),
            "ground_scores": self._ground_scores,
            "answer_part_scores": self._answer_part_scores,
            "rival_scores": self._rival_scores,
        }
        of_input = {
            "part_falls": self._part_falls,
            "ground_falls": self._ground_falls,
            "keeps_answer": self._keeps_answer,
            "sufficient": self._sufficient,
        }
        if need in of_maps:
            return of_maps[need]()
        value = of_input[need]()
        return value.expand(len(self.maps), *value.shape)

    # --- scores of parts ----------------------------------------------------------------------------------------------

    @cached_property
    def _grid(self) -> tuple[int, int]:
        grid = self.maps[0].patches
        assert grid is not None
        return grid

    @cached_property
    def _pixels_of_parts(self) -> Tensor:
        """How many pixels of each part, and last of the whole picture, lie in each patch, (P + 1, N)."""
        of_parts = [pixels_per_patch(masks, self._grid, self.record.crop) for masks in self.parts.pieces.values()]
        return torch.stack([*of_parts, all_pixels_per_patch(self._grid, self.record.crop)])

    def _ground_scores(self) -> Tensor:
        counts = [pixels_per_patch([mask], self._grid, self.record.crop) for mask in self.parts.ground]
        return _sums(self.maps, torch.stack(counts)) if counts else torch.zeros(len(self.maps), 0, dtype=torch.float64)

    def _answer_part_scores(self) -> Tensor:
        answer = int(self.whole.argmax())
        maps = self.maps if answer in self.target.indices else self.explain([ExplainedClass((answer,))])[0]
        return _sums(maps, self._pixels_of_parts)

    def _rival_scores(self) -> Tensor | None:
        """Return the sums over the parts of each of two rivals by the maps of each, (M, 2 parts, 2 maps); None if there are no two rivals
        that the model knows, and if the logit of one does not fall more without its parts than without those of the other.
        """
        rivals = [(rival, names) for label, names in self.parts.rivals if (rival := self.class_of(label)) is not None]
        if len(rivals) < 2:
            return None
        left = torch.stack([torch.stack([self._logit(self._logits_without(names), rival) for rival, _ in rivals]) for _, names in rivals])
        if not (left[0, 0] < left[1, 0] and left[1, 1] < left[0, 1]):
            return None  # the model does not go by these parts, so that nothing is known of its maps
        is_spoken_for = torch.tensor([[part in names for part in self.parts.pieces] for _, names in rivals])
        of_rivals = self.explain([rival for rival, _ in rivals])
        sums = [_sums(maps, self._pixels_of_parts)[:, :-1] @ is_spoken_for.double().T for maps in of_rivals]
        return torch.stack(sums, 2)

    # --- answers without parts ----------------------------------------------------------------------------------------

    @cached_property
    def _of_sets(self) -> dict[frozenset[str], Tensor]:
        """The logits without each set of parts that was asked for so far."""
        return {}

    def _logits_without(self, removed: frozenset[str]) -> Tensor:
        if removed not in self._of_sets:
            self._of_sets[removed] = self.ask(self.parts.without(removed))
        return self._of_sets[removed]

    def _logit(self, logits: Tensor, of: ExplainedClass) -> Tensor:
        return logits[list(of.indices)].logsumexp(0)

    def _part_falls(self) -> Tensor:
        """Return how far the logit of the explained class falls without each part, (P,)."""
        alone = [self._logit(self._logits_without(frozenset([part])), self.target) for part in self.parts.pieces]
        return self._logit(self.whole, self.target) - torch.stack(alone)

    def _ground_falls(self) -> Tensor:
        """Return how far that logit falls without each thing of the ground, (G,)."""
        without = self.parts.without_thing
        if without is None or not self.parts.ground:
            return torch.zeros(0)
        alone = [self._logit(self.ask(without(thing)), self.target) for thing in range(len(self.parts.ground))]
        return self._logit(self.whole, self.target) - torch.stack(alone)

    def _keeps_answer(self) -> Tensor:
        """Return for every set of parts whether the answer stays without it, bool (2, 2, ...), an axis for each part: 1 if it is gone."""
        names = list(self.parts.pieces)
        answer = int(self.whole.argmax())
        sets = [frozenset(name for name, gone in zip(names, which, strict=True) if gone) for which in product((0, 1), repeat=len(names))]
        stays = torch.tensor([int(self._logits_without(removed).argmax()) == answer for removed in sets])
        return stays.reshape((2,) * len(names))

    def _sufficient(self) -> Tensor:
        """Return which parts each of the sufficient sets holds, bool (S, P)."""
        rows = [[part in chosen for part in self.parts.pieces] for chosen in self.parts.sufficient]
        return torch.tensor(rows, dtype=torch.bool).reshape(len(rows), len(self.parts.pieces))


def _sums(maps: Sequence[Attribution], pixels: Tensor) -> Tensor:
    """Return the sums (M, K) of M ``maps`` over K areas, of which ``pixels`` (K, N) counts the pixels in each of the N patches; each pixel
    has the score of its patch.
    """
    scores = torch.stack([attribution.scores[attribution.content] for attribution in maps])
    return scores.double() @ pixels.T
