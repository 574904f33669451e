"""Keep Python's garbage collector still while libraries of models are imported."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collection() -> Iterator[None]:
    """No search for garbage for a while; decorates functions as well.

    An import makes hundreds of thousands of objects that stay, and the collector would look at all of them again and again: a sixth of
    the time that the first model of a process takes to load. What threads beside this one leave is collected after it.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
