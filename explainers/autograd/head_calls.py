"""The head of a model run again on other tokens than the last block's output: the torch calls after the blocks are kept and repeated.

Little runs after the blocks. So the calls that lead to the logits are kept while the forward pass runs, each with its weights and
constants and with a place for the result of an earlier one. They are then made again, recorded, of whatever else the head is to read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from weakref import ref

from torch import Tensor
from torch.utils._pytree import tree_map

from explainers.autograd.detached import LEAVING
from explainers.autograd.dispatch import tensors_in
from explainers.autograd.nodes import Nodes
from explainers.autograd.recorder import Recorder

#: Functions by which numbers leave torch, so that what follows may depend on them unseen.
_UNSEEN = LEAVING | {"__bool__", "__int__", "__index__", "__contains__", "allclose", "equal", "is_nonzero"}


@dataclass(frozen=True)
class _Place:
    """A placeholder for a tensor in a recorded call: number 0 stands for the tokens that the head reads, n for the n-th result of the
    recorded calls.
    """

    number: int


@dataclass(frozen=True)
class _Call:
    """A recorded call ``func(*args, **kwargs)``, with placeholders in place of tensors.

    given     the placeholders of its outputs
    position  the position of the last operator before the call
    """

    func: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    given: tuple[_Place, ...]
    position: int


class HeadCalls:
    """The calls after the blocks of one forward pass that depend on the tokens which the head reads.

    is_whole  whether they can be repeated: all were seen, none writes into a tensor or runs without gradient, and the logits are their
              result
    """

    def __init__(self) -> None:
        self.is_whole = False
        self._calls: list[_Call] = []
        self._places: dict[int, tuple[ref[Tensor], _Place]] = {}
        self._constants: list[Tensor] = []  # what they take of the blocks themselves
        self._first, self._count, self._logits = 0, 0, _Place(0)

    def begin(self, rec: Recorder, tokens: Tensor) -> None:
        """Start to note the calls that depend on ``tokens``, the output of the last block."""
        self.is_whole, self._first = True, len(rec.nodes.ran)
        self._add(tokens)

    def note(self, rec: Recorder, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], out: Any, position: int) -> None:
        """Record the call ``func(*args, **kwargs)`` that gave ``out`` at ``position`` in the pass of ``rec``, if one of its arguments
        depends on the last block's tokens.
        """
        taken = list(tensors_in((args, tuple(kwargs.values()))))
        if not any(self._place_of(tensor) for tensor in taken):
            return
        constants = [tensor for tensor in taken if rec.active(tensor) and not self._place_of(tensor)]
        if getattr(func, "__name__", "") in _UNSEEN or any(self._is_unseen(rec, each) for each in constants):
            self.refuse(taken)
            return
        args, kwargs = tree_map(lambda value: self._place_of(value) or value, (args, kwargs))
        self._constants += constants
        self._calls.append(_Call(func, args, kwargs, tuple(self._add(tensor) for tensor in tensors_in(out)), position))

    def refuse(self, values: Any) -> None:
        """Give up repeating the head's calls if a tensor in ``values`` depends on the last block's tokens."""
        if any(self._place_of(tensor) for tensor in tensors_in(values)):
            self.is_whole = False
            self._calls.clear()
            self._constants.clear()
            self._places.clear()

    def end(self, logits: Tensor) -> None:
        """Note that the forward pass ended with these ``logits``, and forget the tensors of the pass."""
        place = self._place_of(logits)
        self._places.clear()
        self.is_whole = self.is_whole and place is not None
        self._logits = place or self._logits

    def nodes(self, nodes: Nodes, tokens: Tensor) -> Nodes:
        """Return the list of nodes up to the last block. When the calls of the head are repeated with ``tokens``, they append their nodes
        to it.
        """
        branch = Nodes(nodes.ran[: self._first], nodes.blocks, list(nodes.class_blocks), nodes.entry)
        for tensor in (tokens, *self._constants):
            branch.start(tensor)
        return branch

    def logits_of(self, tokens: Tensor, move_to: Callable[[int], None]) -> Tensor:
        """Return the head's logits for other ``tokens`` (B, S, D); ``move_to`` sets the position of the operator applied last."""
        made = {_Place(0): tokens}
        for call in self._calls:
            move_to(call.position)
            args, kwargs = tree_map(lambda value: made[value] if isinstance(value, _Place) else value, (call.args, call.kwargs))
            made.update(zip(call.given, tensors_in(call.func(*args, **kwargs)), strict=True))
        return made[self._logits]

    def _place_of(self, value: Any) -> _Place | None:
        known = self._places.get(id(value))
        return known[1] if known is not None and known[0]() is value else None

    def _add(self, tensor: Tensor) -> _Place:
        place = _Place(self._count)
        self._places[id(tensor)] = (ref(tensor), place)
        self._count += 1
        return place

    def _is_unseen(self, rec: Recorder, tensor: Tensor) -> bool:
        """Return whether a tensor that depends on the input was made after the blocks, or by code whose calls were not recorded."""
        node = rec.nodes.of(tensor)
        return node is None or node.place >= self._first
