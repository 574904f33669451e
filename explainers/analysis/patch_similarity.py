"""Similarity of a picture's patches in a Vision Transformer: their principal components as colours, and the cosines with one of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import torch
from torch import Tensor
from torch.nn import functional as F

from explainers.errors import ExplainerError
from explainers.json_records import Record, describe
from explainers.models.eval_mode import evaluating
from explainers.models.inputs.types import Input, Prepared
from explainers.models.model import Model
from explainers.models.structure.hooks import in_this_thread, remove_hooks_after
from explainers.models.tasks.features import COMPONENTS, Features, principal_components, without_reference
from explainers.pipeline.memory_steps import in_memory_steps
from explainers.self_check.opening import model_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class PatchComparison(Record, name="PatchSimilarity"):
    """The similarity of the patches of one picture: a colour for each patch, the variance that each colour explains, and each patch's
    cosine with one of them; numbers have four digits.

    grid      (rows, columns) of the patches; ``colours`` and ``cosines`` are in raster order
    source    the features that are compared, in words
    variance  share of the variance, 0 to 1, of each of the three components that the colours show
    patch     (row, column) of the patch with which all are compared
    """

    grid: tuple[int, int]
    source: Annotated[str, describe("Which features are compared.")]
    colours: Annotated[
        list[tuple[float, float, float]],
        describe(
            "The colour of each patch: the first three principal components as red, green and blue, each from its smallest to its largest."
        ),
    ]
    variance: Annotated[list[float], describe("The share of the variance that each component has.")]
    patch: Annotated[tuple[int, int], describe("The row and column of the one patch.")]
    cosines: Annotated[list[float], describe("The cosine of each patch's features with those of the one patch.")]


@dataclass(frozen=True, eq=False)
class PatchSimilarity:
    """The features of the patches of one picture, compared with each other.

    features  (rows, columns, D), float32 on the CPU
    source    which features these are, in words
    """

    features: Tensor
    source: str

    @property
    def grid(self) -> tuple[int, int]:
        """Return how many rows and columns of patches the picture has."""
        rows, columns, _ = self.features.shape
        return rows, columns

    def components(self, count: int = COMPONENTS) -> tuple[Tensor, list[float]]:
        """Return each patch's projection (rows, columns, count) on the first ``count`` principal components, and the share of the variance
        of each.
        """
        flat = self.features.flatten(0, 1)
        mean, axes = principal_components(flat, min(count, *flat.shape))
        centred = flat - mean
        projections = centred @ axes.mT
        shares = projections.square().sum(0) / centred.square().sum().clamp(min=torch.finfo(flat.dtype).tiny)
        return projections.unflatten(0, self.grid), shares.tolist()

    def colours(self) -> Tensor:
        """Return a colour for each patch, (rows, columns, 3) in 0 to 1: the first three principal components as red, green and blue, each
        scaled from its minimum to its maximum.
        """
        values, _ = self.components()
        low, high = values.amin((0, 1)), values.amax((0, 1))
        shown = (values - low) / (high - low).clamp(min=torch.finfo(values.dtype).tiny)
        return F.pad(shown, (0, COMPONENTS - shown.shape[-1]))

    def to(self, row: int, column: int) -> Tensor:
        """Return the cosine (rows, columns) of each patch's features with those of the patch at this row and column, from 0. Raises
        ExplainerError if there is no such patch.
        """
        rows, columns = self.grid
        if not (0 <= row < rows and 0 <= column < columns):
            raise ExplainerError(f"There is no patch in row {row}, column {column}: there are {rows} rows and {columns} columns, from 0.")
        return F.cosine_similarity(self.features, self.features[row, column], dim=-1)

    def to_json(self, row: int, column: int) -> dict[str, Any]:
        """Return the colours, the shares of variance, and the cosines with the patch at this row and column (from 0), as plain data for
        JSON.
        """
        return PatchComparison(
            grid=self.grid,
            source=self.source,
            colours=[(round(red, 4), round(green, 4), round(blue, 4)) for red, green, blue in self.colours().flatten(0, 1).tolist()],
            variance=[round(share, 4) for share in self.components()[1]],
            patch=(row, column),
            cosines=[round(value, 4) for value in self.to(row, column).flatten().tolist()],
        ).to_json()

    def figure(self, row: int | None = None, column: int | None = None) -> Figure:
        """Draw the colours of the patches and return the matplotlib Figure. If ``row`` and ``column`` (from 0) are passed, the cosines of
        all patches with that patch are drawn next to the colours.
        """
        from matplotlib.figure import Figure

        is_named = row is not None and column is not None
        figure = Figure(figsize=(7 if is_named else 3.5, 3.5), layout="constrained")
        axes = figure.subplots(1, 2 if is_named else 1, squeeze=False)[0]
        axes[0].imshow(self.colours().numpy())
        axes[0].set_title("first three components")
        if row is not None and column is not None:
            shown = axes[1].imshow(self.to(row, column).numpy(), cmap="magma")
            axes[1].plot([column], [row], marker="o", markerfacecolor="none", markeredgecolor="white")
            axes[1].set_title(f"cosine with row {row}, column {column}")
            figure.colorbar(shown, ax=axes[1], shrink=0.8)
        for axis in axes:
            axis.set_axis_off()
        return figure


@in_memory_steps
def patch_similarity(model: Any, inputs: Input | Prepared) -> PatchSimilarity:
    """Return the features of the patches of one picture: the output of a backbone, or of the last block of another model.

    ``model`` and ``inputs`` are what ``explain`` takes: an image model, or a CLIP model, whose image side is used. Runs one forward pass.
    Raises ExplainerError for texts, and if patches lie on no grid.
    """
    opened: Model = model_of(model)
    if opened.kind == "text":
        raise ExplainerError(f"{opened.name} reads texts: patches are compared in pictures.")
    if isinstance(inputs, dict):
        inputs = without_reference(inputs)
    prepared = inputs if isinstance(inputs, Prepared) else opened.prepare(inputs)
    if len(prepared) != 1:
        raise ExplainerError(f"The patches of one picture are compared, and {len(prepared)} were sent.")
    tensors = prepared.tensors if opened.prompt_inputs is None else {**prepared.tensors, **opened.prompt_inputs(["a"]).tensors}
    layout = opened.layout_of(tensors)
    if layout.grid is None:
        raise ExplainerError(f"The tokens of {opened.name} lie on no grid of patches.")
    rows, columns = layout.grid
    tokens, source = _tokens(opened, tensors)
    if tokens.dim() != 3 or tokens.shape[1] < layout.prefix + rows * columns:  # patches were joined on the way
        raise ExplainerError(f"{opened.name} ends with fewer patches than it begins with, so they are not those of its maps.")
    return PatchSimilarity(tokens[0, layout.prefix : layout.prefix + rows * columns].float().cpu().unflatten(0, layout.grid), source)


def _tokens(model: Model, tensors: dict[str, Tensor]) -> tuple[Tensor, str]:
    """Return the features (1, S, D) by ``model`` of all tokens of the picture in ``tensors``, and a phrase that says which features these
    are.
    """
    with torch.no_grad(), evaluating(model.module):
        if isinstance(model.task, Features) and model.raw_forward is not None:
            return model.task.hidden_states(model.raw_forward(tensors)), "the features that the model gives"
        given: list[Tensor] = []

        def take(module: torch.nn.Module, args: Any, output: Any) -> None:
            given.append(model.block_kind.output_tokens(output))

        with remove_hooks_after([model.blocks[-1].register_forward_hook(in_this_thread(take))]):
            model.forward(tensors)
    return given[-1], "what the last block gives"
