"""Code that a recording cannot follow: its torch calls are recorded separately where that is exact, else it is watched and named.

A ``torch.autograd.Function`` runs its ``forward`` without gradient and has a backward of its own, and so does a checkpoint that computes
its part again. Their torch calls are seen all the same. So while gradients are off, calls on what depends on the input are recorded next to
the plain ones, and what the function gives is replaced by what was recorded, if both have the same gradient: a function whose backward is
no derivative of its forward (a reversed gradient, a straight-through estimate) is left as it is. Scripted functions and ``torch.vmap`` are
not seen at all. Whatever reaches a torch call, needs a gradient and is on no node of the list is such code.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map
from torch.utils.checkpoint import CheckpointFunction
from torch.utils.weak import WeakTensorKeyDictionary

from explainers.autograd.dispatch import role, tensors_in
from explainers.autograd.nodes import Node, Unruled
from explainers.autograd.recorder import Operator, Recorder
from explainers.errors import ExplainerError, ran_out_of_memory

#: Whether the gradient of a function was that of what it computes when it was last recorded.
_EXACT: WeakKeyDictionary[type, bool] = WeakKeyDictionary()


class Insides:
    """A record, during one forward pass, of what ran inside opaque code such as autograd functions and checkpoints, where gradients are
    off. For each plain tensor there it holds the recorded tensor: the same numbers, with a gradient.
    """

    def __init__(self) -> None:
        self._by_plain_tensor = WeakTensorKeyDictionary()  # by plain tensors, what was recorded for them
        self._replaced: dict[int, Tensor] = {}  # by the id of what was recorded, what it stands for
        self._unasked: list[tuple[Tensor, Inside]] = []
        self._checkpoints: set[int] = set()  # the calls of checkpointed functions in which gradients were switched on

    def keep(self, bare: Tensor, inside: Inside) -> Tensor:
        """Store ``inside``, which has the recorded tensor, for the plain tensor ``bare``, and return the plain one."""
        self._by_plain_tensor[bare] = inside
        return bare

    def recorded_for(self, value: Tensor) -> Inside | None:
        """Return the recorded tensor that stands for the plain tensor ``value``; None if there is none."""
        known: Inside | None = self._by_plain_tensor.get(value) if len(self._by_plain_tensor) else None
        return known

    def replace(self, value: Tensor, inside: Inside) -> Tensor:
        """Return the recorded tensor of ``inside``, for use in place of ``value``, the same tensor as opaque code returned it; and remember
        which tensor it replaces.
        """
        self._replaced[id(inside.recorded)] = value
        return inside.recorded

    def original(self, origin: Tensor) -> Tensor:
        """Return the model's own tensor in whose place the recorded tensor ``origin`` is used; ``origin`` itself if it replaces none."""
        return self._replaced.get(id(origin), origin)

    def ask_later(self, value: Tensor, inside: Inside) -> None:
        """Remember ``value``, the result of an autograd function inside a checkpoint, and its recorded tensor: whether both have the same
        gradient can only be tested after the checkpoint has ended.
        """
        self._unasked.append((value, inside))

    def begin_checkpoint(self) -> bool:
        """Return whether the code that runs now is a checkpointed function with gradients switched off by torch; True on the first call
        only.
        """
        frame: Any = sys._getframe(1)
        while frame is not None:
            if frame.f_code is CheckpointFunction.forward.__code__:
                if id(frame) in self._checkpoints:
                    return False
                self._checkpoints.add(id(frame))
                return True
            frame = frame.f_back
        return False

    @property
    def in_checkpoint(self) -> bool:
        """Return whether a checkpointed function was begun."""
        return bool(self._checkpoints)

    def end(self, rec: Recorder) -> None:
        """Forget everything about the forward pass of the recording.

        Raises ExplainerError for a function inside a checkpoint with a backward of its own.
        """
        for value, inside in self._unasked:
            if not _has_its_gradient(rec, value, inside):
                raise ExplainerError(
                    f"{title_of(value)} runs in gradient checkpointing, where it cannot be explained: switch that off, for instance with "
                    "model.set_grad_checkpointing(False)."
                )
        self._by_plain_tensor.clear()
        self._replaced.clear()
        self._unasked.clear()
        self._checkpoints.clear()


@dataclass(eq=False)
class Inside:
    """A tensor recorded while gradients were off: the same numbers as a plain tensor, as a node of the graph.

    origins  the tensors that need a gradient and that it was computed from
    exact    whether the function's own result has the same gradient; None until it is known
    """

    recorded: Tensor
    origins: tuple[Tensor, ...]
    exact: bool | None = None


def _is_on_list(value: Tensor, node: Node | None) -> bool:
    """Return whether ``node``, the node of the list that gave ``value``, is there, and no function has written over the value since."""
    if node is None:
        return False
    function = getattr(type(value.grad_fn), "_forward_cls", None)
    return function is None or issubclass(function, Operator) or node.settings.get("gradient") is value.grad_fn


def on_path(rec: Recorder, value: Any) -> Any:
    """Return ``value``, an argument of a call (also lists and tuples of tensors), in the form for the recording. A parameter is returned
    without gradient, and so is what was computed before the embedded tokens and does not come from them. A result of opaque code is
    replaced by its recorded tensor if both have the same gradient, else it is watched. Other values are unchanged.
    """
    if isinstance(value, Tensor):
        if isinstance(value, nn.Parameter):
            return value.detach()
        if not value.requires_grad:
            return value
        node = rec.nodes.of(value)
        if node is not None and rec.nodes.is_past(node):
            return value.detach()
        return value if _is_on_list(value, node) else _look_into(rec, value)
    if type(value) in (list, tuple) and any(isinstance(v, Tensor | list | tuple) for v in value):
        return type(value)(on_path(rec, v) for v in value)
    return value


def needs_gradient(values: Any) -> bool:
    """Return whether a tensor in ``values`` needs a gradient."""
    return any(tensor.requires_grad for tensor in tensors_in(values))


def record_of(rec: Recorder, value: Tensor) -> Tensor:
    """Return the recorded tensor for ``value``, a tensor at a module's input or output, also while gradients are off; without one, what
    :func:`on_path` returns.
    """
    inside: Inside | None = rec.insides.recorded_for(value)
    return inside.recorded if inside is not None and not torch.is_grad_enabled() else on_path(rec, value)


def keep_recorded(rec: Recorder, value: Any) -> Any:
    """Store a recorded copy of each tensor in ``value``, the result of a checkpointed function, because torch replaces the graph of the
    tensors that it finally returns; return ``value``.
    """
    for tensor in tensors_in(value):
        if tensor.requires_grad and tensor.grad_fn is not None and rec.insides.recorded_for(tensor) is None:
            rec.insides.keep(tensor, Inside(rec.nodes.move(tensor.clone(), tensor, role(rec, tensor)), ()))
    return value


def without_gradient(
    rec: Recorder,
    call: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    writes: bool,
    leave: Callable[[Tensor], Tensor] = lambda value: value,
) -> Any:
    """Run ``call(args, kwargs)`` while gradients are off and return its result; if one of its arguments depends on the input, the call is
    recorded too, with gradients on. ``writes``: whether the call changes its first argument. ``leave(tensor)`` is called with each plain
    tensor that results, and returns the one to use.
    """
    given = tuple(tensors_in((args, tuple(kwargs.values()))))
    insides = {id(t): inside for t in given if not t.requires_grad and (inside := rec.insides.recorded_for(t)) is not None}
    paths = [t for t in given if t.requires_grad]
    if not (insides or paths) or (writes and id(args[0]) not in insides):
        return call(args, kwargs)

    def recorded(value: Any) -> Any:
        return insides[id(value)].recorded if id(value) in insides else value

    with torch.enable_grad():
        out = call(*tree_map(recorded, (args, kwargs)))
    origins = {id(o): o for t in given for o in (insides[id(t)].origins if id(t) in insides else (t,) if t.requires_grad else ())}
    originals = {id(insides[id(t)].recorded): t for t in given if id(t) in insides}

    def plain(value: Any) -> Any:
        if id(value) in originals:
            return originals[id(value)]  # it was written into
        if not isinstance(value, Tensor) or not value.requires_grad or any(value is t for t in paths):
            return value
        # the same numbers in a tensor that is no view, so that a function may give it as its own
        return rec.insides.keep(leave(value.data), Inside(value, tuple(origins.values())))

    return tree_map(plain, out)


def _look_into(rec: Recorder, value: Tensor) -> Tensor:
    """Return the recorded tensor for ``value``, which no recorded call made but which needs a gradient. If there is none with the same
    gradient, the value itself is returned: without gradient if it depends on weights alone, else watched as the result of a function
    without a rule.
    """
    inside: Inside | None = rec.insides.recorded_for(value)
    if inside is not None:
        if inside.exact is None:
            inside.exact = _is_exact(rec, value, inside)
        if inside.exact:
            recorded: Tensor = rec.insides.replace(value, inside)
            return recorded
    if value._is_view() and value._base is not None and _is_on_list(value._base, rec.nodes.of(value._base)):
        return rec.nodes.move(value, value._base)  # a view that was made before something was written into its base
    if value.grad_fn is None or not depends_on(rec, value):
        return value.detach()  # a weight
    rec.watch(value, title_of(value))
    settings = {"function": title_of(value), "gradient": value.grad_fn}
    rec.nodes.add(Node(Unruled, (rec.nodes.of(value),), settings, value.shape), value)
    return value


def _is_exact(rec: Recorder, value: Tensor, inside: Inside) -> bool:
    """Return whether ``value``, the output of an autograd function, has the same gradient as the tensor recorded inside the function.
    Inside a checkpoint this cannot be tested yet: then it is noted for later, and True is returned.
    """
    function = getattr(type(value.grad_fn), "_forward_cls", None)
    if function is CheckpointFunction:
        return True  # it is what it computes, whose backward computes it once more
    if not rec.is_differentiated:  # contributions are sent forward: gradients of what is recorded mean something else
        return function is not None and _EXACT.get(function, False)
    if torch._C._autograd._top_saved_tensors_default_hooks(False) is not None:  # a checkpoint keeps what its backward needs
        rec.insides.ask_later(value, inside)
        return True
    return _has_its_gradient(rec, value, inside)


def _has_its_gradient(rec: Recorder, value: Tensor, inside: Inside) -> bool:
    """Return whether ``value``, a function's output, has the same gradient as what was recorded ``inside`` the function, for a random
    signal.
    """
    function = getattr(type(value.grad_fn), "_forward_cls", None)
    generator = torch.Generator().manual_seed(0)
    signal = torch.randn(value.shape, generator=generator, dtype=torch.float32).to(value)
    given = [rec.insides.original(origin) for origin in inside.origins]
    with rec.ordinary_gradient():
        ours = torch.autograd.grad(inside.recorded, inside.origins, signal, retain_graph=True, allow_unused=True)
        try:
            theirs = torch.autograd.grad(value, given, signal, retain_graph=True, allow_unused=True)
        except Exception as error:  # whatever a function that has no backward raises: then what it computes is all there is
            if ran_out_of_memory(error):
                raise
            theirs = ours
    tolerance = max(1e-3, torch.finfo(value.dtype).eps ** 0.5)
    exact = all(_are_alike(a, b, tolerance) for a, b in zip(ours, theirs, strict=True))
    if function is not None:
        _EXACT[function] = exact
    return exact


def _are_alike(ours: Tensor | None, theirs: Tensor | None, tolerance: float) -> bool:
    if ours is None or theirs is None:
        return not any(t is not None and bool(t.any()) for t in (ours, theirs))
    return float((ours - theirs).abs().max()) <= tolerance * float(theirs.abs().max())


def depends_on(rec: Recorder, value: Tensor) -> bool:
    """Return whether ``value`` depends, in autograd's graph, on one of the tensors from which the recording starts."""
    nodes = {start.grad_fn for start in rec.starts if start.grad_fn is not None}
    leaves = {id(start) for start in rec.starts if start.grad_fn is None}
    waiting, seen = [value.grad_fn], set()
    while waiting:
        node: Any = waiting.pop()
        if node in nodes or id(getattr(node, "variable", None)) in leaves:
            return True
        if node is not None and node not in seen:
            seen.add(node)
            waiting += [before for before, _ in node.next_functions if before is not None]
    return False


def title_of(value: Tensor) -> str:
    """Return a title for the code that made ``value``: the name of its function, or of its last step."""
    function = getattr(type(value.grad_fn), "_forward_cls", None)
    if function is not None:
        return f"{function.__name__} (an autograd function whose backward is not the derivative of what could be followed of it)"
    step = re.sub(r"Backward\d*$", "", value.grad_fn.name().rsplit(":", 1)[-1]) if value.grad_fn is not None else "tensor"
    step = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", step).lower()
    return f"code that cannot be inspected (scripted by torch.jit, or under torch.vmap; its last step is {step})"
