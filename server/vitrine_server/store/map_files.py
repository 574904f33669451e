"""Maps as files of numbers: their format, and the names of those that are kept with an explanation."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explainers.methods import METHODS


def npy(values: NDArray[Any]) -> bytes:
    """Encode the array ``values`` as the bytes of a NumPy file."""
    buffer = io.BytesIO()
    np.save(buffer, values)
    return buffer.getvalue()


def pixels_name(method: str, target: str) -> str:
    """Return the name under which the map by pixel of a ``method`` and a ``target``, a NumPy file (height, width), is stored with its
    explanation.
    """
    return f"pixels of {method} for {target}"


def with_pixels() -> str:
    """List the specs of the methods that can give a map by pixel, separated by commas."""
    specs = [name if method.pixels else f"{name}?at=pixels" for name, method in METHODS.items() if method.pixels or _may(method)]
    return ", ".join(specs)


def _may(method: Any) -> bool:
    option = method.options.get("at")
    return option is not None and "pixels" in (option.choices or ())
