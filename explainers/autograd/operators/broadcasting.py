"""Broadcasting undone."""

from __future__ import annotations

from torch import Tensor


def unbroadcast(signal: Tensor | None, like: Tensor) -> Tensor | None:
    """The signal at an operand of the shape of ``like``, from the one at the broadcast result; None stays None."""
    return None if signal is None else signal.sum_to_size(like.shape) if signal.shape != like.shape else signal
