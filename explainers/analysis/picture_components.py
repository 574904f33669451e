"""Patches of several pictures compared in one space: the same colours for what a Vision Transformer finds alike, and the foreground."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from explainers.analysis.patch_similarity import patch_similarity
from explainers.errors import ExplainerError
from explainers.json_records import Record, describe
from explainers.models.inputs.types import ImageInput, OnePicture
from explainers.models.tasks.features import COMPONENTS, principal_components
from explainers.rendering.saving import save_numbers_or_figure
from explainers.self_check.opening import model_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class ComparedPicture(Record):
    """One of several pictures whose patches are compared; lists are in raster order."""

    grid: Annotated[tuple[int, int], describe("Rows and columns of patches.")]
    foreground: Annotated[list[bool], describe("Whether each patch belongs to the foreground.")]
    colours: Annotated[
        list[tuple[float, float, float]],
        describe("The colour of each patch, 0 to 1: the same in all pictures for the same features; black in the background."),
    ]


@dataclass(frozen=True, eq=False)
class PictureComponents:
    """The features of the patches of several pictures, compared with each other.

    features  (rows, columns, D) of each picture, float32 on the CPU
    source    which features these are, in words
    pictures  what the model saw of each picture; None where tensors were passed
    """

    features: tuple[Tensor, ...]
    source: str
    pictures: tuple[Any, ...] = ()

    @cached_property
    def first_component(self) -> tuple[Tensor, ...]:
        """The projection (rows, columns) of each patch, less the mean of all, on the first principal component of the patches of all
        pictures. Its sign is the one by which patches at the edges of pictures have less of it than others.
        """
        values = self._projected([None] * len(self.features), 1)
        edges = [torch.zeros(each.shape[:2], dtype=torch.bool) for each in values]
        for edge in edges:
            edge[[0, -1]], edge[:, [0, -1]] = True, True
        at_edge, all_values = (
            torch.cat([each[..., 0][edge] for each, edge in zip(values, edges, strict=True)]),
            torch.cat([each.flatten() for each in values]),
        )
        sign = -1.0 if float(at_edge.mean()) > float(all_values.mean()) else 1.0
        return tuple(sign * each[..., 0] for each in values)

    @property
    def foreground(self) -> tuple[Tensor, ...]:
        """Which patches (rows, columns) of each picture are foreground, bool: those whose projection on the first principal component of
        all is above the mean (DINOv2, section 7.3). It is a guess by the features alone, and means little where pictures have nothing in
        common.
        """
        return tuple(each > 0 for each in self.first_component)

    def colours(self, foreground: bool = True) -> tuple[Tensor, ...]:
        """Return a colour for each patch of each picture, (rows, columns, 3) in 0 to 1: three principal components of the patches of all
        pictures as red, green and blue, each from its smallest to its largest. With ``foreground`` the components are of foreground patches
        alone, and the others are black.
        """
        masks = list(self.foreground) if foreground else [torch.ones(each.shape[:2], dtype=torch.bool) for each in self.features]
        if not any(bool(mask.any()) for mask in masks):
            masks = [torch.ones_like(mask) for mask in masks]
        values = self._projected(masks, COMPONENTS)
        shown = torch.cat([each[mask] for each, mask in zip(values, masks, strict=True)])
        low, high = shown.amin(0), shown.amax(0)
        scaled = [((each - low) / (high - low).clamp(min=torch.finfo(each.dtype).tiny)).clamp(0, 1) for each in values]
        return tuple(F.pad(each, (0, COMPONENTS - each.shape[-1])) * mask[..., None] for each, mask in zip(scaled, masks, strict=True))

    def _projected(self, masks: Sequence[Tensor | None], count: int) -> list[Tensor]:
        """Return the projections (rows, columns, count) of all patches on the principal components of those that the ``masks`` keep."""
        kept = torch.cat([each[mask] if mask is not None else each.flatten(0, 1) for each, mask in zip(self.features, masks, strict=True)])
        mean, axes = principal_components(kept, min(count, *kept.shape))
        return [(each - mean) @ axes.mT for each in self.features]

    def similarity_to(self, row: int, column: int, picture: int = 0) -> tuple[Tensor, ...]:
        """Return for each picture the cosine (rows, columns) of its patches' features with those of the patch at this row and column of the
        ``picture`` with this number, all from 0. Raises ExplainerError if there is no such patch.
        """
        if not 0 <= picture < len(self.features):
            raise ExplainerError(f"There is no picture {picture}: there are {len(self.features)}, from 0.")
        rows, columns = self.features[picture].shape[:2]
        if not (0 <= row < rows and 0 <= column < columns):
            raise ExplainerError(
                f"There is no patch in row {row}, column {column} of picture {picture}: it has {rows} rows and {columns} columns, from 0."
            )
        of = self.features[picture][row, column]
        return tuple(F.cosine_similarity(each, of, dim=-1) for each in self.features)

    def to_json(self) -> dict[str, Any]:
        """Return foreground and colours of each picture as plain data for JSON, numbers with four digits."""
        pictures = [
            ComparedPicture(
                grid=(mask.shape[0], mask.shape[1]),
                foreground=mask.flatten().tolist(),
                colours=[(round(red, 4), round(green, 4), round(blue, 4)) for red, green, blue in colours.flatten(0, 1).tolist()],
            ).to_json()
            for mask, colours in zip(self.foreground, self.colours(), strict=True)
        ]
        return {"source": self.source, "pictures": pictures}

    def figure(self, patch: tuple[int, int] | None = None, picture: int = 0) -> Figure:
        """Draw each picture above its foreground's colours, and return the matplotlib Figure. With a ``patch`` (row, column) of the
        ``picture`` with this number, both from 0, a third row shows the cosines of all patches with it.
        """
        from matplotlib.figure import Figure

        cosines = None if patch is None else self.similarity_to(*patch, picture)
        count, rows = len(self.features), 2 + (cosines is not None)
        figure = Figure(figsize=(2.2 * count, 2.2 * rows), layout="constrained")
        axes = figure.subplots(rows, count, squeeze=False)
        for number, colours in enumerate(self.colours()):
            seen = self.pictures[number] if number < len(self.pictures) else None
            if seen is not None:
                axes[0, number].imshow(np.asarray(seen))
            axes[1, number].imshow(colours.numpy())
            if cosines is not None:
                shown = axes[2, number].imshow(cosines[number].numpy(), cmap="magma", vmin=-1, vmax=1)
        axes[0, 0].set_title("as the model saw them", loc="left", fontsize="small")
        axes[1, 0].set_title("components of the foreground", loc="left", fontsize="small")
        if cosines is not None and patch is not None:
            row, column = patch
            axes[2, picture].plot([column], [row], marker="o", markerfacecolor="none", markeredgecolor="white")
            axes[2, 0].set_title("cosine with the marked patch", loc="left", fontsize="small")
            figure.colorbar(shown, ax=list(axes[2]), shrink=0.8)
        for axis in axes.flat:
            axis.set_axis_off()
        return figure

    def save(self, path: Path | str, patch: tuple[int, int] | None = None, picture: int = 0) -> None:
        """Write the numbers (``.json``) or the figure (``.png``, ``.pdf``, ``.svg``) to ``path``; ``patch`` and ``picture`` are those of
        :meth:`figure`. Raises ExplainerError for another ending.
        """
        save_numbers_or_figure(path, lambda: json.dumps(self.to_json()), lambda: self.figure(patch, picture))


def picture_components(model: Any, pictures: Sequence[OnePicture]) -> PictureComponents:
    """Return the features of the patches of several pictures, each by one forward pass, for a comparison in one space; the features are
    those of :func:`explainers.patch_similarity`.

    ``model`` is what ``explain`` takes: an image model, or a CLIP model, whose image side is used. Raises ExplainerError for texts, if
    patches lie on no grid, and for no picture at all. Source: Oquab et al. 2023 (DINOv2, arXiv 2304.07193), section 7.3.
    """
    if not pictures:
        raise ExplainerError("No picture was sent: send two or more, whose patches are compared.")
    opened = model_of(model)
    prepared = [opened.prepare(picture) for picture in pictures]
    similarities = [patch_similarity(opened, each) for each in prepared]
    records = [each.inputs[0] for each in prepared]
    seen = tuple(record.pixels if isinstance(record, ImageInput) else None for record in records)
    return PictureComponents(tuple(each.features for each in similarities), similarities[0].source, seen)
