"""What is freed without Python's garbage collector: a test switches it off for a while."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collection() -> Iterator[None]:
    """No search for garbage inside; on again afterwards."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
