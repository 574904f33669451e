"""Values that operators keep from the forward pass for the way back, safe from a model that overwrites its own tensors.

A model may write into a tensor that torch's operators do not need again, and ours keep more than torch's: so a value that is about to be
overwritten is copied first, once, and only where something kept it.

Most of what operators keep is cheap to compute again from what another keeps: a sum with a bias, a curve, a normalisation, the products of
queries and keys. Such a value is not kept but computed again, by the same function of the same numbers, when a signal asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, overload
from weakref import WeakSet, ref

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.weak import WeakTensorKeyDictionary

from explainers.errors import ExplainerError

Compute = Callable[[], Tensor]


class _Kept:
    """A kept tensor and the version number it had, by which a later write into it is noticed; or, once dropped, how to get it again."""

    __slots__ = ("__weakref__", "_recompute", "value", "version")

    def __init__(self, value: Tensor) -> None:
        self.value, self.version = value, value._version
        self._recompute: Compute | None = None

    def drop(self, recompute: Compute) -> None:
        """Release the value, which ``recompute`` returns from now on."""
        del self.value
        self._recompute = recompute

    def read(self) -> Tensor:
        """Return the kept value, after a check that nothing has overwritten it."""
        if self._recompute is not None:
            return self._recompute()
        _check(self)
        return self.value


class _Recomputed:
    """A value that ``compute`` recomputes when it is read, or a ``view`` of one; while ``known``, the original, still exists unchanged,
    that is used.
    """

    __slots__ = ("_compute", "_known", "_version", "_view")

    def __init__(self, compute: Compute, known: Tensor, view: Tensor | None) -> None:
        self._compute, self._known, self._version = compute, ref(known), known._version
        self._view = None if view is None else (view.size(), view.stride(), view.storage_offset() - known.storage_offset())

    def read(self) -> Tensor:
        """Return the value; recompute it if the original no longer exists."""
        known = self._known()
        whole = self._compute() if known is None or known._version != self._version else known.detach()
        if self._view is None:
            return whole
        size, stride, offset = self._view
        return whole.as_strided(size, stride, whole.storage_offset() + offset)


#: What is kept of a value: the value, or how to compute it.
KeptRecord = _Kept | _Recomputed


class SavedTensors(Sequence[Any]):
    """The tensors that an operator kept, each read on first access in a backward pass; None stays None."""

    def __init__(self, kept: Sequence[KeptRecord | None]) -> None:
        self._kept = kept
        self._read: dict[int, Tensor] = {}

    @overload
    def __getitem__(self, place: int) -> Any: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Any]: ...

    def __getitem__(self, place: int | slice) -> Any:
        if isinstance(place, slice):
            return [self[each] for each in range(len(self))[place]]
        kept = self._kept[place]
        if kept is None:
            return None
        if place not in self._read:
            self._read[place] = kept.read()
        return self._read[place]

    def __len__(self) -> int:
        return len(self._kept)


class SavedValues:
    """The values that the operators of one forward pass keep. Tensors that are saved for a backward pass inside the context :attr:`hooks`
    are kept here.
    """

    def __init__(self) -> None:
        self.hooks = saved_tensors_hooks(self.keep, _unpack)
        self._new: WeakSet[_Kept] = WeakSet()  # since a tensor was last written into
        self._by_memory: dict[int, WeakSet[_Kept]] = {}
        self._recomputed = WeakTensorKeyDictionary()  # tensors that can be computed again: at which version, and how
        self._log: list[KeptRecord] | None = None  # what is kept in the block that runs now, in order

    def keep(self, value: Tensor) -> KeptRecord:
        """Keep a value with its present numbers, or how to recompute it if that is known; return the kept record."""
        kept = self._record(value)
        if self._log is not None:
            self._log.append(kept)
        return kept

    def begin_log(self) -> None:
        """Start to list what is kept from now on."""
        self._log = []

    def end_log(self) -> list[KeptRecord]:
        """Return what was kept since :meth:`begin_log`, in order."""
        log, self._log = self._log or [], None
        return log

    def drop(self, log: Sequence[KeptRecord], recompute: Callable[[int], Tensor]) -> None:
        """Release the values of a log; ``recompute`` returns the value at a place of the log from now on."""
        for place, kept in enumerate(log):
            if isinstance(kept, _Kept):
                self._new.discard(kept)
                kept.drop(partial(recompute, place))
        for several in self._by_memory.values():
            several.difference_update([kept for kept in log if isinstance(kept, _Kept)])

    def _record(self, value: Tensor) -> KeptRecord:
        base = value._base
        has_base = base is not None and base.dtype == value.dtype and base.is_conj() == value.is_conj()  # else no strided view of it
        for whole in (value, base) if base is not None and has_base else (value,):
            known = self._recomputed.get(whole)
            if known is not None and known[0] == value._version:
                return _Recomputed(known[1], whole, None if whole is value else value)
        kept = _Kept(value.detach())  # without its place in the graph, which would hold itself
        self._new.add(kept)
        return kept

    def recompute(self, value: Tensor, function: Callable[..., Tensor], *arguments: Any) -> None:
        """Have ``value`` recomputed instead of kept from now on, as ``function`` of the arguments, whose tensors are kept for it.

        Under autocast the value itself is kept, since autocast would have to be switched on again.
        """
        if torch.is_autocast_enabled(value.device.type):
            return
        kept = [self.keep(each) if isinstance(each, Tensor) else each for each in arguments]

        def compute() -> Tensor:
            return function(*(each.read() if isinstance(each, _Kept | _Recomputed) else each for each in kept))

        self._recomputed[value] = (value._version, compute)

    def before_write(self, tensor: Tensor) -> None:
        """Copy the kept values that share memory with ``tensor``, which is about to be overwritten."""
        for kept in self._new:
            self._by_memory.setdefault(_memory(kept.value), WeakSet()).add(kept)
        self._new.clear()
        for kept in self._by_memory.pop(_memory(tensor), ()):
            _check(kept)
            kept.value = kept.value.clone()
            kept.version = kept.value._version

    def sizes(self) -> dict[int, int]:
        """Return the size in bytes of each piece of memory that holds a kept value, by its address."""
        kept = [*self._new, *(kept for several in self._by_memory.values() for kept in several)]
        memory = [each.value.untyped_storage() for each in kept]
        return {storage.data_ptr(): storage.nbytes() for storage in memory}

    def forget(self) -> None:
        """Drop the record of the forward pass; its graph owns the kept values from now on."""
        self._new.clear()
        self._by_memory.clear()
        self._recomputed.clear()


class LongLivedValues:
    """Saved values for passes without a defined end: values that no graph needs any more are dropped automatically."""

    def __init__(self) -> None:
        self.hooks = saved_tensors_hooks(self._pack, _unpack)
        self._alive: WeakSet[_Kept] = WeakSet()

    def _pack(self, value: Tensor) -> _Kept:
        kept = _Kept(value.detach())
        self._alive.add(kept)
        return kept

    def before_write(self, tensor: Tensor) -> None:
        """Copy the kept values that share memory with ``tensor``, which is about to be overwritten."""
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
            "The model writes over a tensor that the way back needs, in code that cannot be inspected (a scripted function, or a buffer "
            "that the next pass overwrites): have it write into a copy."
        )


def _unpack(kept: Any) -> Tensor:
    return kept.read()  # type: ignore[no-any-return]
