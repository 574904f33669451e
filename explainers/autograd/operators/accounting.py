"""How an operator accounts for its bias terms."""

from __future__ import annotations

from torch import Tensor

from explainers.autograd.recorder import Recorder
from explainers.autograd.rules.operands import Account


def account_of(rec: Recorder, counts: bool) -> Account:
    """What notes a bias term of the backward pass under way; where none ``counts``, it does nothing."""
    return rec.add_bias if counts else _nothing


def _nothing(signal: Tensor, bias: Tensor) -> None:
    pass
