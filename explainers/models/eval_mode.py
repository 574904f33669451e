"""Eval mode for a while, also where several passes over one model run at once; and gradients, whatever the caller switched off."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from weakref import WeakKeyDictionary

import torch
from torch import nn

from explainers.models.matrix_products import FasterProducts
from explainers.models.tf32 import products_in_float32

_EVALUATING: WeakKeyDictionary[nn.Module, int] = WeakKeyDictionary()  # how many passes hold a module that was training
_EVALUATING_LOCK = threading.Lock()
_AS_WRITTEN = ExitStack()  # what the first pass of several switched off
_PASSES: list[None] = []  # one for each pass under way


@contextmanager
def without_compilation() -> Iterator[None]:
    """Disable torch.compile and torch's fused Transformer path inside this context, so that hooks and function modes see every call.

    All threads share these settings of torch: they end with the last pass.
    """
    with _EVALUATING_LOCK:
        if not _PASSES:
            if "torch._dynamo" in sys.modules:
                _AS_WRITTEN.enter_context(torch.compiler.set_stance("force_eager"))
            _AS_WRITTEN.callback(torch.backends.mha.set_fastpath_enabled, torch.backends.mha.get_fastpath_enabled())
            torch.backends.mha.set_fastpath_enabled(False)
        _PASSES.append(None)
    try:
        yield
    finally:
        with _EVALUATING_LOCK:
            _PASSES.pop()
            if not _PASSES:
                _AS_WRITTEN.close()


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Put ``module`` in eval mode inside this context (no dropout), without compiled code and TF32; every submodule's own mode is restored
    when the last pass over it has ended.
    """
    with without_compilation(), products_in_float32(), _in_eval_mode(module):
        yield


@contextmanager
def answering(module: nn.Module) -> Iterator[None]:
    """Run passes of ``module`` of which only the answer is needed inside this context: as :func:`evaluating`, without a graph, and with
    faster matrix products.
    """
    # not inference_mode: what a module computes once and keeps, such as rotary positions, is used with gradients later
    with torch.no_grad(), evaluating(module), FasterProducts():
        yield


@contextmanager
def _in_eval_mode(module: nn.Module) -> Iterator[None]:
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
    """Enable gradients inside this context, even under ``torch.inference_mode`` and ``torch.no_grad``; decorates functions as well."""
    with torch.inference_mode(False), torch.enable_grad():
        yield
