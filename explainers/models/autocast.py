"""torch.autocast around a call: a model then multiplies in a shorter type than its weights have, which maps say, and float64 must not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch


def autocast_dtype(device: torch.device) -> torch.dtype | None:
    """Return the type in which torch.autocast has products on ``device`` computed here; None where it is off."""
    return torch.get_autocast_dtype(device.type) if torch.is_autocast_enabled(device.type) else None


@contextmanager
def without_autocast(device: torch.device) -> Iterator[None]:
    """Switch torch.autocast off inside this context, on ``device`` and on the CPU."""
    with ExitStack() as stack:
        for kind in sorted({"cpu", device.type}):
            if torch.is_autocast_enabled(kind):
                stack.enter_context(torch.autocast(kind, enabled=False))
        yield
