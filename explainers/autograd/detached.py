"""Numbers that depend on the input and leave its graph: followed until they meet a path of the input again, where they count as constants.

``detach``, ``data``, ``torch.no_grad`` and numpy cut the gradient without a word, and what is computed from the numbers changes the answer
all the same. No operator can tell such a constant from a weight, so the calls between are followed. Whole numbers and truth values are not:
what is chosen by them is chosen under the ordinary gradient too.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from explainers.autograd.dispatch import TAKES_SHAPE, active, tensors_in

#: Functions that take a tensor for its shape, type and device alone.
_NEW = frozenset(
    ["zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like", "new_zeros", "new_ones", "new_empty", "new_full"]
)
#: Functions that give one tensor for each that they take.
_EACH = frozenset(["broadcast_tensors", "meshgrid", "atleast_1d", "atleast_2d", "atleast_3d"])
#: Functions by which numbers leave torch, and cannot be followed.
LEAVING = frozenset(["numpy", "__array__", "item", "tolist", "__float__"])
#: What a write is called that changes numbers on the path of the input without its graph.
UNSEEN_WRITE = "a write in place under no_grad or into data"
#: How far numbers are moved as they are detached, relative to one more than their size.
_STEP = 1e-3


class DetachedNumbers:
    """A record of the numbers that a forward pass computed from the input and then cut off from the gradient (by ``detach``, ``item``,
    ``no_grad`` and the like).

    ``functions`` is the set of names of functions that cut numbers off. A function counts if its numbers were later combined with tensors
    that have a gradient, or became plain Python or NumPy numbers. ``moved`` is the name of one function: its numbers are changed a little,
    to see whether the model's answer changes. ``has_moved`` says whether any numbers were changed.
    """

    def __init__(self, moved: str | None = None) -> None:
        self.functions: set[str] = set()
        self.has_moved = False
        self._moved = moved
        self._functions_of = WeakTensorKeyDictionary()  # of each tensor of such numbers, by what they were detached
        self._shared = WeakTensorKeyDictionary()  # tensors of such numbers in the memory of a tensor that has a gradient

    def follow(self, name: str, given: Iterable[Any], out: Any) -> Any:
        """Record a call of the function ``name`` with the arguments ``given`` and the result ``out``. Returns the result for the model to
        use: ``out``, changed a little if its numbers are those to move.
        """
        if name in _NEW:
            return out
        given = tuple(given)
        if out is None and name == "__setitem__":
            self.follow("copy_", given, given[0])
            return out
        if name in _EACH and isinstance(out, list | tuple):
            for source, copy in zip(tensors_in(given), out, strict=False):
                self.follow(name, (source,), copy)
            return out
        if name in TAKES_SHAPE:
            given = given[:1]
        numbers = [tensor for tensor in tensors_in(given) if tensor.is_floating_point()]
        met = any(active(tensor) for tensor in numbers)
        known = self._functions_of
        detached = [known[tensor] for tensor in numbers if not active(tensor) and tensor in known] if len(known) else []
        if not (met or detached):
            return out
        if name in LEAVING:
            self.functions.add(name)
            return self._move(out) if name == self._moved else out
        function = detached[0] if detached else _switched_off() or ("data" if name == "__get__" else name)
        is_written = isinstance(out, Tensor) and bool(given) and out is given[0]
        self.functions |= {UNSEEN_WRITE} if is_written and self._is_unseen_write(out) else set()
        if met and function == self._moved:
            out = self._move_within(out) if is_written else self._move(out)
        changed = [*tensors_in(out), *([out._base] if is_written and out._base is not None else [])]
        for tensor in changed:
            if not tensor.is_floating_point():
                continue
            if active(tensor):
                self.functions.update(detached)
            else:
                self._note(tensor, function, numbers)
        return out

    def holds(self, tensor: Tensor) -> bool:
        """Return whether ``tensor`` holds numbers that were cut off from the gradient."""
        return not active(tensor) and tensor in self._functions_of

    def _note(self, tensor: Tensor, function: str, numbers: Iterable[Tensor]) -> None:
        """Record that ``function`` detached a ``tensor`` made of these ``numbers``, and whether it lies in the memory of a tensor with a
        gradient.
        """
        self._functions_of[tensor] = function
        if any(_have_one_memory(tensor, each) for each in numbers if active(each) or each in self._shared):
            self._shared[tensor] = True

    def _is_unseen_write(self, written: Tensor) -> bool:
        """Return whether a write into a tensor changes numbers on the path of the input without its graph: gradients are off, or the tensor
        is the ``data`` of another. Autograd functions, which have a backward of their own for what they write, are left out.
        """
        if active(written):
            return not torch.is_grad_enabled() and not _is_in_autograd_function()
        return written in self._shared

    def leave(self, value: Tensor) -> Tensor:
        """Record ``value``, a result that was computed while gradients were off. Returns the value for the model to use, changed a little
        if its numbers are those to move.
        """
        if not value.is_floating_point():
            return value
        function = _switched_off() or "no_grad"
        value = self._move(value) if function == self._moved else value
        self._functions_of[value] = function
        return value

    def _move_within(self, value: Tensor) -> Tensor:
        """Change the numbers of ``value`` a little, as :meth:`_move` does, in place, because the model keeps this tensor; return it."""
        moved = self._move(value)
        return value if moved is value else value.copy_(moved)

    def _move(self, value: Any) -> Any:
        """Return ``value`` (a tensor, an array, a float, or a list of these) with its floating-point numbers outside of the gradient
        changed a little, each by another random share; anything else is returned unchanged.
        """
        if isinstance(value, Tensor):
            if active(value) or not value.is_floating_point():
                return value
            self.has_moved = True
            shares = torch.rand(value.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(value)
            return torch.where(value.isfinite(), value + _STEP * shares * (1 + value.abs()), value)
        if isinstance(value, np.ndarray) and np.issubdtype(value.dtype, np.floating):
            return self._move(torch.tensor(value)).numpy()
        if isinstance(value, float):
            return float(self._move(torch.tensor(value, dtype=torch.float64)))
        return type(value)(map(self._move, value)) if isinstance(value, list | tuple) else value

    def forget(self) -> None:
        """Forget the record of the pass."""
        self._functions_of.clear()
        self._shared.clear()


def _have_one_memory(first: Tensor, second: Tensor) -> bool:
    return bool(first.untyped_storage()._cdata == second.untyped_storage()._cdata)


def _is_in_autograd_function() -> bool:
    frame: Any = sys._getframe(1)
    while frame is not None:
        if isinstance(frame.f_locals.get("ctx"), torch.autograd.function.FunctionCtx):
            return True
        frame = frame.f_back
    return False


def _switched_off() -> str:
    """Return the name of what switches gradients off now; an empty name if nothing does."""
    if torch.is_inference_mode_enabled():
        return "inference_mode"
    return "" if torch.is_grad_enabled() else "no_grad"
