"""The result of an interaction of two inputs: a score for each pair of parts, and a map of each input."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from PIL import Image
from torch import Tensor

from explainers.errors import ExplainerError
from explainers.json_records import HIDDEN, Record, describe, optional
from explainers.models.inputs.types import ImageInput, TextInput
from explainers.rendering.overlays import lay_over, map_picture
from explainers.rendering.plain import align


@dataclass(frozen=True)
class InteractionSide(Record):
    """One of two inputs that were compared, its grid of patches, and the score of each of its words or patches: what it adds to the cosine
    with the whole of the other input.
    """

    input: Annotated[ImageInput | TextInput, describe(tag="kind")]
    grid: Annotated[tuple[int, int] | None, optional("Rows and columns of the patches; a text has none.")]
    scores: Annotated[Tensor, describe(kind=list[float])]


@dataclass(frozen=True)
class InteractionPair(Record):
    """The numbers, counted from 0, of a patch or word of the first input and of one of the second, and the score of the pair."""

    first: int
    second: int
    score: float


@dataclass(frozen=True, eq=False, kw_only=True)
class PairedInputs(Record):
    """The interaction of two inputs, which have units: the patches of a picture in raster order, or the words of a text.

    first, second  the two inputs as the model read them
    grids          (rows, columns) of each, None for a text
    cosine         the cosine of the two embeddings
    pairs          float32 (units of first, units of second): what each pair adds to the cosine or takes from it
    maps           float32 (units,) of each: what a unit adds to the cosine with the whole of the other
    seconds        how long it took
    notes          what a person should know about it
    """

    first: Annotated[ImageInput | TextInput, HIDDEN]
    second: Annotated[ImageInput | TextInput, HIDDEN]
    grids: Annotated[tuple[tuple[int, int] | None, tuple[int, int] | None], HIDDEN]
    cosine: Annotated[float, describe("The cosine of the embeddings of the two inputs.")]
    pairs: Annotated[Tensor, describe("A row for each unit of the first input, a column for each of the second.", kind=list[list[float]])]
    maps: Annotated[tuple[Tensor, Tensor], HIDDEN]
    seconds: float
    notes: tuple[str, ...] = ()

    @property
    def _first_side(self) -> Annotated[InteractionSide, describe(key="first")]:
        return InteractionSide(self.first, self.grids[0], self.maps[0])

    @property
    def _second_side(self) -> Annotated[InteractionSide, describe(key="second")]:
        return InteractionSide(self.second, self.grids[1], self.maps[1])

    @property
    def _strongest(self) -> Annotated[list[InteractionPair], describe("The pairs with the largest magnitudes.", key="strongest")]:
        return [InteractionPair(*pair) for pair in self.strongest()]

    @property
    def total(self) -> Annotated[float, describe("The sum of the pairs.")]:
        """The sum of all interactions in ``pairs``."""
        return float(self.pairs.double().sum())

    def strongest(self, count: int = 10) -> list[tuple[int, int, float]]:
        """Return the ``count`` pairs with the largest scores by magnitude, each as (unit of the first input, unit of the second, score)."""
        order = self.pairs.abs().flatten().argsort(descending=True)[:count].tolist()
        width = self.pairs.shape[1]
        return [(index // width, index % width, float(self.pairs[index // width, index % width])) for index in order]

    def unit(self, side: int, index: int) -> str:
        """Return a name for unit number ``index`` of the first input (``side`` 0) or the second one (1): its word, or the row and column of
        its patch.
        """
        record, grid = (self.first, self.second)[side], self.grids[side]
        if isinstance(record, TextInput):
            return record.words[index].text
        row, column = divmod(index, grid[1] if grid else len(self.maps[side]))
        return f"row {row + 1}, column {column + 1}"

    def _head(self) -> str:
        """Return the lines of text to print above the table of the strongest pairs."""
        raise NotImplementedError

    def __str__(self) -> str:
        rows = [(self.unit(0, i), self.unit(1, j), f"{score:+.4f}") for i, j, score in self.strongest()]
        table = align([("first", "second", "adds"), *rows], left=(0, 1))
        return "\n".join([self._head(), *table, *(f"note: {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        """Return the strongest pairs, and the map of each picture: what a notebook shows."""
        from explainers.rendering.notebook import picture_html, text_html

        return text_html(str(self), *(picture_html(picture, "What a patch adds to the cosine") for picture in self.pictures()))

    def pictures(self, size: int = 448) -> list[Image.Image]:
        """Return one image of ``size`` pixels a side for each input that is a picture, with its map over it, and none for texts; only the
        map if the picture itself is not available.
        """
        drawn = []
        for record, grid, scores in zip((self.first, self.second), self.grids, self.maps, strict=True):
            if isinstance(record, ImageInput) and grid is not None:
                values = scores.float().view(grid).numpy()
                drawn.append(map_picture(values, True, size) if record.pixels is None else lay_over(record.pixels, values, True, size))
        return drawn

    def save(self, path: Path | str) -> None:
        """Write to the file ``path`` the numbers, if it ends in ``.json``, or the pairs alone as ``.npy``.

        Raises ExplainerError for any other ending of the name.
        """
        path = Path(path)
        if path.suffix == ".json":
            path.write_text(json.dumps(self.to_json(), ensure_ascii=False, indent=1) + "\n", "utf-8")
        elif path.suffix == ".npy":
            np.save(path, self.pairs.numpy())
        else:
            raise ExplainerError(f"{path} cannot be saved with this ending: end it in .json or .npy")
