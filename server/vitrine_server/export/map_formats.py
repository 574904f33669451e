"""The formats of numbers in which a map can be downloaded: each has a call, and a file in the bundle."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitrine_server.store.map_files import npy


@dataclass(frozen=True)
class MapFormat:
    """A file format for the scores of a map.

    ending      the suffix of the file and of the API call
    media_type  the MIME type of the answer
    says        the content of the file, for the list in the bundle
    write       encodes a float32 array: (rows, columns) of patches, one score a token, or (height, width) of pixels
    """

    ending: str
    media_type: str
    says: str
    write: Callable[[NDArray[Any]], bytes]


MAP_FORMATS = (MapFormat("npy", "application/octet-stream", "the scores of each map, NumPy", npy),)


def scores_of(entry: Mapping[str, Any]) -> NDArray[Any]:
    """Return the scores of one map, ``entry`` in the JSON of an explanation, as float32: (rows, columns) of patches, or one a token."""
    scores = np.asarray(entry["scores"], dtype=np.float32)
    return scores.reshape(entry["grid"]) if entry.get("grid") else scores
