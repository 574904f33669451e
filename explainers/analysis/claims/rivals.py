"""An order of an input's parts that knows nothing of the model: whether it finds the same is said next to a claim."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from explainers.models.inputs.types import ImageInput, MoleculeInput, TextInput


@dataclass(frozen=True)
class Rival:
    """An order of the parts (``order``, their indices), and in ``words`` what those are that it puts first."""

    words: str
    order: tuple[int, ...]


def rival_of(
    tensors: Mapping[str, Tensor], shown: ImageInput | TextInput, grid: tuple[int, int] | None, parts: Sequence[tuple[int, ...]]
) -> Rival | None:
    """Return the order of patches by the mean Sobel magnitude of the grey picture, or of words by their letters; None for a molecule.

    ``tensors`` holds the input, ``shown``, as a batch of one, a picture on its ``grid``; ``parts`` are the tokens of each part.
    """
    if isinstance(shown, MoleculeInput):
        return None
    if isinstance(shown, ImageInput):
        from scipy.ndimage import sobel  # slow to import

        grey = tensors["pixel_values"][0].double().mean(0).cpu().numpy()
        edges = torch.from_numpy(np.hypot(sobel(grey, 0), sobel(grey, 1)))
        assert grid is not None
        return Rival("patches with the strongest edges", _order(F.adaptive_avg_pool2d(edges[None], grid).flatten()))
    tokens = [token for token in shown.tokens if not token.special]
    letters = [sum(tokens[place].end - tokens[place].start for place in part) for part in parts]
    return Rival("longest words", _order(torch.tensor(letters)))


def _order(values: Tensor) -> tuple[int, ...]:
    return tuple(values.argsort(descending=True, stable=True).tolist())
