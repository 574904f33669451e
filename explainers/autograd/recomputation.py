"""Activations of blocks that are not kept but computed again on the way back, block by block: activation checkpointing.

The graph of a recording is made as usual. When a block has run, the numbers that its operators kept are released; when the first of them is
read on the way back, the block runs once more on its input, and what it keeps then stands in for what it kept before. One block's numbers
are in memory at a time. So signals are those of an ordinary recording, at the price of one more forward pass for each backward pass; what
is read inside of the blocks, such as attention maps, is not there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

import torch
from torch import Tensor, nn

from explainers.autograd.recorder import AttendByRows
from explainers.autograd.saved_values import KeptRecord
from explainers.autograd.structure.attention_plan import AttentionPlan
from explainers.autograd.structure.model_structure import ModelStructure
from explainers.autograd.structure.token_links import TokenLinks, links_in
from explainers.errors import ExplainerError, MemoryShortageError, ran_out_of_memory
from explainers.models.model import Model
from explainers.models.passes import is_sparing_activations

#: How far the output of a block that runs again may be from its first, relative to the largest number: kernels may add in another order.
SAME_OUTPUT_TOLERANCE = 1e-3
#: What transformers call the keys and values that a block keeps for the next pass.
_CACHES = ("past_key_values", "past_key_value", "layer_past")
_CHANGES = (
    "A block of this model gives another output when it runs again on the same input (it draws at random, or keeps a cache), so that its "
    "activations cannot be recomputed to save memory: send a smaller input, or free memory."
)
_IS_INSIDE = "is read inside the blocks, whose activations are computed again on the way back, since memory is short, and not kept"


class ReadsInsideError(ExplainerError):
    """Raised if a method reads a value inside a block while the activations inside blocks are not kept."""


@dataclass(eq=False)
class BlockRun:
    """One run of a block: what it takes to run it again.

    number    the index of the run among those of all blocks
    module    the block; ``args`` and ``kwargs`` are its arguments
    x         (B, S, D): the tokens among its arguments
    position  the number of operators applied before it
    output    (B, S, D): its output, once it has run
    """

    number: int
    module: nn.Module
    args: Any
    kwargs: Any
    x: Tensor
    position: int
    output: Tensor | None = None


class RunAgain(Protocol):
    """A function that runs the block of ``run``, a call of a recorded pass, again and computes what was inside it."""

    def __call__(self, run: BlockRun) -> tuple[Tensor, Sequence[KeptRecord]]:
        """Run the block of ``run`` again; return its output and the values that its operators kept, in order."""


class Recomputation:
    """The blocks of one recording whose values are computed again; ``run_again`` runs one of them.

    running           the block that runs now, if it is one to run again
    attend_by_rows    as in :class:`explainers.autograd.recorder.Recorder`
    products_by_rows  the positions of the products of attention that it computed, which are on no node
    has_single_head   as in the recording
    """

    def __init__(self, run_again: RunAgain, attend_by_rows: AttendByRows | None, has_single_head: bool) -> None:
        self._run_again, self.attend_by_rows, self.has_single_head = run_again, attend_by_rows, has_single_head
        self.products_by_rows: set[int] = set()
        self.running: BlockRun | None = None
        self._current: tuple[BlockRun, Sequence[KeptRecord]] | None = None

    def reader(self, run: BlockRun, count: int) -> Callable[[int], Tensor]:
        """Return a function from an index to the value at this index, among the ``count`` values that the operators of the block run
        ``run`` kept; reading one runs the block again if necessary.
        """
        return lambda place: self._values_of(run, count)[place].read()

    def release(self) -> None:
        """Release the values of the block that ran last."""
        self._current = None

    def _values_of(self, run: BlockRun, count: int) -> Sequence[KeptRecord]:
        if self._current is None or self._current[0] is not run:
            self._current = None  # first, so that two blocks are never in memory
            assert run.output is not None
            try:
                output, kept = self._run_again(run)
            except Exception as error:
                if ran_out_of_memory(error):
                    raise
                raise MemoryShortageError(_CHANGES) from error
            if len(kept) != count or not _are_same(run.output.detach(), output.detach()):
                raise MemoryShortageError(_CHANGES)
            self._current = (run, kept)
        return self._current[1]


def _are_same(first: Tensor, second: Tensor) -> bool:
    """Return whether ``first`` and ``second``, two outputs of a block on the same input, are the same but for the order in which kernels
    add.
    """
    tolerance = max(SAME_OUTPUT_TOLERANCE, 4 * torch.finfo(first.dtype).eps) * first.abs().max()
    return first.shape == second.shape and bool((first - second).abs().max() <= tolerance)


def without_cache(arguments: Any) -> Any:
    """Return the arguments of a block without the cache of keys and values that it writes into, which is empty in a first pass."""
    args, kwargs = arguments
    return args, {name: None if name in _CACHES else value for name, value in kwargs.items()}


def recomputes_here(model: Model) -> bool:
    """Return whether recordings of a model compute activations again here: inside :func:`explainers.models.passes.sparing_memory`, where
    the model allows it.
    """
    return is_sparing_activations() and reason_against_recomputation(model) is None


def reason_against_recomputation(model: Model) -> str | None:
    """Return why the blocks of a model cannot be run again one by one; None if they can."""
    if not model.block_kind.is_row or model.block_kind.in_loop:
        return f"The blocks of {model.name} take more than one row of tokens, so that they cannot be run again one by one to save memory."
    if any(torch.is_autocast_enabled(device) for device in ("cpu", "cuda")):
        return "Under torch.autocast activations cannot be recomputed to save memory: convert the weights instead."
    return None


class NotKept(tuple[Any, ...]):
    """An empty tuple in place of signals inside blocks that were not requested: reading any of them raises ReadsInsideError, since the
    activations there are not kept.
    """

    def __getitem__(self, place: Any) -> Any:
        raise ReadsInsideError(f"attention {_IS_INSIDE}")

    def __iter__(self) -> Any:
        raise ReadsInsideError(f"attention {_IS_INSIDE}")


class OutsideOfBlocks(ModelStructure):
    """The structure of a model as far as it is known without the values inside its blocks; reading anything else raises
    :class:`ReadsInsideError`.
    """

    @property
    def _candidates(self) -> Any:
        raise ReadsInsideError(f"attention {_IS_INSIDE}")

    @property
    def _maps(self) -> Any:
        raise ReadsInsideError(f"attention {_IS_INSIDE}")

    @property
    def _sums(self) -> Any:
        raise ReadsInsideError(f"the residual stream after attention {_IS_INSIDE}")

    def _links(self, plan: AttentionPlan) -> list[TokenLinks]:
        """Return the links of the tokens of each block other than those of its attention."""
        return links_in(self._nodes, [None] * len(self._nodes.blocks), self._pull)

    @property
    def additions(self) -> NoReturn:
        """Raise :class:`ReadsInsideError`: what attention adds to the residual stream was not kept."""
        raise ReadsInsideError(f"what attention adds to the residual stream {_IS_INSIDE}")
