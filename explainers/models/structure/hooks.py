"""Hooks on modules for as long as a block of code runs, answering in one thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from torch.utils.hooks import RemovableHandle

Hook = Callable[..., Any]


@contextmanager
def hooked(handles: Iterable[RemovableHandle]) -> Iterator[None]:
    """Remove the hooks of ``handles`` at the end, also where the code raises."""
    handles = list(handles)
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def in_this_thread(hook: Hook) -> Hook:
    """``hook``, silent in every other thread than the one that asks now: threads may run the same modules."""
    thread = threading.get_ident()
    return lambda *args: hook(*args) if threading.get_ident() == thread else None
