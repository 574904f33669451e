"""The account of an operator's bias terms."""

from __future__ import annotations

from functools import partial

from torch import Tensor

from explainers.autograd.recorder import Recorder
from explainers.autograd.rules.operands import Account


def account_of(rec: Recorder, counts: bool, position: int) -> Account:
    """Return the function that notes a bias term of the operator at ``position``; one that does nothing if ``counts`` is false."""
    return partial(rec.add_bias, position=position) if counts else _nothing


def _nothing(signal: Tensor, bias: Tensor) -> None:
    pass
