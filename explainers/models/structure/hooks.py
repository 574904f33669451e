"""Context managers for hooks on modules, which answer in one thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from torch.utils.hooks import RemovableHandle

Hook = Callable[..., Any]


@contextmanager
def remove_hooks_after(handles: Iterable[RemovableHandle]) -> Iterator[None]:
    """Remove the hooks of ``handles`` when this context ends, even if its code raises."""
    handles = list(handles)
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def in_this_thread(hook: Hook) -> Hook:
    """Return a hook that calls ``hook`` in the current thread and does nothing in others, as several threads may run the same modules."""
    thread = threading.get_ident()
    return lambda *args: hook(*args) if threading.get_ident() == thread else None
