"""The files of numbers that a map can be taken away as: each is a call, and stands in the bundle."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from server.store.map_files import npy


@dataclass(frozen=True)
class MapFormat:
    """A file of the numbers of a map.

    ending  of the file and of the call
    says    what is in it, for the list of the bundle
    write   float32 -> the file: (rows, columns) of patches, or one a token; of the pixels (height, width)
    """

    ending: str
    media_type: str
    says: str
    write: Callable[[NDArray[Any]], bytes]


MAP_FORMATS = (MapFormat("npy", "application/octet-stream", "the scores of each map, NumPy", npy),)


def scores_of(entry: Mapping[str, Any]) -> NDArray[Any]:
    """The scores of one map of an explanation, float32: (rows, columns) of patches, or one a token."""
    scores = np.asarray(entry["scores"], dtype=np.float32)
    return scores.reshape(entry["grid"]) if entry.get("grid") else scores
