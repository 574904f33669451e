"""The account of an operator's bias terms."""

from __future__ import annotations

from functools import partial

from torch import Tensor

from explainers.autograd.recorder import Recorder
from explainers.autograd.rules.operands import Account


def account_of(rec: Recorder, counts: bool, position: int) -> Account:
    """Return the recorder's function ``add_bias(signal, bias)`` for the operator at ``position``, which counts a bias term of the current
    backward pass; with ``counts`` false a function that does nothing.
    """
    return partial(rec.add_bias, position=position) if counts else _nothing


def _nothing(signal: Tensor, bias: Tensor) -> None:
    pass
