"""The function mode of a recording: every torch call of the forward pass goes through it, to an operator or on to torch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from explainers.autograd import handlers  # noqa: F401  registers what dispatch knows
from explainers.autograd.dispatch import call_through, handler_of, writes_into_first
from explainers.autograd.opaque import kept_beside, mark_seen, needs_gradient, on_path, without_gradient
from explainers.autograd.recorder import Recorder
from explainers.autograd.saved_values import SavedValues

_NARROWING = (Tensor.float, Tensor.half, Tensor.bfloat16)


class RecordingMode(TorchFunctionMode):
    """Sends every torch call of the forward pass through the operators."""

    def __init__(self, recording: Recorder, saved: SavedValues) -> None:
        super().__init__()
        self.recording = recording
        self._saved = saved

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, kwargs = getattr(func, "__name__", ""), kwargs or {}
        if name == "__get__" and not isinstance(value := func(*args), Tensor):
            return value  # a shape, a type, a device
        writes = writes_into_first(func, args, kwargs)
        # Weights are constants here, whatever their requires_grad says: only what depends on the input is on the path.
        args = tuple(on_path(self.recording, a) for a in args)
        kwargs = {k: on_path(self.recording, v) for k, v in kwargs.items()}

        def call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if writes and args and isinstance(args[0], Tensor):
                self._saved.before_write(args[0])
            with self._saved.hooks:
                out = mark_seen(self._in_type(func, args, kwargs))
            if writes:  # what was written into a constant, or into a view of one, depends on the input now
                mark_seen([args[0], args[0]._base] if isinstance(args[0], Tensor) and args[0]._is_view() else args[0])
            return out

        insides = self.recording.insides
        if not torch.is_grad_enabled() and needs_gradient(args) and insides.begin_checkpoint():
            torch._C._set_grad_enabled(True)  # until torch sets it back at its end
        if not torch.is_grad_enabled():
            return without_gradient(self.recording, call, args, kwargs, writes)
        out = call(args, kwargs)
        return kept_beside(self.recording, out) if insides.in_checkpoint else out

    def _in_type(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not self.recording.double:
            return self._call(func, args, kwargs)
        if func in _NARROWING:
            return args[0].double()
        args, kwargs = tuple(doubled(a) for a in args), {k: doubled(v) for k, v in kwargs.items()}
        return doubled(self._call(func, args, kwargs))

    def _call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if "out" in kwargs:
            rest = {name: value for name, value in kwargs.items() if name != "out"}
            into = kwargs["out"]
            if into is None or isinstance(into, Tensor):
                result = self._call(func, args, rest)
                return result if into is None else into.resize_(result.shape).copy_(result)
        handler = handler_of(func)
        if handler is not None:
            return handler(self.recording, func, *args, **kwargs)
        return call_through(self.recording, func, args, kwargs)


def doubled(value: Any) -> Any:
    """Every floating-point tensor and data type in float64."""
    if isinstance(value, Tensor):
        return value.double() if value.is_floating_point() and value.dtype != torch.float64 else value
    if isinstance(value, torch.dtype):
        return torch.float64 if value.is_floating_point else value
    if type(value) in (list, tuple):
        return type(value)(doubled(v) for v in value)
    return value
