"""The function mode of a recording: every torch call of the forward pass goes through it, to an operator or on to torch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from explainers.autograd import handlers  # noqa: F401  registers what dispatch knows
from explainers.autograd.dispatch import call_through, handler_of
from explainers.autograd.recorder import Recorder

_NARROWING = (Tensor.float, Tensor.half, Tensor.bfloat16)


class RecordingMode(TorchFunctionMode):
    """Sends every torch call of the forward pass through the operators."""

    def __init__(self, recording: Recorder) -> None:
        super().__init__()
        self.recording = recording

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name == "__get__":
            value = func(*args, **(kwargs or {}))
            return value.detach() if isinstance(args[0], nn.Parameter) and isinstance(value, Tensor) else value
        # Weights are constants here, whatever their requires_grad says: only what depends on the input is on the path.
        args = tuple(_constant(a) for a in args)
        kwargs = {k: _constant(v) for k, v in (kwargs or {}).items()}
        if not self.recording.double:
            return self._call(func, args, kwargs)
        if func in _NARROWING:
            return args[0].double()
        args, kwargs = tuple(doubled(a) for a in args), {k: doubled(v) for k, v in kwargs.items()}
        return doubled(self._call(func, args, kwargs))

    def _call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        handler = handler_of(func)
        if handler is not None:
            return handler(self.recording, func, *args, **kwargs)
        return call_through(self.recording, func, args, kwargs)


def _constant(value: Any) -> Any:
    if type(value) is Tensor:  # most values; whether something is a Parameter takes long to ask
        return value
    if isinstance(value, nn.Parameter):
        return value.detach()
    if isinstance(value, list | tuple) and any(isinstance(v, nn.Parameter) for v in value):
        return type(value)(_constant(v) for v in value)
    return value


def doubled(value: Any) -> Any:
    """Every floating-point tensor and data type in float64."""
    if isinstance(value, Tensor):
        return value.double() if value.is_floating_point() and value.dtype != torch.float64 else value
    if isinstance(value, torch.dtype):
        return torch.float64 if value.is_floating_point else value
    if type(value) in (list, tuple):
        return type(value)(doubled(v) for v in value)
    return value
