"""What operators keep of the forward pass for the way back, safe from a model that writes over its own tensors.

A model may write into a tensor that torch's operators do not need again, and ours keep more than torch's: so a value that is about to be
overwritten is copied first, once, and only where something kept it.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakSet

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from explainers.errors import ExplainerError


class _Kept:
    """A value that was kept, at the version that it had."""

    __slots__ = ("__weakref__", "value", "version")

    def __init__(self, value: Tensor) -> None:
        self.value, self.version = value, value._version


class SavedValues:
    """The values that the operators of one forward pass keep. Within :attr:`hooks` what is saved for a backward pass is kept here."""

    def __init__(self) -> None:
        self.hooks = saved_tensors_hooks(self._pack, _unpack)
        self._new: list[_Kept] = []  # since a tensor was last written into
        self._by_memory: dict[int, list[_Kept]] = {}

    def _pack(self, value: Tensor) -> _Kept:
        kept = _Kept(value.detach())  # without its place in the graph, which would hold itself
        self._new.append(kept)
        return kept

    def before_write(self, tensor: Tensor) -> None:
        """Copy what is kept of the memory of ``tensor``, which is about to be written into."""
        for kept in self._new:
            self._by_memory.setdefault(_memory(kept.value), []).append(kept)
        self._new.clear()
        for kept in self._by_memory.pop(_memory(tensor), ()):
            _check(kept)
            kept.value = kept.value.clone()
            kept.version = kept.value._version

    def sizes(self) -> dict[int, int]:
        """Bytes of each piece of memory of which something is kept, by its address."""
        kept = [*self._new, *(kept for several in self._by_memory.values() for kept in several)]
        memory = [each.value.untyped_storage() for each in kept]
        return {storage.data_ptr(): storage.nbytes() for storage in memory}

    def forget(self) -> None:
        """The forward pass is over: what is kept belongs to its graph."""
        self._new.clear()
        self._by_memory.clear()


class LongLivedValues:
    """The same for passes that have no end of their own: what no graph needs any more is forgotten by itself."""

    def __init__(self) -> None:
        self.hooks = saved_tensors_hooks(self._pack, _unpack)
        self._alive: WeakSet[_Kept] = WeakSet()

    def _pack(self, value: Tensor) -> _Kept:
        kept = _Kept(value.detach())
        self._alive.add(kept)
        return kept

    def before_write(self, tensor: Tensor) -> None:
        """Copy what is kept of the memory of ``tensor``, which is about to be written into."""
        memory = _memory(tensor)
        for kept in list(self._alive):
            if _memory(kept.value) == memory and kept.value._version == kept.version:
                kept.value = kept.value.clone()
                kept.version = kept.value._version


def _memory(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr() if tensor.layout == torch.strided else id(tensor)


def _check(kept: _Kept) -> None:
    if kept.value._version != kept.version:
        raise ExplainerError(
            "The model writes over a tensor that the way back needs, in code that cannot be looked into (a scripted function, or a buffer "
            "that the next pass overwrites): have it write into a copy."
        )


def _unpack(kept: Any) -> Tensor:
    _check(kept)
    return kept.value  # type: ignore[no-any-return]
