"""The account of an operator's bias terms."""

from __future__ import annotations

from torch import Tensor

from explainers.autograd.recorder import Recorder
from explainers.autograd.rules.operands import Account


def account_of(rec: Recorder, counts: bool) -> Account:
    """Return the function that notes a bias term of the current backward pass; one that does nothing if ``counts`` is false."""
    return rec.add_bias if counts else _nothing


def _nothing(signal: Tensor, bias: Tensor) -> None:
    pass
