"""The function mode of a recording: every torch call of the forward pass goes through it, to an operator or on to torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from explainers.autograd import handlers  # noqa: F401  registers what dispatch knows
from explainers.autograd.dispatch import (
    TRANSPARENT,
    active,
    call_through,
    handler_for,
    note,
    role,
    role_among_constants,
    tensors_in,
    writes_into_first,
)
from explainers.autograd.forward_pass import ForwardPass
from explainers.autograd.nodes import Move, Role, Unruled
from explainers.autograd.opaque import keep_recorded, needs_gradient, on_path, without_gradient
from explainers.autograd.recorder import Recorder
from explainers.errors import ExplainerError

#: Functions besides the transparent ones that only move numbers; they have handlers.
_JOINING = frozenset(["cat", "concat", "concatenate", "stack"])
_NARROWING = (Tensor.float, Tensor.half, Tensor.bfloat16)


class RecordingMode(TorchFunctionMode):
    """A function mode that sends every torch call of the forward pass of ``recording`` through the operators."""

    def __init__(self, recording: Recorder, forward_pass: ForwardPass) -> None:
        super().__init__()
        self.recording = recording
        self._saved, self._detached, self._head = forward_pass.saved, forward_pass.detached, forward_pass.head
        self._outer_autocast = _autocast_devices()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, kwargs = getattr(func, "__name__", ""), kwargs or {}
        if name == "__get__" and not isinstance(value := func(*args), Tensor):
            return value  # a shape, a type, a device
        if not self.recording.is_own_code and not _autocast_devices() <= self._outer_autocast:
            raise ExplainerError(
                "This model switches torch.autocast on inside its forward, so that its values change their type where no signal can "
                "follow: take it out of the model, or pass enabled=False to it. To explain in a shorter type, convert the weights, or put "
                "torch.autocast around the whole call."
            )
        writes = writes_into_first(func, args, kwargs)
        # Weights are constants here, whatever their requires_grad says: only what depends on the input is on the path.
        args = tuple(a if writes and place == 0 and self._is_past(a) else on_path(self.recording, a) for place, a in enumerate(args))
        kwargs = {k: on_path(self.recording, v) for k, v in kwargs.items()}
        if not self.recording.is_differentiated and torch.is_grad_enabled():
            args = tuple(a if writes and place == 0 else self._held(a) for place, a in enumerate(args))
            kwargs = {k: self._held(v) for k, v in kwargs.items()}

        def call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            written = args[0] if writes and args and isinstance(args[0], Tensor) else None
            before = self.recording.nodes.of(written)
            if written is not None:
                self._saved.before_write(written)
            with self._saved.hooks:
                out = self._in_type(func, args, kwargs)
            self._note(name, (*args, *kwargs.values()), out)
            if written is not None:
                if self.recording.nodes.of(written) is before:
                    self._note_write(name, written, (*args, *kwargs.values()))
                if written._is_view():
                    self._note_write(name, written._base, (written,))
            if self.recording.entered:
                out = self.recording.as_chosen(out, tensors_in((*args, *kwargs.values())))
                out = self._detached.follow(name, (*args, *kwargs.values()), out)
            return out

        insides, position = self.recording.insides, self.recording.position
        if not torch.is_grad_enabled() and needs_gradient(args) and insides.begin_checkpoint():
            torch._C._set_grad_enabled(True)  # until torch sets it back at its end
        if writes or "out" in kwargs or insides.in_checkpoint or not torch.is_grad_enabled():
            self._head.refuse((args, tuple(kwargs.values())))
        if not torch.is_grad_enabled():
            follows = {"leave": self._detached.leave} if self.recording.entered else {}
            into = kwargs.pop("out", None)
            out = without_gradient(self.recording, call, args, kwargs, writes, **follows)
            return out if into is None else self._each(self._write_without_gradient, into, out)
        out = call(args, kwargs)
        self._head.note(self.recording, func, args, kwargs, out, position)
        return keep_recorded(self.recording, out) if insides.in_checkpoint else out

    def _held(self, value: Any) -> Any:
        """Return ``value``, an argument of a call, with tensors of numbers that were cut off from the gradient as constants."""
        if isinstance(value, Tensor):
            return self.recording.as_constant(value) if self._detached.holds(value) else value
        return type(value)(map(self._held, value)) if type(value) in (list, tuple) else value

    def _is_past(self, value: Any) -> bool:
        node = self.recording.nodes.of(value)
        return node is not None and self.recording.nodes.is_past(node)

    def _note(self, name: str, given: tuple[Any, ...], out: Any) -> None:
        """Append a node for each tensor in ``out`` that depends on the input and has none yet. ``out`` is the result of the function
        ``name``, which has no handler, for the arguments ``given``.
        """
        for tensor in tensors_in(out):
            if active(tensor) and self.recording.nodes.of(tensor) is None:
                note(self.recording, tensor, Move if name in TRANSPARENT or name in _JOINING else Unruled, given, name=name)

    def _note_write(self, name: str, written: Tensor | None, given: tuple[Any, ...]) -> None:
        """Append a node for ``written``, a constant or a view of one into which the function ``name`` wrote the values among ``given``: the
        tensor depends on the input from now on. Attention scores, weights and gates that are assembled in this way stay such.
        """
        if written is None or not active(written):
            return
        values = tuple(value for value in tensors_in(given) if value is not written and active(value))
        kept, of_values = role(self.recording, written), [role(self.recording, value) for value in values]
        if self.recording.nodes.of(written) is None:
            kept = role_among_constants(self.recording, values)
        elif kept in (Role.WEIGHTS, Role.GATE) and any(each != kept for each in of_values):
            kept = None
        kept = kept or (Role.SCORES if of_values == [Role.SCORES] else None)
        note(self.recording, written, Move, (written, *given), kept, name)

    def _in_type(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return call_in_float64(self._call, func, args, kwargs) if self.recording.double else self._call(func, args, kwargs)

    def _call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if "out" in kwargs:
            out = kwargs["out"]
            result = self._call(func, args, {name: value for name, value in kwargs.items() if name != "out"})
            return result if out is None else self._each(self._write, out, result)
        handler = handler_for(self.recording, func, args, kwargs)
        if handler is not None:
            return handler(self.recording, func, *args, **kwargs)
        return call_through(self.recording, func, args, kwargs)

    @staticmethod
    def _each(write: Callable[[Tensor, Tensor], Tensor], into: Any, result: Any) -> Any:
        """Write ``result``, a tensor or several, into ``into``, what ``out=`` named, by ``write``, and return what that returns."""
        if isinstance(into, tuple | list):
            return type(result)([write(target, each) for target, each in zip(into, result, strict=True)])
        return write(into, result)

    def _write(self, into: Tensor, result: Tensor) -> Tensor:
        """Copy ``result`` into ``into``, resized to its shape, as torch does for ``out=into``; record this and return ``into``."""
        self.recording.before_write(into)  # it may be an operand, too
        if into.shape != result.shape:
            into.resize_(result.shape)
        written = self.recording.nodes.move(into.copy_(result), result, role(self.recording, result))
        if into._is_view():
            self._note_write("copy_", into._base, (into,))
        return written

    def _write_without_gradient(self, into: Tensor, result: Tensor) -> Tensor:
        """Write ``result`` into ``into``, as torch does for ``out=into`` with gradients off, and return ``into``. Numbers that depend on
        the input then have no gradient any more, except in an autograd function, whose recorded tensor is stored.
        """
        self._saved.before_write(into)
        if into.shape != result.shape:
            into.resize_(result.shape)
        into.copy_(result.detach())
        inside = self.recording.insides.recorded_for(result)
        if inside is not None:
            self.recording.insides.keep(into, inside)
        if self.recording.entered:
            self._detached.follow("copy_", (into, result), into)
        return into


def _autocast_devices() -> frozenset[str]:
    """Return the kinds of devices for which torch.autocast is on."""
    return frozenset(device for device in ("cpu", "cuda", "mps") if torch.is_autocast_enabled(device))


class Float64Mode(TorchFunctionMode):
    """A function mode that runs plain torch calls in float64, whatever the dtype of their arguments. The calling module is not changed."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") == "__get__" and not isinstance(value := func(*args), Tensor):
            return value
        return call_in_float64(lambda func, args, kwargs: func(*args, **kwargs), func, args, kwargs or {})


def call_in_float64(call: Callable[[Any, tuple[Any, ...], dict[str, Any]], Any], func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Make the torch call ``call(func, args, kwargs)`` with every floating-point tensor and data type in float64, and return its result; a
    call that only lowers a tensor's precision returns it unchanged.
    """
    if func in _NARROWING:
        return args[0].double()
    return doubled(call(func, tuple(doubled(a) for a in args), {k: doubled(v) for k, v in kwargs.items()}))


def doubled(value: Any) -> Any:
    """Return a value with its floating-point tensors and data types converted to float64, also inside lists and tuples."""
    if isinstance(value, Tensor):
        return value.double() if value.is_floating_point() and value.dtype != torch.float64 else value
    if isinstance(value, torch.dtype):
        return torch.float64 if value.is_floating_point else value
    if type(value) in (list, tuple):
        return type(value)(doubled(v) for v in value)
    return value
