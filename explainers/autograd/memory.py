"""Estimates of the memory that a recording takes, made before it: what does not fit is refused, or made in smaller pieces.

A recording keeps what its operators need for the way back. The bytes for one input are measured, on a recording of that input alone, where
a generous estimate from the model's shape says that it might matter; so an ordinary request costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from explainers.autograd.recomputation import reason_against_recomputation
from explainers.autograd.recording import Recording
from explainers.autograd.rowwise_attention import MIN_WEIGHTS, WEIGHTS_AT_ONCE
from explainers.errors import MemoryShortageError
from explainers.models.eval_mode import with_gradients
from explainers.models.memory import free_memory
from explainers.models.model import Model
from explainers.models.tokens import row_length

MAX_FREE_MEMORY_SHARE = 0.9  # of the free memory that a request may take
OVERHEAD_FACTOR = 1.8  # what signals, kernels and the allocator take beyond what is kept: 1.1 to 1.65 measured on vit_base_patch16_224
FLOAT64_OVERHEAD = 1.5  # so many times more again where relevance is followed in float64, than in float32: measured on the same model
SAFETY_FACTOR = 3  # so many times as much free memory as the generous estimate says is no reason to measure
#: From how many attention weights of one block on, those of all heads, a text is recorded with recomputation from the start.
LONG_ROW_WEIGHTS = 2**24
#: Tensors of the width of the tokens, and of the size of the attention weights, that a block keeps at most.
_OF_WIDTH, _OF_WEIGHTS = 48, 6


def rows_of(model: Model, tensors: Mapping[str, Tensor]) -> int:
    """Return the number of samples in ``tensors``, a batch of inputs of ``model``."""
    return max(len(tensor) for name, tensor in tensors.items() if model.is_sample(name))


def estimate_of_one(model: Model, tensors: Mapping[str, Tensor]) -> int:
    """Estimate the bytes that a recording of ``model`` keeps at most for one sample of ``tensors`` (inputs by name), from the model's
    shape: blocks, tokens, width and heads.
    """
    length, width = _shape(model, tensors)
    heads = int(model.details.get("heads") or 1)
    return len(model.blocks) * (_OF_WIDTH * length * width + _OF_WEIGHTS * heads * length**2) * model.dtype.itemsize


def bytes_recomputed(model: Model, tensors: Mapping[str, Tensor]) -> int:
    """Estimate the bytes that a recording of ``model`` takes for one sample of ``tensors`` (inputs by name), if activations are computed
    again block by block: the input and the output of each block, and all that one block keeps. Of fused attention of long rows, one block
    keeps the weights of some queries at a time.
    """
    length, width = _shape(model, tensors)
    weights = int(model.details.get("heads") or 1) * length**2
    if weights >= MIN_WEIGHTS and _has_fused_attention(model):
        weights = WEIGHTS_AT_ONCE
    of_a_block = (_OF_WIDTH * length * width + _OF_WEIGHTS * weights) * model.dtype.itemsize
    return int(2 * len(model.blocks) * length * width * model.dtype.itemsize + OVERHEAD_FACTOR * of_a_block)


def has_long_rows(model: Model, tensors: Mapping[str, Tensor]) -> bool:
    """Return whether ``model`` reads texts in ``tensors`` (inputs by name) of so many tokens, by fused attention, that a recording of them
    computes its activations again from the start, to take hardly more memory than the model itself.
    """
    if not model.reads_text or not _has_fused_attention(model) or reason_against_recomputation(model) is not None:
        return False
    return int(model.details.get("heads") or 1) * _shape(model, tensors)[0] ** 2 >= LONG_ROW_WEIGHTS


def _has_fused_attention(model: Model) -> bool:
    """Return whether ``model``, of transformers, says that it attends by torch's fused function."""
    return getattr(getattr(model.module, "config", None), "_attn_implementation", None) == "sdpa"


def measure_one(model: Model, tensors: Mapping[str, Tensor]) -> int:
    """Run the model on one sample of the tensors, and return the bytes that its recording keeps; measured once for each shape of input."""
    first = {name: tensor[:1] if model.is_sample(name) else tensor for name, tensor in tensors.items()}
    key = ("bytes of a recording", tuple(sorted((name, tuple(tensor.shape)) for name, tensor in first.items())))
    return model.cached(key, lambda: _measure(model, first))


def _measure(model: Model, tensors: Mapping[str, Tensor]) -> int:
    with with_gradients():
        recording = _MeasuredRecording(model, tensors)
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.module.parameters()}
    return sum(size for address, size in recording.kept_sizes().items() if address not in weights)


class _MeasuredRecording(Recording):
    """A recording that reports how many bytes it keeps for the backward pass."""

    _saved: dict[int, int]

    def _end_forward(self) -> None:
        self._saved = self.forward_pass.saved.sizes()
        super()._end_forward()

    def kept_sizes(self) -> dict[int, int]:
        """Return the bytes kept, by memory address: of the tensors saved for the backward pass, and of those that the
        list of nodes holds.
        """
        assert self.structure  # which lets go of what is not asked for
        blocks = [tensor for block in self.nodes.blocks for tensor in (block.input, block.output, block.passed_on)]
        held = [tensor for node in self.nodes.ran for tensor in (*node.operands, node.output)]
        memory = [tensor.untyped_storage() for tensor in (*blocks, *held) if tensor is not None]
        return self._saved | {storage.data_ptr(): storage.nbytes() for storage in memory}


def rows_at_once(
    model: Model,
    tensors: Mapping[str, Tensor],
    most: int,
    least: int,
    *,
    propagated: bool = False,
    recomputed: bool = False,
    apart: int = 0,
    times: float = 1.0,
) -> int:
    """Return the number of rows, from ``least`` to ``most``, that a recording of ``model`` with inputs like ``tensors`` can have in free
    memory.

    propagated  whether it is a :class:`explainers.autograd.forward_decomposition.ForwardDecomposition`, which keeps nothing for a backward
                pass
    recomputed  whether its activations are computed again: see :func:`bytes_recomputed`
    apart       bytes needed in addition to the rows
    times       the size of its numbers relative to the model's own: 2 for float64 instead of float32

    Raises MemoryShortageError, with both figures and what to send instead, if not even the ``least`` fit.
    """
    estimate = bytes_recomputed if recomputed and not propagated else estimate_of_one
    free, most_of_one = free_memory(model.device), times * estimate(model, tensors)
    if free is None or (most * most_of_one + apart) * SAFETY_FACTOR <= free:
        return most
    too_large = most_of_one > SAFETY_FACTOR * SAFETY_FACTOR * free  # not even measuring fits
    of_a_row = most_of_one if too_large or (recomputed and not propagated) else times * _bytes_of_a_row(model, tensors, propagated)
    fit = max(0, int((MAX_FREE_MEMORY_SHARE * free - apart) / of_a_row))
    if fit >= least:
        return min(fit, most)
    samples = rows_of(model, tensors)
    is_guessed = too_large and (propagated or not recomputed)
    needed = most_of_one / SAFETY_FACTOR**2 if is_guessed else least * of_a_row + apart  # with less free it is refused again
    fewer = fit * samples // least  # of the inputs
    remedy = f"send at most {fewer} at once" if fewer else "choose a smaller model, a smaller input or another method, or free memory"
    raise MemoryShortageError(
        f"This needs about {(least * of_a_row + apart) / 1e9:.2g} GB of memory for {samples} {'input' if samples == 1 else 'inputs'} by "
        f"{model.name}, and {free / 1e9:.2g} GB are free ({model.device.type}): {remedy}.",
        needed=int(needed) if samples == 1 else None,
    )


def check_memory(
    model: Model, tensors: Mapping[str, Tensor], times: float = 1.0, *, recorded: bool = True, recomputed: bool = False
) -> None:
    """Raise MemoryShortageError if a pass of ``model`` over all inputs in ``tensors`` does not fit into free memory: a recording, or with
    ``recorded`` false a pass that keeps nothing for a backward pass. The other arguments are as in :func:`rows_at_once`.
    """
    rows = rows_of(model, tensors)
    rows_at_once(model, tensors, rows, rows, times=times, propagated=not recorded, recomputed=recomputed)


def _bytes_of_a_row(model: Model, tensors: Mapping[str, Tensor], propagated: bool) -> float:
    """Estimate the bytes that one more row of ``tensors`` takes in ``model``, in a recording or (``propagated``) in a forward
    decomposition.
    """
    kept = measure_one(model, tensors)
    if not propagated:
        return OVERHEAD_FACTOR * kept
    length, width = _shape(model, tensors)  # the input and output of every block, and what one block works with
    return 2 * len(model.blocks) * length * width * model.dtype.itemsize + 4 * kept / len(model.blocks)


def _shape(model: Model, tensors: Mapping[str, Tensor]) -> tuple[int, int]:
    """Return the number of tokens and their width in a model that is given these tensors."""
    layout = model.layout_of(tensors)
    length = row_length(tensors, layout.prefix) if layout.grid is None else layout.image_tokens
    return int(length), int(model.details.get("width") or 1024)
