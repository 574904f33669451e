"""A watch on a head: whether it reads tokens at fixed places, whatever numbers these hold."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

#: Names of functions that treat each token by itself and alike.
_BY_TOKEN = frozenset(
    ["layer_norm", "rms_norm", "linear", "dropout", "to", "float", "double", "half", "bfloat16", "contiguous", "clone", "size", "dim"]
)
#: Names of functions by which numbers leave torch, so that a place may be chosen by them.
_LEAVING = frozenset(["item", "tolist", "numpy", "__array__", "__int__", "__index__", "__float__", "__bool__", "__contains__"])
_WHOLE = slice(None)


class FixedReads(TorchFunctionMode):
    """A function mode that observes how tokens (B, S, D) are read after :meth:`begin`. Its attribute ``hold`` then says whether every token
    that was read was taken at an index that does not depend on the tokens' numbers; False if a call cannot be judged, such as one in
    scripted code.
    """

    def __init__(self) -> None:
        super().__init__()
        self.hold = False
        self._tokens: dict[int, Tensor] = {}  # tensors that still hold several tokens
        self._read: dict[int, Tensor] = {}  # tensors made of tokens that were taken by a fixed index

    def begin(self, tokens: Tensor) -> None:
        """Start to follow ``tokens``, which the head is given."""
        self.hold = True
        self._tokens[id(tokens)] = tokens

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if self.hold:
            given = [value for value in tree_leaves((args, kwargs or {})) if isinstance(value, Tensor) and value.requires_grad]
            self.hold = self._follow(getattr(func, "__name__", ""), args, given, out)
        return out

    def _follow(self, name: str, args: tuple[Any, ...], given: list[Tensor], out: Any) -> bool:
        """Note ``out``, the output of the torch call ``name`` with arguments ``args``, among them the followed tensors ``given``, and
        return whether this call can be judged.
        """
        if name in _LEAVING:
            return False
        followed = [value for value in given if not value.is_leaf or id(value) in self._tokens]  # weights are leaves too
        if any(id(value) not in self._tokens and id(value) not in self._read for value in followed):
            return False
        made = [value for value in tree_leaves(out) if isinstance(value, Tensor)]
        if not any(id(value) in self._tokens for value in followed):
            self._read.update((id(value), value) for value in made if followed)
            return True
        if name in _BY_TOKEN or (name == "__get__" and not made):
            self._tokens.update((id(value), value) for value in made)
            return True
        index = (
            args[1] if name == "__getitem__" else (_WHOLE, args[2]) if name == "select" and args[1:2] == (1,) and len(args) == 3 else None
        )
        if not (isinstance(index, tuple) and len(index) > 1 and _is_whole(index[0]) and all(map(_is_fixed, index))):
            return False
        is_read = isinstance(index[1], int) or out.shape[1] == 1
        (self._read if is_read else self._tokens)[id(out)] = out
        return True


def _is_whole(index: Any) -> bool:
    return isinstance(index, slice) and index == _WHOLE


def _is_fixed(index: Any) -> bool:
    return type(index) is int or (
        isinstance(index, slice) and all(type(end) in (int, type(None)) for end in (index.start, index.stop, index.step))
    )
