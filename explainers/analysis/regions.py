"""Regions of a picture by the prompt, or class, that wins each patch, with their boxes, and the whole as an indexed mask."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from explainers.errors import ExplainerError
from explainers.json_records import HIDDEN, Record, describe
from explainers.models.inputs.types import ImageInput
from explainers.records.result import Explanation
from explainers.rendering.colours import REGIONS
from explainers.rendering.plain import align

NOBODY = -1
#: The share of the largest score that a patch needs to belong to anybody, unless another is asked for.
THRESHOLD = 0.05
PixelBox = tuple[int, int, int, int]


@dataclass(frozen=True)
class Region(Record):
    """A region of patches that touch along an edge and are won by the same label: its box, its size and its largest score."""

    label: Annotated[str, HIDDEN]
    box: Annotated[
        PixelBox | None, describe("x0, y0, x1, y1 around them in pixels of the upright original; null where they lie in padding.")
    ]
    patches: Annotated[int, describe("How many there are.")]
    peak: Annotated[float, describe("The largest score among them, in the unit in which the maps were compared.")]


@dataclass(frozen=True)
class WonPatches(Record):
    """How many patches one label wins, or no label wins, their share of all patches, and their value in the mask."""

    index: Annotated[int, describe("Its value in regions.png.")]
    patches: int
    share: Annotated[float, describe("The share of all patches that the label wins.")]


@dataclass(frozen=True)
class LabelRegions(WonPatches):
    """A label with its colour, how many patches it wins, and the regions that these patches form."""

    label: str
    colour: tuple[int, int, int]
    regions: Annotated[list[Region], describe("The largest first.")]


@dataclass(frozen=True, eq=False)
class Regions(Record):
    """The label that wins each patch by the maps of one method. ``print`` shows the shares; :meth:`save` writes the mask or the numbers.

    labels     the prompts or classes
    winners    int (rows, columns): the index of the winner among ``labels``, NOBODY where no score is above the threshold
    regions    the regions of each label, its largest first
    """

    method: Annotated[str, describe("The spec of the maps that were compared.")]
    threshold: Annotated[float, describe("The share of the largest score of all maps that a patch's best score must pass.")]
    labels: Annotated[tuple[str, ...], HIDDEN]
    winners: Annotated[NDArray[np.int64], HIDDEN]
    crop: Annotated[PixelBox, describe("The part of the upright original that the mask covers.")]
    regions: Annotated[tuple[Region, ...], HIDDEN]

    def mask(self) -> Image.Image:
        """Return the seen crop, pixel for pixel of the original, as a picture in palette mode: 0 where no label wins, 1 for the first
        label, and so on.
        """
        width, height = self.crop[2] - self.crop[0], self.crop[3] - self.crop[1]
        picture = Image.fromarray((self.winners + 1).astype(np.uint8), "L").resize((width, height), Image.Resampling.NEAREST)
        picture.putpalette([0, 0, 0, *(channel for i in range(len(self.labels)) for channel in _colour(i))])
        return picture

    def __str__(self) -> str:
        rows = [["prompt or class", "patches", "share", "regions", "largest box"]]
        for i, name in enumerate(self.labels):
            won, parts = self._won(i), [region for region in self.regions if region.label == name]
            box = ", ".join(map(str, parts[0].box)) if parts and parts[0].box else "-"
            rows.append([name, str(won.patches), f"{won.share:.1%}", str(len(parts)), box])
        nobody = self._won(NOBODY)
        rows.append(["nobody", str(nobody.patches), f"{nobody.share:.1%}", "", ""])
        head = f"Who wins which patch, by {self.method}; threshold {self.threshold:g} of the largest score"
        return "\n".join([head, *align(rows, left=(0,))])

    def _repr_html_(self) -> str:
        """Return the shares and the mask: what a notebook shows."""
        from explainers.rendering.notebook import picture_html, text_html

        return text_html(str(self), picture_html(self.mask().convert("RGB"), f"Who wins which patch, by {self.method}"))

    def save(self, path: Path | str) -> None:
        """Write the mask to the file ``path`` as ``.png``, or the numbers as ``.json``. Raises ExplainerError for any other ending of the
        name.
        """
        path = Path(path)
        if path.suffix == ".json":
            path.write_text(json.dumps(self.to_json(), ensure_ascii=False, indent=1) + "\n", "utf-8")
        elif path.suffix == ".png":
            self.mask().save(path, transparency=0)
        else:
            raise ExplainerError(f"{path} cannot be saved with this ending: end it in .png or .json")

    @property
    def _grid(self) -> Annotated[tuple[int, int], describe("Rows and columns of patches.", key="grid")]:
        rows, columns = self.winners.shape
        return rows, columns

    @property
    def _labels(self) -> Annotated[list[LabelRegions], describe(key="labels")]:
        return [
            LabelRegions(
                **vars(self._won(i)), label=name, colour=_colour(i), regions=[region for region in self.regions if region.label == name]
            )
            for i, name in enumerate(self.labels)
        ]

    @property
    def _nobody(self) -> Annotated[WonPatches, describe(key="none")]:
        return self._won(NOBODY)

    def _won(self, index: int) -> WonPatches:
        patches = int((self.winners == index).sum())
        return WonPatches(index + 1, patches, patches / self.winners.size)


def _colour(i: int) -> tuple[int, int, int]:
    return REGIONS[i % len(REGIONS)]


def regions(result: Explanation, method: str, threshold: float = THRESHOLD) -> Regions:
    """Find which explained target of ``result`` wins each patch by the maps of ``method``, if its score is above ``threshold``, a share of
    the largest; see :func:`regions_of`. A prompt that the model did not find for sure, or cannot read, wins none.

    Raises ExplainerError for a text, for tensors without a picture's size, for a method without a map, for a method whose map is the same
    for every label, and for a label that occurs twice.
    """
    if not isinstance(result.input, ImageInput) or result.prompts:
        raise ExplainerError("regions lie in a picture: explain an image, from its image side")
    method = result.spec_of(method)
    maps = [attribution for attribution in result.maps if attribution.method == method]
    grid = maps[0].patches if maps else None
    if grid is None:
        raise ExplainerError(f"there is no map {method!r} over patches; there are {', '.join(result.methods)}")
    refuse_without_winner(method, [attribution.target for attribution in maps], maps[0].class_specific)
    scores = np.stack([attribution.scores[attribution.content].double().numpy().reshape(grid) for attribution in maps])
    size = (result.input.width, result.input.height)
    unfound = {target.label for target in result.targets if target.abstention is not None}
    return regions_of(
        scores,
        [attribution.target for attribution in maps],
        method,
        size,
        result.input.crop,
        signed=maps[0].signed,
        threshold=threshold,
        unfound=unfound,
    )


def refuse_without_winner(method: str, labels: Sequence[str], class_specific: bool) -> None:
    """Raise ExplainerError if a label occurs twice in ``labels``, or if there are several labels and the map of ``method`` is the same for
    all (``class_specific`` is false): then no label can win a patch.
    """
    repeated = sorted({label for label in labels if list(labels).count(label) > 1})
    if repeated:
        raise ExplainerError(f"{repeated[0]!r} is there twice, and one cannot win patches from the other: explain each label once")
    if len(labels) > 1 and not class_specific:
        raise ExplainerError(
            f"the map of {method} is the same for every prompt or class, so none of them wins a patch: choose a method that depends on "
            "them, such as fullgrad_plus:libra"
        )


def regions_of(
    scores: NDArray[np.float64],
    labels: Sequence[str],
    method: str,
    size: tuple[int, int],
    crop: PixelBox,
    *,
    signed: bool,
    threshold: float = THRESHOLD,
    unfound: Collection[str] = (),
) -> Regions:
    """Return which of ``labels`` wins each patch by the maps of ``method``: the one with the largest score, if that is above 0 and above
    ``threshold`` of the largest of all.

    The first of equal ones wins.

    scores     (labels, rows, columns). The scores of a signed method are compared as they are; the maps of an unsigned one are first
               divided by the sum of their absolute values, as their size means nothing across maps
    size       width and height of the upright original, in whose pixels ``crop`` and the boxes are
    threshold  0 to 1
    unfound    labels that win no patch, whatever their scores

    Raises ExplainerError for a threshold outside of 0 to 1.
    """
    if not 0 <= threshold <= 1:
        raise ExplainerError(f"the threshold is {threshold:g}; it is a share of the largest score, from 0 to 1")
    from scipy import ndimage  # slow to import

    unit = scores.copy() if signed else scores / np.maximum(np.abs(scores).sum((1, 2), keepdims=True), np.finfo(float).tiny)
    unit[[name in unfound for name in labels]] = -np.inf
    best = unit.max(0)
    winners = np.where(best > max(0.0, threshold * float(unit.max())), unit.argmax(0), NOBODY)
    found_regions = []
    for i, name in enumerate(labels):
        components, _ = ndimage.label(winners == i)
        for number, bounds in enumerate(ndimage.find_objects(components), 1):
            is_inside = components[bounds] == number
            peak = float(best[bounds][is_inside].max())
            found_regions.append(Region(name, _box(bounds, best.shape, size, crop), int(is_inside.sum()), peak))
    found_regions.sort(key=lambda region: (list(labels).index(region.label), -region.patches))
    return Regions(method, threshold, tuple(labels), winners, crop, tuple(found_regions))


def _box(bounds: tuple[slice, slice], grid: Sequence[int], size: tuple[int, int], crop: PixelBox) -> PixelBox | None:
    """Convert a rectangle of patches (``bounds``: slices of rows and columns) to x0, y0, x1, y1 in pixels of the original picture. ``grid``
    is the number of rows and columns, ``crop`` the part of the original that they cover, ``size`` the original's width and height. The box
    is cut at the picture's edges; None if it lies outside.
    """

    def span(bounds: slice, count: int, start: int, end: int, length: int) -> tuple[int, int]:
        first, last = (start + round(cell * (end - start) / count) for cell in (bounds.start, bounds.stop))
        return max(0, first), min(length, last)

    y0, y1 = span(bounds[0], grid[0], crop[1], crop[3], size[1])
    x0, x1 = span(bounds[1], grid[1], crop[0], crop[2], size[0])
    return (x0, y0, x1, y1) if x0 < x1 and y0 < y1 else None
