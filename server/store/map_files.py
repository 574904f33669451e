"""Maps as files of numbers: how they are written, and what those are called that are kept beside an explanation."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explainers.methods import METHODS


def npy(values: NDArray[Any]) -> bytes:
    """An array as a NumPy file."""
    buffer = io.BytesIO()
    np.save(buffer, values)
    return buffer.getvalue()


def pixels_name(method: str, target: str) -> str:
    """The name under which the map of the pixels, a NumPy file (height, width), is kept beside its explanation."""
    return f"pixels of {method} for {target}"


def with_pixels() -> str:
    """The methods that go back to the pixels, as specs, in a sentence for people."""
    specs = [name if method.pixels else f"{name}?at=pixels" for name, method in METHODS.items() if method.pixels or _may(method)]
    return ", ".join(specs)


def _may(method: Any) -> bool:
    option = method.options.get("at")
    return option is not None and "pixels" in (option.choices or ())
