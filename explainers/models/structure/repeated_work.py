"""Work that a trial pass need not do again: layers on two equal samples run once, and blocks that ran give what they gave. The module is
left as it was.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.hooks import RemovableHandle

from explainers.errors import is_memory_shortage
from explainers.models.outputs import Forward
from explainers.models.structure.blocks import trial
from explainers.models.structure.hooks import in_this_thread
from explainers.models.structure.spans import Span

#: How many bytes of what blocks give are kept.
_MAX_KEPT_BYTES = 256 * 2**20
#: Layers whose first argument has samples in its first axis, and whose results for one sample depend on that sample alone; with the number
#: of axes without which the first is none of samples.
_LAYERS: dict[Callable[..., Any], int] = {F.linear: 2, F.conv1d: 3, F.conv2d: 4, F.conv3d: 5}


class EqualHalves(TorchFunctionMode):
    """A mode of torch in which a linear layer, a convolution or attention on a batch whose halves are equal runs on the first half alone.
    The results are the same: the second half of each is a copy of the first.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        batches = _batches_of(func, args, kwargs)
        if batches == 0 or not all(_are_equal(each) for each in args[:batches]):
            return func(*args, **kwargs)
        half = func(*(each[: len(each) // 2] for each in args[:batches]), *args[batches:], **kwargs)
        return torch.cat([half, half])


def _batches_of(func: Any, args: Any, kwargs: Mapping[str, Any]) -> int:
    """Return how many of the first arguments of a layer are batches; 0 if the call is none of a layer that can run on a part of them."""
    if func is F.scaled_dot_product_attention:
        mask, dropout = (*args[3:5], None, None)[:2]
        is_plain = mask is None and kwargs.get("attn_mask") is None and not dropout and not kwargs.get("dropout_p")
        is_plain = is_plain and len(args) >= 3 and all(each.dim() == 4 for each in args[:3])
        return 3 if is_plain and len({len(each) for each in args[:3]}) == 1 else 0
    axes = _LAYERS.get(func)
    return int(axes is not None and bool(args) and args[0].dim() >= axes)


def _are_equal(batch: Tensor) -> bool:
    half = len(batch) // 2
    return len(batch) == 2 * half > 0 and torch.equal(batch[:half], batch[half:])


class RecordedBlocks:
    """The outputs of a model's ``blocks`` in one pass, by which what follows them runs again without running them."""

    def __init__(self, blocks: Sequence[nn.Module]) -> None:
        self._blocks = list(dict.fromkeys(blocks))
        self._outputs: dict[nn.Module, list[Any]] = {block: [] for block in self._blocks}
        self._bytes = 0
        self._is_known = not any(isinstance(block, Span | torch.jit.ScriptModule) for block in self._blocks)

    def hooks(self) -> list[RemovableHandle]:
        """Return the handles of hooks that record the outputs of a pass in this thread."""
        if not self._is_known:
            return []
        return [block.register_forward_hook(in_this_thread(self._keep)) for block in self._blocks]

    def _keep(self, block: nn.Module, args: Any, output: Any) -> None:
        self._bytes += sum(each.nbytes for each in tree_leaves(output) if isinstance(each, Tensor))
        if self._bytes > _MAX_KEPT_BYTES:
            self._is_known = False
            self._outputs = {each: [] for each in self._blocks}
        if self._is_known:
            self._outputs[block].append(_copied(output))  # the pass may go on to write over it

    def give(self, module: nn.Module, run: Forward, tensors: Mapping[str, Tensor], answers: Tensor) -> bool:
        """Return whether ``run``, which returns the logits of ``module``, gives for ``tensors`` the very ``answers`` of the recorded pass
        where the blocks give what they gave then; not so where they also leave something else for what follows.
        """
        if not self._is_known:
            return False
        try:
            with self.replayed(), trial(module), EqualHalves():
                return torch.equal(run(tensors), answers)
        except Exception as error:
            if is_memory_shortage(error):
                raise
            return False  # the blocks leave more than their outputs

    @contextmanager
    def replayed(self) -> Iterator[None]:
        """Open a context in which the blocks, called in this thread in the same order, return copies of the recorded outputs."""
        with ExitStack() as stack:
            for block in self._blocks:
                stack.enter_context(_instead(block, iter(self._outputs[block])))
            yield


def _copied(output: Any) -> Any:
    return tree_map(lambda each: each.clone() if isinstance(each, Tensor) else each, output)


@contextmanager
def _instead(block: nn.Module, outputs: Iterator[Any]) -> Iterator[None]:
    """Let calls of ``block`` in this thread return copies of the ``outputs``, one by one, inside this context."""
    as_written, thread, attributes = block.forward, threading.get_ident(), vars(block)
    before = attributes.get("forward")

    def forward(*args: Any, **kwargs: Any) -> Any:
        if threading.get_ident() != thread:
            return as_written(*args, **kwargs)
        return _copied(next(outputs))

    attributes["forward"] = forward
    try:
        yield
    finally:
        with suppress(KeyError):
            del attributes["forward"]
        if before is not None:
            attributes["forward"] = before
