"""Broadcasting undone."""

from __future__ import annotations

from torch import Size, Tensor


def unbroadcast(signal: Tensor | None, shape: Size) -> Tensor | None:
    """The signal at an operand of ``shape``, from the one at the broadcast result; None stays None."""
    return None if signal is None else signal.sum_to_size(shape) if signal.shape != shape else signal
