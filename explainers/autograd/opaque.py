"""Code that computes where a recording cannot follow it: what it gave is looked into where that is exact, else watched and named.

A ``torch.autograd.Function`` runs its ``forward`` without gradient and has a backward of its own, and so does a checkpoint that computes
its part again. Their torch calls are seen all the same. So while gradients are off, calls on what depends on the input are recorded beside
the plain ones, and what the function gives is replaced by what was recorded, if both have the same gradient: a function whose backward is
no derivative of its forward (a reversed gradient, a straight-through estimate) is left as it is. Scripted functions and ``torch.vmap`` are
not seen at all. Whatever reaches a torch call, needs a gradient and was made by none that was seen is such code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import CheckpointFunction

from explainers.autograd.recorder import Recorder

_SEEN = "_vitrine_seen"
_INSIDE = "_vitrine_inside"
#: Whether the gradient of a function was that of what it computes when it was last recorded.
_EXACT: WeakKeyDictionary[type, bool] = WeakKeyDictionary()


@dataclass(eq=False)
class Inside:
    """What was recorded while gradients were off: the same numbers as a plain tensor, as a node of the graph.

    origins  the tensors that need a gradient and that it was computed from
    exact    whether what the function gave has the same gradient; None until it is known
    """

    recorded: Tensor
    origins: tuple[Tensor, ...]
    exact: bool | None = None


def mark_seen(value: Any) -> Any:
    """Note that a recorded call made what ``value`` holds; returns it."""
    for tensor in _tensors(value):
        if tensor.requires_grad:
            setattr(tensor, _SEEN, True)
    return value


def on_path(rec: Recorder, value: Any) -> Any:
    """``value``, which is about to be used, as the recording knows it: constants without gradient, opaque code looked into or watched."""
    if isinstance(value, Tensor):
        if isinstance(value, nn.Parameter):
            return value.detach()
        return _known(rec, value) if value.requires_grad and not hasattr(value, _SEEN) else value
    if type(value) in (list, tuple) and any(isinstance(v, Tensor | list | tuple) for v in value):
        return type(value)(on_path(rec, v) for v in value)
    return value


def recorded_inside(rec: Recorder, value: Tensor) -> Tensor:
    """A tensor that a module takes or gives, as a node of the graph, also where gradients are off around it."""
    inside: Inside | None = getattr(value, _INSIDE, None)
    return inside.recorded if inside is not None and not torch.is_grad_enabled() else on_path(rec, value)


def without_gradient(rec: Recorder, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], writes: bool) -> Any:
    """``call(args, kwargs)`` where gradients are off, recorded beside it if something in its arguments depends on the input.

    ``writes``: whether the call changes its first argument.
    """
    given = tuple(_tensors((args, tuple(kwargs.values()))))
    insides = {id(t): inside for t in given if (inside := getattr(t, _INSIDE, None)) is not None}
    paths = [t for t in given if t.requires_grad]
    if not (insides or paths) or (writes and id(args[0]) not in insides):
        return call(args, kwargs)

    def recorded(value: Any) -> Any:
        if isinstance(value, Tensor):
            return insides[id(value)].recorded if id(value) in insides else value
        return type(value)(recorded(v) for v in value) if type(value) in (list, tuple) else value

    with torch.enable_grad():
        out = call(recorded(args), {name: recorded(value) for name, value in kwargs.items()})
    origins = {id(o): o for t in given for o in (insides[id(t)].origins if id(t) in insides else (t,) if t.requires_grad else ())}
    originals = {id(insides[id(t)].recorded): t for t in given if id(t) in insides}

    def plain(value: Any) -> Any:
        if isinstance(value, Tensor):
            if id(value) in originals:
                return originals[id(value)]  # it was written into
            if not value.requires_grad or any(value is t for t in paths):
                return value
            bare = value.data  # the same numbers; it is no view, so that a function may give it as its own
            setattr(bare, _INSIDE, Inside(value, tuple(origins.values())))
            return bare
        if isinstance(value, tuple) and hasattr(value, "_fields"):  # such as values and indices
            return type(value)(plain(v) for v in value) if type(value) is not torch.Size else value
        return type(value)(plain(v) for v in value) if type(value) in (list, tuple) else value

    return plain(out)


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _tensors(each)


def _known(rec: Recorder, value: Tensor) -> Tensor:
    """What no recorded call made, though it needs a gradient."""
    inside: Inside | None = getattr(value, _INSIDE, None)
    if inside is not None:
        if inside.exact is None:
            inside.exact = _is_exact(rec, value, inside)
        if inside.exact:
            return inside.recorded
    if value.grad_fn is None or (rec.is_differentiated and not depends_on(value, rec.starts)):
        return value.detach()  # a weight
    rec.watch(value, title_of(value))
    mark_seen(value)
    return value


def _is_exact(rec: Recorder, value: Tensor, inside: Inside) -> bool:
    """Whether what a function gave has the gradient of what was recorded inside it, for a signal drawn at random."""
    function = getattr(type(value.grad_fn), "_forward_cls", None)
    if function is CheckpointFunction:
        return True  # it is what it computes, whose backward computes it once more
    if not rec.is_differentiated:  # contributions are sent forward: gradients of what is recorded mean something else
        return function is not None and _EXACT.get(function, False)
    generator = torch.Generator().manual_seed(0)
    signal = torch.randn(value.shape, generator=generator, dtype=torch.float32).to(value)
    with rec.ordinary_gradient():
        ours = torch.autograd.grad(inside.recorded, inside.origins, signal, retain_graph=True, allow_unused=True)
        try:
            theirs = torch.autograd.grad(value, inside.origins, signal, retain_graph=True, allow_unused=True)
        except Exception:  # whatever a function that has no backward raises: then what it computes is all there is
            theirs = ours
    tolerance = max(1e-3, torch.finfo(value.dtype).eps ** 0.5)
    exact = all(_alike(a, b, tolerance) for a, b in zip(ours, theirs, strict=True))
    if function is not None:
        _EXACT[function] = exact
    return exact


def _alike(ours: Tensor | None, theirs: Tensor | None, tolerance: float) -> bool:
    if ours is None or theirs is None:
        return not any(t is not None and bool(t.any()) for t in (ours, theirs))
    return float((ours - theirs).abs().max()) <= tolerance * float(theirs.abs().max())


def depends_on(value: Tensor, starts: Iterable[Tensor]) -> bool:
    """Whether the graph of ``value`` reaches one of the ``starts``."""
    leaves, nodes = set(), set()
    for start in starts:
        nodes.add(start.grad_fn) if start.grad_fn is not None else leaves.add(id(start))
    if value.grad_fn is None:
        return id(value) in leaves
    waiting, seen = [value.grad_fn], set()
    while waiting:
        node: Any = waiting.pop()
        if node in nodes or id(getattr(node, "variable", None)) in leaves:
            return True
        if node not in seen:
            seen.add(node)
            waiting += [before for before, _ in node.next_functions if before is not None]
    return False


def title_of(value: Tensor) -> str:
    """What to call the code that made ``value``: the name of its function, or of its last step."""
    function = getattr(type(value.grad_fn), "_forward_cls", None)
    if function is not None:
        return f"{function.__name__} (an autograd function whose backward is not the derivative of what it computes)"
    step = re.sub(r"Backward\d*$", "", value.grad_fn.name().rsplit(":", 1)[-1]) if value.grad_fn is not None else "tensor"
    if step in ("DifferentiableGraph", "CppFunction"):
        return "a scripted function (torch.jit)"
    step = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", step).lower()
    return f"code that cannot be looked into (scripted, or under torch.vmap; its last step is {step})"
