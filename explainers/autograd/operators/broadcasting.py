"""Sums that undo broadcasting."""

from __future__ import annotations

from torch import Size, Tensor


def unbroadcast(signal: Tensor | None, shape: Size) -> Tensor | None:
    """Return ``signal``, the signal at a broadcast result, summed to the ``shape`` of the operand that was broadcast; None stays None."""
    return None if signal is None else signal.sum_to_size(shape) if signal.shape != shape else signal
