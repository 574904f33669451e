"""Eval mode for a while, also where several passes over one model run at once; and gradients, whatever the caller switched off."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

import torch
from torch import nn

_EVALUATING: WeakKeyDictionary[nn.Module, int] = WeakKeyDictionary()  # how many passes hold a module that was training
_EVALUATING_LOCK = threading.Lock()


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Dropout and the like off for a while; every module's own mode is restored when the last pass over it has ended."""
    with _EVALUATING_LOCK:
        held = [m for m in module.modules() if m.training or m in _EVALUATING]
        for m in held:
            _EVALUATING[m] = _EVALUATING.get(m, 0) + 1
            m.training = False
    try:
        yield
    finally:
        with _EVALUATING_LOCK:
            for m in held:
                _EVALUATING[m] -= 1
                if not _EVALUATING[m]:
                    del _EVALUATING[m]
                    m.training = True


@contextmanager
def with_gradients() -> Iterator[None]:
    """Gradients are kept for a while, also under ``torch.inference_mode`` and ``torch.no_grad``; decorates functions as well."""
    with torch.inference_mode(False), torch.enable_grad():
        yield
