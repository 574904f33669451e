"""A user's own passes under a rule: what torch calls of a block become, and which rule is in force when a signal goes back.

There is one :class:`OwnCode` for each thread. A graph that it made asks it for the rule at the time of the backward pass: in blocks the
innermost one's, outside of all blocks the ordinary gradient.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any
from weakref import ref

import torch
from torch import Size, Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode
from torch.utils.checkpoint import CheckpointFunction
from torch.utils.weak import WeakTensorKeyDictionary

from explainers.autograd import handlers  # noqa: F401  registers what dispatch knows
from explainers.autograd.dispatch import (
    TRANSPARENT,
    call_through,
    handler_for,
    note,
    role,
    tensors_in,
    writes_into_first,
)
from explainers.autograd.nodes import Move, Node, Nodes, Role, Start, Unruled, ancestors
from explainers.autograd.operators import LinearAttention, LinearMap, MatMul, Mul, Normaliser, Softmax
from explainers.autograd.recorder import AttendByRows, Operator, Reader, ReadMap, argument_names
from explainers.autograd.replay import ORDINARY, Place, replay
from explainers.autograd.rules import Rule
from explainers.autograd.sample_axes import SampleAxis
from explainers.autograd.saved_values import LongLivedValues
from explainers.autograd.structure.attention import scores_of
from explainers.autograd.structure.attention_products import products_of_attention
from explainers.errors import ExplainerError
from explainers.models import matrix_products

#: Functions whose first tensor is data, and what else they take their weights. Data without gradient is on the path from here on.
_OF_DATA = frozenset(
    [
        F.linear,
        torch.conv1d,
        torch.conv2d,
        torch.conv3d,
        F.layer_norm,
        torch.layer_norm,
        F.group_norm,
        F.batch_norm,
        F.embedding,
        F.embedding_bag,
        torch.matmul,
        Tensor.matmul,
        Tensor.__matmul__,
        torch.bmm,
        torch.mm,
        torch.linalg.matmul,
        torch.mv,
        torch.inner,
        torch.tensordot,
        torch.einsum,
        F.bilinear,
        F.multi_head_attention_forward,
    ]
)
#: Functions among these whose other tensors are weights, whatever they are.
_WEIGHING = _OF_DATA - {
    *(torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.bmm, torch.mm, torch.linalg.matmul, torch.mv, torch.inner, torch.tensordot),
    *(torch.einsum, F.bilinear, F.multi_head_attention_forward),
}
_CHECKPOINT = "Gradient checkpointing runs a part of the model again on the way back, out of reach of a rule: switch it off for the block."


class _Nodes(Nodes):
    """The nodes of the tensors that still exist. There is no list of all, and no node holds its result."""

    def add(self, node: Node, tensor: Tensor) -> Node:
        """Note the node as the one that made ``tensor``, and return it."""
        if node.operator is not Move:
            self.stacked = None
        by_tensor, key = self._by_tensor, id(tensor)

        def forget(dead: ref[Tensor]) -> None:
            if key in by_tensor and by_tensor[key][0] is dead:
                del by_tensor[key]

        by_tensor[key] = (ref(tensor, forget), node)
        return node

    def start(self, tensor: Tensor, role: Role | None = None) -> Tensor:
        """Add a node with ``role`` for ``tensor``, from which a path starts, and return the tensor."""
        self.add(Node(Start, (), {}, tensor.shape, role=role), tensor)
        return tensor

    def move(self, out: Tensor, source: Tensor, role: Role | None = None) -> Tensor:
        """Add a node with ``role`` which says that ``out`` has the numbers of ``source`` in other places, and return ``out``."""
        node = self.of(source)
        if out is not source and node is not None:
            self.add(Node(Move, (node,), {}, out.shape, role=role), out)
        return out


@dataclass(eq=False)
class _PlacedNode(Node):
    mark: Place = field(default_factory=Place)


@dataclass
class RuleBlock:
    """A block of code under a backward rule. ``unruled``: names of functions for which the rule says nothing, that signals passed by
    ordinary gradient.
    """

    rule: Rule
    unruled: set[str] = field(default_factory=set)


class OwnCode:
    """A recorder for the forward and backward passes of a user's own code, one for each thread: a
    :class:`explainers.autograd.recorder.Recorder`.
    """

    double = entered = single_head = is_differentiated_again = False
    is_differentiated = is_own_code = True
    attend_by_rows: AttendByRows | None = None
    read_map: ReadMap | None = None
    operand_signals: dict[Reader, Tensor | None] | None = None
    position = 0
    insides = None

    def __init__(self) -> None:
        self.nodes: Nodes = _Nodes()
        self.blocks: list[RuleBlock] = []
        self.saved = LongLivedValues()
        self._weights = WeakTensorKeyDictionary()  # tensors that were computed of weights alone, and leaves that were used as weights

    # --- blocks -------------------------------------------------------------------------------------------------------

    @property
    def rule(self) -> Rule:
        """The backward rule of the innermost :meth:`block` that is open; outside of all blocks, the ordinary gradient."""
        return self.blocks[-1].rule if self.blocks else ORDINARY

    @contextmanager
    def block(self, rule: Rule) -> Iterator[RuleBlock]:
        """Open a context in which backward passes follow ``rule``; it yields the :class:`RuleBlock`."""
        block = RuleBlock(rule)
        with nullcontext() if self.blocks else OwnCodeMode(self):
            self.blocks.append(block)
            try:
                yield block
            finally:
                self.blocks.pop()

    # --- what is on the path ------------------------------------------------------------------------------------------

    def active(self, value: Any) -> bool:
        """Return whether ``value`` is a tensor on the path of the input; weights and other constants are not."""
        return isinstance(value, Tensor) and self.nodes.of(value) is not None

    def admit(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...] | None:
        """Examine the arguments of a call of ``func``, and start a path at those that need a gradient and are no weights. Return the
        positional arguments if any argument is on a path, else None.
        """
        if func is torch.einsum and isinstance(args[-1], list | tuple) and isinstance(args[0], str):
            args = (args[0], *args[-1])
        place = int(func is torch.einsum and isinstance(args[0], str))  # its equation stands in front
        data, tensors = args[place] if len(args) > place else None, list(tensors_in((*args, *kwargs.values())))
        on_path = False
        for tensor in tensors:
            if self.nodes.of(tensor) is not None:
                on_path = True
            elif tensor.requires_grad and not self._is_weight(tensor):
                if tensor.is_leaf and tensor is not data and func in _WEIGHING:
                    self._weights[tensor] = True
                    continue
                self._watch_opaque(tensor)
                self.nodes.start(tensor)
                on_path = True
        if on_path or func not in _OF_DATA or not isinstance(data, Tensor) or data.requires_grad or not data.is_floating_point():
            return args if on_path else None
        if any(tensor.requires_grad for tensor in tensors):
            return (
                *args[:place],
                self.nodes.start(data.view_as(data)),
                *args[place + 1 :],
            )  # in this call alone: elsewhere it may be a constant
        return None

    def _is_weight(self, tensor: Tensor) -> bool:
        return isinstance(tensor, nn.Parameter) or tensor in self._weights

    def made_of_weights(self, func: Any, out: Any) -> None:
        """Record ``out``, the output of a call of ``func`` whose arguments do not depend on the input: as a weight, or if embeddings were
        looked up, as a start of a path.
        """
        for tensor in tensors_in(out):
            if tensor.requires_grad and self.nodes.of(tensor) is None and not isinstance(tensor, nn.Parameter):
                if func in (F.embedding, F.embedding_bag):
                    self.nodes.start(tensor)
                else:
                    self._weights[tensor] = True

    def _watch_opaque(self, tensor: Tensor) -> None:
        """Watch ``tensor`` if an autograd function made it, because the calls inside that function were not recorded: a signal passes it by
        the function's own gradient, and its name is reported. Does nothing for other tensors, such as those of scripted code. Raises
        ExplainerError for gradient checkpointing.
        """
        function = getattr(type(tensor.grad_fn), "_forward_cls", None)
        if function is CheckpointFunction:
            raise ExplainerError(_CHECKPOINT)
        if function is not None:
            self.watch(tensor, f"{function.__name__} (an autograd function)")

    # --- what runs ----------------------------------------------------------------------------------------------------

    def run(self, operator: type[Operator], *arguments: Any, role: Role | None = None) -> Tensor:
        """Apply ``operator`` to its ``arguments``, append it with its ``role`` as a node to the list of recorded operators, and return the
        output tensor.
        """
        is_path, place = tuple(self.active(a) for a in arguments), Place()
        out = replay(operator, arguments, is_path, place, self)
        tensors = [(a, path) for a, path in zip(arguments, is_path, strict=True) if isinstance(a, Tensor)]
        inputs = tuple(self.nodes.of(a) if path else None for a, path in tensors)
        names = argument_names(operator)
        settings = {name: a for name, a, path in zip(names, arguments, is_path, strict=True) if not path}
        # What lies after a linear map is asked for no more, and would be held as long as what came of it.
        node = _PlacedNode(operator, inputs, settings, out.shape, role=role, mark=place)
        if operator.keeps_operands and role == Role.SCORES:
            node.operands = tuple(a for a, _ in tensors)
        self._place(node)
        if operator is LinearMap and role != Role.WEIGHTS and settings["forward"] is matrix_products.linear:
            node.inputs, node.settings = (), {"forward": matrix_products.linear}
        if any(is_path):
            self.nodes.add(node, out)
        elif out.requires_grad:
            self._weights[out] = True
        return out

    def _place(self, node: Node) -> None:
        """Set the roles of earlier operators from what the new ``node`` shows about them: a softmax makes attention weights, a linear map
        makes queries, keys or values, or linear attention is divided by its normaliser.
        """
        softmaxes = []
        if node.operator in (MatMul, Mul) or (node.operator is LinearMap and node.role != Role.WEIGHTS):
            softmaxes = _nearest_of(Softmax, [each for each in node.paths if each.role == Role.WEIGHTS])
        products_of_keys = {id(scores) for softmax in softmaxes if (scores := scores_of(softmax)) is not None}
        for softmax in softmaxes:
            softmax.mark.is_attention |= node.operator is not LinearMap or bool(products_of_keys)
        shown = [softmax for softmax in softmaxes if softmax.mark.is_attention] + ([] if node.operator is Softmax else [node])
        for product in (product for each in shown for product in products_of_attention(each)):
            if isinstance(product, _PlacedNode):
                product.mark.is_attention = True
        if node.operator in (MatMul, LinearAttention):
            for projection in _nearest_of(LinearMap, node.inputs, products_of_keys):
                projection.mark.is_projection = True
        if node.operator is Normaliser:
            for attention in _nearest_of(LinearAttention, node.inputs[:1]):
                attention.mark.is_normalised = True

    def record_calls(self) -> OwnCodeMode:
        """Return a mode in which torch calls are recorded."""
        return OwnCodeMode(self)

    # --- the rest of a recorder ---------------------------------------------------------------------------------------

    @property
    def starts(self) -> list[Tensor]:
        """Return an empty list: a user's own passes need no list of the tensors from which paths start."""
        return []

    def before_write(self, tensor: Tensor) -> None:
        """Note that ``tensor`` is about to be overwritten, so that a saved copy is kept."""
        self.saved.before_write(tensor)

    def keep(self, ctx: Any, *tensors: Tensor | None) -> None:
        """Raise NotImplementedError, whatever the ``tensors``: these passes use :class:`explainers.autograd.replay.OperatorView`."""
        raise NotImplementedError

    def recompute(self, value: Tensor, function: Callable[..., Tensor], *arguments: Any) -> None:
        """Do nothing: a user's own pass keeps its values and computes none again."""

    def ordinary_gradient(self) -> AbstractContextManager[None]:
        """Return a context that changes nothing."""
        return nullcontext()

    def as_chosen(self, out: Any, given: Iterable[Tensor]) -> Any:
        """Return ``out``, the result of a call on the tensors ``given``, unchanged."""
        return out

    def as_constant(self, value: Tensor) -> Tensor:
        """Return ``value``, numbers that were taken out of the gradient, unchanged."""
        return value

    def accumulated_rounding(self, position: int) -> float:
        """Raise NotImplementedError for any operator: rounding is needed for relevance alone, which such blocks do not carry."""
        raise NotImplementedError

    def note_mean(self, node: Node, operand: int) -> None:
        """Note that a ``node``, a sum, takes off the mean of a normalisation that is written out: its operand with this index."""
        if isinstance(node, _PlacedNode):
            node.mark.mean_operand = operand

    def mean_operand(self, position: int) -> int | None:
        """Raise NotImplementedError: these passes use :class:`explainers.autograd.replay.OperatorView`."""
        raise NotImplementedError

    def sample_axis(self, position: int, shape: Size) -> SampleAxis | None:
        """Raise NotImplementedError: samples are told apart for relevance alone, which such blocks do not carry."""
        raise NotImplementedError

    def is_projection(self, position: int) -> bool:
        """Raise NotImplementedError for any operator: these passes use :class:`explainers.autograd.replay.OperatorView`."""
        raise NotImplementedError

    is_normalised = is_of_attention = is_projection

    def add_bias(self, signal: Tensor, bias: Tensor, position: int | None = None) -> None:
        """Ignore the bias term ``signal`` times ``bias``: a user's own backward passes keep no account of biases."""

    def watch(self, tensor: Tensor, name: str, fits: Callable[[Rule], bool] | None = None) -> None:
        """Note ``name`` in the block in which a signal passes ``tensor`` by ordinary gradient under a rule that it does not fit."""

        def passes(signal: Tensor | None) -> None:
            rule = self.rule
            if self.blocks and signal is not None and not (rule.is_ordinary if fits is None else fits(rule)) and bool(signal.any()):
                self.blocks[-1].unruled.add(name)

        if tensor.requires_grad:
            tensor.register_hook(passes)


def _nearest_of(operator: type[Operator], starts: Iterable[Node | None], but: Container[int] = ()) -> list[_PlacedNode]:
    """Return the nearest nodes of ``operator`` among the ancestors of ``starts``, except those whose ids are in ``but``."""

    def ends(node: Node) -> bool:
        return node.operator is operator and id(node) not in but

    return [node for node in ancestors(starts, until=ends) if ends(node) and isinstance(node, _PlacedNode)]


class OwnCodeMode(TorchFunctionMode):
    """A function mode that sends the torch calls of a block through the operators of ``recorder``."""

    def __init__(self, recorder: OwnCode) -> None:
        super().__init__()
        self._recorder = recorder

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        recorder, name, kwargs = self._recorder, getattr(func, "__name__", ""), kwargs or {}
        if name == "__get__" and not isinstance(value := func(*args), Tensor):
            return value  # a shape, a type, a device
        written = args[0] if args and isinstance(args[0], Tensor) and writes_into_first(func, args, kwargs) else None
        if written is not None:
            recorder.before_write(written)
        if not torch.is_grad_enabled() or func in _BACKWARD:
            return func(*args, **kwargs)
        admitted = recorder.admit(func, args, kwargs)
        if admitted is None:
            of_weights = any(tensor.requires_grad for tensor in tensors_in((*args, *kwargs.values())))
            out = func(*args, **kwargs)
            if of_weights:
                recorder.made_of_weights(func, out)
            return out
        with _saving(recorder):
            out = self._call(func, admitted, kwargs)
        given = (*args, *kwargs.values())
        kind = Move if name in TRANSPARENT or name in ("cat", "concat", "concatenate", "stack") else Unruled
        for tensor in tensors_in(out):
            if tensor.requires_grad and recorder.nodes.of(tensor) is None:
                note(recorder, tensor, kind, given, name=name)
        if written is not None and written._is_view() and written._base is not None and written._base.requires_grad:
            note(recorder, written._base, Move, (written._base, *given), role(recorder, written._base), name)
        return out

    def _call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        handler = handler_for(self._recorder, func, args, kwargs)
        if handler is None or kwargs.get("out") is not None:
            return call_through(self._recorder, func, args, kwargs)
        return handler(self._recorder, func, *args, **{key: value for key, value in kwargs.items() if key != "out"})


_BACKWARD = (torch.autograd.grad, torch.autograd.backward, Tensor.backward)


def _saving(recorder: OwnCode) -> saved_tensors_hooks:
    """Return hooks that protect tensors saved in this call from writes, for the pass of ``recorder``. Raises ExplainerError in a
    checkpoint, which saves in its own way.
    """
    top = torch._C._autograd._top_saved_tensors_default_hooks(False)
    if top is not None and "_checkpoint_hook" in getattr(top[0], "__qualname__", ""):
        raise ExplainerError(_CHECKPOINT)
    return recorder.saved.hooks


_OF_THREAD = threading.local()


def own_code() -> OwnCode:
    """Return the recorder of this thread."""
    if not hasattr(_OF_THREAD, "recorder"):
        _OF_THREAD.recorder = OwnCode()
    recorder: OwnCode = _OF_THREAD.recorder
    return recorder
