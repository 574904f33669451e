"""Maps that treat each row of tokens alone, applied to the rows that a signal reached."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from explainers.autograd import rounding
from explainers.autograd.queued import is_queued


def backward_on_nonzero_rows(back: Callable[..., Tensor], signal: Tensor, *tensors: Tensor) -> Tensor:
    """Run a row-wise backward pass ``back(signal, *tensors)`` only on the rows that have a signal, where these are few; others get zeros.

    In the last block only the row of the classification token goes on to the head.
    """
    rows = _few_rows(signal)
    if rows is None:
        return back(signal, *tensors)
    part = back(*(t.flatten(0, -2).index_select(0, rows) for t in (signal, *tensors)))
    whole: Tensor = torch.zeros(math.prod(signal.shape[:-1]), part.shape[-1], dtype=part.dtype, device=part.device)
    return whole.index_copy(0, rows, part).view(*signal.shape[:-1], -1)


def _few_rows(signal: Tensor) -> Tensor | None:
    """Return the indices of the rows that are not zero among the B * S rows of ``signal`` (B, S, N), if they are fewer than half. Else
    None; also for a signal on a GPU, whose numbers would have to be waited for.
    """
    if signal.dim() != 3 or signal.shape[1] < 2 or is_queued(signal):
        return None
    arrived = [rounding.value_of(signal), *([signal.error] if isinstance(signal, rounding.RelevanceWithError) else [])]
    if all(bool(arrived[0][:, token].any()) for token in (signal.shape[1] // 2, -1)):  # two tokens tell it of nearly every signal
        return None
    rows = torch.stack([t.detach().flatten(0, 1).any(-1) for t in arrived]).any(0).nonzero()[:, 0]
    if not len(rows):  # no signal at all: a row of zeros tells the shape and the type
        return rows.new_zeros(1)
    return rows if 2 * len(rows) < signal.shape[0] * signal.shape[1] else None
