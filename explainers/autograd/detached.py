"""Numbers that depend on the input and leave its graph: followed until they meet a path of the input again, where they count as constants.

``detach``, ``data`` and numpy cut the gradient without a word, and what is computed from the numbers changes the answer all the same. No
operator can tell such a constant from a weight, so the calls between are followed. Whole numbers and truth values are not: what is chosen
by them is chosen under the ordinary gradient too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch.utils.weak import WeakTensorKeyDictionary

from explainers.autograd.dispatch import active, tensors_in

#: Functions that take a tensor for its shape, type and device alone.
_NEW = frozenset(
    ["zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like", "new_zeros", "new_ones", "new_empty", "new_full"]
)
#: Functions that take their first argument's numbers alone: of the others the shape, the type or the device.
_LIKE = frozenset(["to", "type_as", "expand_as", "view_as", "reshape_as", "type"])
#: Functions that give one tensor for each that they take.
_EACH = frozenset(["broadcast_tensors", "meshgrid", "atleast_1d", "atleast_2d", "atleast_3d"])
#: Functions by which numbers leave torch, and cannot be followed.
LEAVING = frozenset(["numpy", "__array__", "item", "tolist", "__float__"])


class DetachedNumbers:
    """A record of the numbers that one forward pass detached from the gradient. ``functions`` holds the names of the functions that
    combined such numbers with the input's path again, or took them out of torch.
    """

    def __init__(self) -> None:
        self.functions: set[str] = set()
        self._functions_of = WeakTensorKeyDictionary()  # of each tensor of such numbers, by what they were detached

    def follow(self, name: str, given: Iterable[Any], out: Any) -> None:
        """Record a call of the function ``name`` with the arguments ``given`` and the result ``out``."""
        if name in _NEW:
            return
        given = tuple(given)
        if name in _EACH and isinstance(out, list | tuple):
            for source, copy in zip(tensors_in(given), out, strict=False):
                self.follow(name, (source,), copy)
            return
        if name in _LIKE:
            given = given[:1]
        numbers = [tensor for tensor in tensors_in(given) if tensor.is_floating_point()]
        detached = [self._functions_of[tensor] for tensor in numbers if tensor in self._functions_of] if len(self._functions_of) else []
        met = any(active(tensor) for tensor in numbers)
        if not (met or detached):
            return
        if name in LEAVING:
            self.functions.add(name)
            return
        for tensor in tensors_in(out):
            if not tensor.is_floating_point():
                continue
            if active(tensor):
                self.functions.update(detached)
            else:
                self._functions_of[tensor] = detached[0] if detached else "data" if name == "__get__" else name

    def forget(self) -> None:
        """Forget the record of the pass."""
        self._functions_of.clear()
