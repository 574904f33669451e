"""What a model's blocks call in a pass without gradients, and how one of these calls is changed.

Nothing in the module is patched: a function mode sees the torch calls, and hooks say which block is running.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Size, Tensor, nn
from torch.overrides import TorchFunctionMode

from explainers.autograd.recording import Recording
from explainers.errors import ExplainerError
from explainers.models.eval_mode import answering
from explainers.models.model import Model
from explainers.models.structure.hooks import in_this_thread, remove_hooks_after

PartKind = Literal["attention", "mlp", "other"]
KIND_WORDS: dict[PartKind, str] = {"attention": "attention", "mlp": "MLP", "other": "convolutions"}
CLOSE = 1e-3  # how far two passes may differ, relative to the largest number, to be of the same values
_SUMS = frozenset((torch.add, Tensor.add, Tensor.__add__, Tensor.__radd__, Tensor.add_, Tensor.__iadd__))
_IN_PLACE = frozenset((Tensor.add_, Tensor.__iadd__))


@dataclass(frozen=True)
class Part:
    """A part of a block that is added to the residual stream.

    block    the run of a block, counted from 0
    call     number of the sum that adds it, among the block's sums of two tensors in the shape of the stream, counted from 0
    operand  index, 0 or 1, of the part among that sum's two operands
    number   number of the part among the block's parts of its kind, counted from 0
    """

    block: int
    kind: PartKind
    call: int
    operand: int
    number: int = 0

    @property
    def name(self) -> str:
        """The name of the part for people, such as "block 1 attention"; blocks are counted from 1."""
        return f"block {self.block + 1} {KIND_WORDS[self.kind]}{f' {self.number + 1}' if self.number else ''}"


class BlockCalls(TorchFunctionMode):
    """A function mode that hands each torch call inside a model's blocks to :meth:`call`."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model
        self.block, self.sums = -1, 0
        self._stream: Size | None = None
        self._is_running = False

    def call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make the torch call ``func(*args, **kwargs)`` inside a block and return its result; subclasses change it here."""
        return func(*args, **kwargs)

    def sums_like_stream(self, func: Any, args: tuple[Any, ...]) -> bool:
        """Return whether the call ``func(*args)`` adds two tensors with as many numbers as the block's residual stream."""
        if func not in _SUMS or len(args) < 2 or self._stream is None:
            return False
        first, second = args[:2]
        tensors = isinstance(first, Tensor) and isinstance(second, Tensor)
        return tensors and first.shape == second.shape and first.numel() == self._stream.numel()

    @contextmanager
    def over_blocks(self) -> Iterator[None]:
        """Observe the calls of the model's blocks inside this context, in forward passes of the current thread; blocks are counted from 0
        again in each pass.
        """
        blocks = list(dict.fromkeys(self.model.blocks))  # a shared block runs several times
        handles = [block.register_forward_pre_hook(in_this_thread(self._begin), with_kwargs=True) for block in blocks]
        handles += [block.register_forward_hook(in_this_thread(self._end)) for block in blocks]
        with remove_hooks_after(handles), self:
            yield

    def _begin(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._stream = self.model.block_kind.stream_shape(args, kwargs)
        self.block, self.sums, self._is_running = self.block + 1, 0, True

    def _end(self, module: nn.Module, args: Any, output: Any) -> None:
        self._is_running = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.call(func, args, kwargs or {}) if self._is_running else func(*args, **(kwargs or {}))


class _Totals(BlockCalls):
    """A function mode that keeps, by block, the result of every sum of two tensors in the shape of the residual stream."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self.totals: dict[int, list[Tensor]] = {}

    def call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make the torch call ``func(*args, **kwargs)`` and return its result; keep a copy if the call is a sum in the shape of the
        residual stream.
        """
        total = func(*args, **kwargs)
        if self.sums_like_stream(func, args):
            self.totals.setdefault(self.block, []).append(total.detach().clone())  # the model may write into it
        return total


def find_parts(model: Model, tensors: Mapping[str, Tensor]) -> list[Part]:
    """Return the parts that each block of a model adds to its residual stream, found in one recorded and one plain pass over ``tensors``.
    Raises ExplainerError where a block has none that can be found.
    """
    recording = Recording(model, tensors)
    watch = _Totals(model)
    with answering(model.module), watch.over_blocks():
        model.forward(tensors)
    parts = list[Part]()
    for block, additions in enumerate(recording.structure.additions):
        totals, counts, at = watch.totals.get(block, []), dict[str, int](), 0
        for addition in additions:
            while at < len(totals) and not _is_close(totals[at], addition.total.detach()):
                at += 1
            if at == len(totals):
                break
            kind: PartKind = "attention" if addition.has_attention else "mlp" if addition.has_linear else "other"
            parts.append(Part(block, kind, at, addition.part, counts.get(kind, 0)))
            counts[kind], at = counts.get(kind, 0) + 1, at + 1
        if not counts:
            raise ExplainerError(
                f"What block {block + 1} of {model.name} adds to its residual stream cannot be found, so no part can be replaced."
            )
    return parts


def _is_close(first: Tensor, second: Tensor) -> bool:
    return first.shape == second.shape and float((first - second).abs().max()) <= CLOSE * float(second.abs().max())


class ChangedParts(BlockCalls):
    """A torch function mode that replaces the output of each part of ``parts`` by ``change(part, output)``; if that is None, the output
    stays.
    """

    def __init__(self, model: Model, parts: Iterable[Part], change: Callable[[Part, Tensor], Tensor | None]) -> None:
        super().__init__(model)
        self._parts = {(part.block, part.call): part for part in parts}
        self._change = change

    def call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make the torch call ``func(*args, **kwargs)`` and return its result. If the call is the sum that adds one of the parts to the
        residual stream, the part is replaced first.
        """
        if not self.sums_like_stream(func, args):
            return func(*args, **kwargs)
        part = self._parts.get((self.block, self.sums))
        self.sums += 1
        if part is None:
            return func(*args, **kwargs)
        operands = list(args)
        given = operands[part.operand]
        new = self._change(part, given)
        if new is not None and func in _IN_PLACE and part.operand == 0:
            given.copy_(new)  # the sum is written there
        elif new is not None:
            operands[part.operand] = new
        return func(*operands, **kwargs)
