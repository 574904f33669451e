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
#: Functions by which numbers leave torch, and cannot be followed.
LEAVING = frozenset(["numpy", "__array__", "item", "tolist", "__float__"])


class DetachedNumbers:
    """What was detached in one forward pass. ``functions``: by which functions numbers went that met the path of the input again, or left
    torch.
    """

    def __init__(self) -> None:
        self.functions: set[str] = set()
        self._functions_of = WeakTensorKeyDictionary()  # of each tensor of such numbers, by what they were detached

    def follow(self, name: str, given: Iterable[Any], out: Any) -> None:
        """Take note of a call of the function ``name``."""
        if name in _NEW:
            return
        numbers = [tensor for tensor in tensors_in(tuple(given)) if tensor.is_floating_point()]
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
        """Hold nothing of the pass."""
        self._functions_of.clear()
