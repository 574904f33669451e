"""The scores of words, from those of their pieces."""

from __future__ import annotations

from typing import Any

import numpy as np


def word_scores(document: dict[str, Any], attribution: dict[str, Any]) -> np.ndarray[Any, np.dtype[np.float64]]:
    scores = np.array(attribution["scores"])
    merge = np.sum if attribution["signed"] else np.max
    return np.array([merge(scores[word["tokens"]]) for word in document["input"]["words"]])
