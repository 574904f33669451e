"""MDA with your own superpixels and hint, as in the authors' code; over patches it is the method ``mda``."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from explainers.errors import ExplainerError
from explainers.methods.implementations.metric_driven import rank_superpixels, scores_of_search
from explainers.pipeline.memory_steps import in_memory_steps
from explainers.records.session import Session
from explainers.self_check.opening import model_of


@in_memory_steps
def metric_driven_map(
    model: Any,
    image: Any,
    target: Any = None,
    *,
    superpixels: Any = None,
    hint: Any = None,
    gamma: float = 0.5,
    candidates: int = 28,
) -> Tensor:
    """Score the superpixels of a picture by Metric-Driven Attributions (MDA); return float64 (height, width): for each pixel that the model
    saw the score of its superpixel.

    model, image, target  as :func:`explain` takes them
    superpixels  whole numbers from 0 (height, width), of the size of the model's input tensor, as SLIC makes them; None: patches
    hint    numbers (height, width), in any size: candidates for each place in the order are chosen by the means of this map. None: by how
            far the answer falls without each superpixel alone
    gamma, candidates  the options of the same names of the method ``mda``

    Raises ExplainerError for a model that reads no pictures, and for superpixels of another size or with numbers left out.

    Source: Walker, Jha & Ewetz, Metric-Driven Attributions for Vision Transformers, ICLR 2025, and their code.
    """
    if not 0 <= gamma <= 1:
        raise ExplainerError(f"gamma={gamma!r}: send a number from 0 to 1.")
    if candidates < 1:
        raise ExplainerError(f"candidates={candidates!r}: send a whole number of at least 1.")
    session = Session(model_of(model), image, target)
    grid = session.recording.layout.grid
    if grid is None or len(session.prepared) != 1:
        raise ExplainerError("MDA searches for the parts of one picture: send one, and a model of pictures.")
    height, width = session.tensors["pixel_values"].shape[-2:]
    if superpixels is None:
        rows, columns = (torch.arange(side) * count // side for side, count in zip((height, width), grid, strict=True))
        segments = rows[:, None] * grid[1] + columns
    else:
        segments = torch.as_tensor(superpixels)
        if segments.is_floating_point() or tuple(segments.shape) != (height, width):
            raise ExplainerError(
                f"superpixels of shape {tuple(segments.shape)} and type {segments.dtype}: send whole numbers ({height}, {width})"
            )
        segments = segments.long()
        if int(segments.min()) != 0 or not bool(segments.flatten().bincount().all()):
            raise ExplainerError(
                "superpixels must be numbered from 0 without gaps: send the inverse of numpy.unique(x, return_inverse=True)"
            )
    ranking = None
    if hint is not None:
        values = torch.as_tensor(hint).double()
        if values.dim() != 2 or not bool(values.isfinite().all()):
            raise ExplainerError(f"a hint of shape {tuple(values.shape)}: send finite numbers (height, width)")
        large = torch.nn.functional.interpolate(values[None, None], size=(height, width), mode="nearest")[0, 0]
        ranking = rank_superpixels(large, segments, grid)
    (chosen,) = session.targets_and_rows()
    scores = scores_of_search(session.trace(chosen[0], None), 0, segments, ranking, gamma, candidates)
    return scores[segments]
