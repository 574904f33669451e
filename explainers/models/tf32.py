"""TensorFloat-32: whether a GPU may round what it multiplies in float32 to ten bits. Not in explanations, unless it is asked for.

Torch allows it for convolutions and, if :func:`torch.set_float32_matmul_precision` says so, for matrix products. Numbers then have three
digits, which rules that divide by small sums amplify. So it is off while a model is asked or explained, and as the caller set it elsewhere.
Nor may a CPU round them to bfloat16, which it does where that function says so ("medium").
The settings are those of the process: where passes of several threads differ, all of them run without it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

import torch

_IS_ASKED: ContextVar[bool] = ContextVar("tf32 is asked for", default=False)
_LOCK = threading.Lock()
_WISHES: list[bool] = []  # of each pass under way: whether it may round
_OF_CPU: Any = getattr(torch.backends.mkldnn, "matmul", None)  # the setting of a CPU's products, since torch 2.9
_BEFORE: list[str | bool] = []  # the caller's settings, while passes are under way


def is_asked_here() -> bool:
    """Return whether :func:`asking_for_tf32` allows TF32 here, whatever the device."""
    return _IS_ASKED.get()


def is_tf32_asked(device: torch.device) -> bool:
    """Return whether products on this device may be rounded to TF32 in the current context, which only GPUs of Nvidia do."""
    return _IS_ASKED.get() and device.type == "cuda"


@contextmanager
def asking_for_tf32(is_asked: bool) -> Iterator[None]:
    """Allow inside this context that products in float32 are rounded to TF32 if ``is_asked``; else forbid it."""
    token = _IS_ASKED.set(is_asked)
    try:
        yield
    finally:
        _IS_ASKED.reset(token)


@contextmanager
def products_in_float32() -> Iterator[None]:
    """Multiply float32 matrices in float32 inside this context, or in TF32 where :func:`asking_for_tf32` allows it."""
    wish = _IS_ASKED.get()
    with _LOCK:
        if not _WISHES:
            _BEFORE[:] = [getattr(setting, name) for setting, name in _settings()]
        _WISHES.append(wish)
        try:
            _apply()
        except BaseException:  # what torch refuses: no pass began, and those under way are as they were
            _WISHES.remove(wish)
            with suppress(Exception):
                _apply()
            raise
    try:
        yield
    finally:
        with _LOCK:
            _WISHES.remove(wish)
            _apply()


def _apply() -> None:
    """Set torch's switches for TF32: rounding is allowed if all passes that run now allow it. If no pass runs, the caller's settings are
    restored.
    """
    may_round = all(_WISHES)
    for (setting, name), before in zip(_settings(), _BEFORE, strict=True):
        may_round_here = may_round and setting is not _OF_CPU
        wanted: str | bool = may_round if isinstance(before, bool) else ("tf32" if may_round_here else "ieee")
        value = wanted if _WISHES else before
        if getattr(setting, name) != value:
            setattr(setting, name, value)


def _settings() -> list[tuple[Any, str]]:
    """Return torch's objects that hold the settings, each with the name of its attribute."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    if hasattr(cudnn, "conv") and hasattr(matmul, "fp32_precision"):  # since torch 2.9, which refuses to mix both
        return [(each, "fp32_precision") for each in (matmul, cudnn.conv, cudnn.rnn, _OF_CPU)]
    return [(matmul, "allow_tf32"), (cudnn, "allow_tf32")]
