"""The arrays of tests/golden that belong to no model."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.explainers.support.golden import GOLDEN


def arrays(name: str, file: str) -> dict[str, Any]:
    """Read the arrays of ``file``, "inputs" or "outputs", of the case called ``name``."""
    with np.load(GOLDEN / name / f"{file}.npz") as stored:
        return dict(stored)
