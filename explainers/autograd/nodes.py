"""A list of nodes of a recorded forward pass: one for each tensor that a call on what depends on the input gave.

The list is separate from autograd's graph and keeps nothing alive that the graph does not: a node holds tensors only where its operator
saves their numbers for the way back. Questions about the model's structure are answered from the list: see
:mod:`explainers.autograd.structure`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any
from weakref import ref

import torch
from torch import Size, Tensor
from torch.autograd import Function


class Role(Enum):
    """Role of a tensor in attention, in a normalisation or in a gate.

    PIXELS        the pixels of the image
    GATE          a bounded curve that multiplies another path
    CURVE         the output of an activation; if it multiplies a path, the gate of a gated layer
    SCALE         the factor of a normalisation
    SHIFT         a constant that is part of a normalisation
    SCORES        a product of two paths, such as queries and keys
    CURVED        scores after another curve than softmax, or over their sum; attention weights if they are multiplied with values
    WEIGHTS       attention weights, after the softmax
    CONTEXT       weights times values: the output of the attention heads
    UNNORMALISED  the output of linear attention before its normaliser
    TRANSPOSED    a tensor with samples along the last dimension: text features @ image features^T
    """

    PIXELS = auto()
    GATE = auto()
    CURVE = auto()
    SCALE = auto()
    SHIFT = auto()
    SCORES = auto()
    CURVED = auto()
    WEIGHTS = auto()
    CONTEXT = auto()
    UNNORMALISED = auto()
    TRANSPOSED = auto()


class Start:
    """The operator of a node at which the graph starts: the embedded tokens x^1, or the pixels. It marks the node and computes nothing."""


class Move:
    """A call that moves, selects, copies or bounds numbers; a signal passes it by torch's ordinary gradient."""


class Unruled:
    """A function for which no rule has a choice, or code that could not be followed: the ordinary gradient is taken there."""


#: What a node ran: an operator of ours, or one of the three above.
NodeKind = type[Function] | type[Start] | type[Move] | type[Unruled]


@dataclass(eq=False, slots=True)
class Node:
    """One call of the forward pass and its result.

    operator  the operator that ran
    inputs    for each tensor argument the node that made it; None for a constant
    settings  the arguments that are no paths, by name: weights, constants, dimensions
    shape     shape of the result
    place     index in the list
    position  number of operators applied so far, negative before x^1; 0 for other calls
    role      what the tensor is to attention or to a normalisation
    operands  the tensor arguments, if its operator keeps them
    output    the result, if its operator keeps it, or the node is a start
    is_complex  whether the result is complex numbers
    terms     of a sum of three paths in the shape of a block's tokens, as x + (a + b), the three with the nodes that made them
    """

    operator: NodeKind
    inputs: tuple[Node | None, ...]
    settings: Mapping[str, Any]
    shape: Size
    place: int = 0
    position: int = 0
    role: Role | None = None
    operands: tuple[Tensor, ...] = ()
    output: Tensor | None = None
    is_complex: bool = False
    terms: tuple[tuple[Node, Tensor], ...] = ()

    @property
    def paths(self) -> list[Node]:
        """The nodes that made those inputs of this node that depend on the explained input."""
        return [node for node in self.inputs if node is not None]


@dataclass(eq=False)
class Block:
    """One run of a block: its nodes are ``first`` to before ``end`` in the list.

    input   (B, S, D); ``start`` is the node that made it
    stream  shape of the only residual stream that it adds to; None if there are several
    output  (B, S, D), None until it is done; ``made_by`` is the node that made it
    passed_on     (B, S, D): the tensor with which the model continues, which is ``output`` unless the head shall read something else
    passed_on_by  the node that made ``passed_on``
    biased  by position, what operators with a bias gave, as far as it is asked for which tokens their rows are of
    biased_after  the same of operators after the block and before the next
    """

    first: int
    input: Tensor
    start: Node | None
    stream: Size | None = None
    end: int | None = None
    output: Tensor | None = None
    made_by: Node | None = None
    passed_on: Tensor | None = None
    passed_on_by: Node | None = None
    biased: dict[int, Tensor] = field(default_factory=dict)
    biased_after: dict[int, Tensor] = field(default_factory=dict)


@dataclass(eq=False)
class Nodes:
    """The nodes of one forward pass in the order in which they ran, and the blocks among them.

    blocks        the runs of the model's blocks
    class_blocks  the runs of the modules after them in which a class token may join the tokens
    entry         how many nodes there were before x^1; None until it is reached
    embedded      the node that made x^1
    detached      names of the functions that cut numbers off from the gradient: see ``DetachedNumbers.functions``
    has_moved     whether a trial pass changed such numbers a little
    stacked       a few tensors that were just stacked: the result, its new axis and the tensors, as long as nothing but moves ran since
    unbiased_sum  the result and the operands of the last sum of two paths, one of which a linear map without a bias gave, as long as
                  nothing but moves ran since: a constant that is added now is that map's bias
    dtypes        the floating-point types of the tensors that ran
    last_sum      the node and the operands of the last sum of two paths, as long as nothing but moves ran since
    means         by the position of a sum, the index of its operand that is the mean of a normalisation written out, or a number in the
                  formula of an activation written out
    """

    ran: list[Node] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    class_blocks: list[Block] = field(default_factory=list)
    entry: int | None = None
    embedded: Node | None = None
    detached: frozenset[str] = frozenset()
    has_moved: bool = False
    unbiased_sum: tuple[Tensor, Tensor, Tensor] | None = None
    stacked: tuple[Tensor, int, tuple[Tensor, ...]] | None = None
    last_sum: tuple[Node, Tensor, Tensor] | None = None
    means: dict[int, int] = field(default_factory=dict)
    dtypes: set[torch.dtype] = field(default_factory=set)
    _by_tensor: dict[int, tuple[ref[Tensor], Node]] = field(default_factory=dict)

    @property
    def running(self) -> Block | None:
        """The block that is running now; None outside of blocks."""
        return self.blocks[-1] if self.blocks and self.blocks[-1].end is None else None

    @property
    def running_class_block(self) -> Block | None:
        """The block of class attention that is running now; None if none is."""
        return self.class_blocks[-1] if self.class_blocks and self.class_blocks[-1].end is None else None

    def of(self, tensor: Any) -> Node | None:
        """Return the node that made the present values of a tensor; None for a constant, and for values that no recorded call made."""
        known = self._by_tensor.get(id(tensor))
        return known[1] if known is not None and known[0]() is tensor else None

    @property
    def epsilon(self) -> float:
        """The rounding unit of the coarsest floating-point type in which a tensor on the path of the input was computed."""
        return max((torch.finfo(dtype).eps for dtype in self.dtypes if dtype.is_floating_point), default=0.0)

    def is_past(self, node: Node) -> bool:
        """Return whether a node was computed before x^1 and is no part of it: where it is read later, such as a class token that each block
        is given again, it is a constant, as it is in a pass that starts at x^1.
        """
        return self.entry is not None and node.place < self.entry and node is not self.embedded and node.operator is not Start

    def add(self, node: Node, tensor: Tensor) -> Node:
        """Append a node to the list, as the one that made ``tensor``, and return it."""
        node.place, node.is_complex = len(self.ran), tensor.is_complex()
        self.ran.append(node)
        self.dtypes.add(tensor.dtype)
        if node.operator is not Move:
            self.unbiased_sum = self.stacked = self.last_sum = None
        self._by_tensor[id(tensor)] = (ref(tensor), node)
        return node

    def start(self, tensor: Tensor, role: Role | None = None) -> Tensor:
        """Add a node with ``role`` for ``tensor``, from which the graph starts, and return the tensor."""
        self.add(Node(Start, (), {}, tensor.shape, role=role, output=tensor), tensor)
        return tensor

    def move(self, out: Tensor, source: Tensor, role: Role | None = None) -> Tensor:
        """Add a node with ``role`` which says that ``out`` has the numbers of ``source`` in other places, and return ``out``."""
        node = self.of(source)
        if out is not source and node is not None and out.requires_grad:
            self.add(Node(Move, (node,), {}, out.shape, role=role), out)
        return out

    def note_sum(self, out: Tensor, operands: tuple[Tensor, Tensor], before: tuple[Node, Tensor, Tensor] | None) -> None:
        """Note that ``out``, in the shape of the tokens of the block that runs now, is the sum of two ``operands``, and, if one of these is
        the sum ``before``, the last of two paths, of which three terms.
        """
        node, running = self.of(out), self.running
        if node is None or running is None or out.shape != running.stream:
            return
        for total, other in (operands, operands[::-1]):
            made_by, other_by = self._unmoved(total), self.of(other)
            if before is not None and made_by is before[0] and other_by is not None:
                node.terms = (*zip(made_by.paths, before[1:], strict=True), (other_by, other))
        self.last_sum = node, *operands

    def _unmoved(self, tensor: Tensor) -> Node | None:
        node = self.of(tensor)
        while node is not None and node.operator is Move and len(node.paths) == 1 and node.paths[0].shape == node.shape:
            (node,) = node.paths
        return node

    def remove(self, node: Node) -> bool:
        """Take back a node that another replaces, and return True; False if a block has begun or ended since it ran."""
        marks = [mark for block in (*self.blocks[-1:], *self.class_blocks[-1:]) for mark in (block.first, block.end) if mark is not None]
        if node.place < max([*marks, self.entry or 0]):
            return False
        del self.ran[node.place]
        for later in self.ran[node.place :]:
            later.place -= 1
        return True

    def end(self) -> None:
        """Forget the tensors of the nodes after the forward pass: none is looked up again."""
        self._by_tensor.clear()
        self.unbiased_sum = self.stacked = self.last_sum = None

    def let_go(self) -> None:
        """Release all tensors of the nodes so far."""
        for node in self.ran:
            node.operands, node.output, node.terms = (), None, ()

    def may_enter_attention(self, x: Tensor) -> bool:
        """Return whether ``x`` has the shape of the input of the block that runs now, so that a linear map of it may make queries, keys or
        values; whether it does is decided at the end of the block.
        """
        return self.running is not None and x.shape == self.running.input.shape

    def has_rows_of_block(self, x: Tensor) -> bool:
        """Return whether ``x`` has a row for each token of the block that runs now, of whatever width."""
        return self.running is not None and x.shape[:-1] == self.running.input.shape[:-1]

    def forget_operands(self, operator: NodeKind, but: Container[int]) -> None:
        """Release the operands of all nodes of an operator, except at the positions ``but``."""
        for node in self.ran:
            if node.operator is operator and node.position not in but:
                node.operands = ()

    def nodes_in(self, block: Block) -> list[Node]:
        """Return the nodes that belong to ``block``, as far as it has run."""
        return self.ran[block.first : block.end]

    def after_blocks(self) -> Iterator[tuple[Node, Block]]:
        """Yield the nodes that ran outside of the blocks and after one, each with the last block before it."""
        for block, after in zip(self.blocks, [*self.blocks[1:], None], strict=True):
            if block.end is not None:
                for node in self.ran[block.end : None if after is None else after.first]:
                    yield node, block


def ancestors(starts: Iterable[Node | None], ends: Iterable[Node | None] = (), until: Callable[[Node], bool] | None = None) -> list[Node]:
    """Return the nodes that ``starts`` depend on, including ``starts``. The search stops before nodes in ``ends``, and after nodes for
    which ``until`` is true.
    """
    seen = {id(node) for node in ends}
    waiting = [node for node in starts if node is not None]
    reached = []
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        reached.append(node)
        if until is None or not until(node):
            waiting += node.paths
    return reached


def users_of(nodes: Iterable[Node]) -> dict[int, list[Node]]:
    """Return, by the id of each of ``nodes``, the nodes that use its output."""
    users: dict[int, list[Node]] = {}
    for node in nodes:
        for path in dict.fromkeys(node.paths):
            users.setdefault(id(path), []).append(node)
    return users
