"""The steps by which an explanation gets along with less memory: fewer inputs at a time, then activations computed again, then words.

Memory is estimated before it is taken (:mod:`explainers.autograd.memory`). Where the estimate says that a batch does not fit, or was wrong,
the batch is halved down to single inputs. An input that does not fit either is explained with the activations inside its blocks computed
again on the way back (:mod:`explainers.autograd.recomputation`). Where that fails too, an error says how many bytes it needs and how many
are free. Maps that are done stay done, and nothing of a failed step stays on the device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from torch import Tensor

from explainers.autograd.memory import OVERHEAD_FACTOR, bytes_recomputed, estimate_of_one
from explainers.autograd.recomputation import reason_against_recomputation
from explainers.errors import MemoryShortageError
from explainers.models.memory import free_memory, total_memory
from explainers.models.model import Model
from explainers.models.passes import Passes, Ran, attempt

#: Explains some of the inputs: the first of them, their number, and whether activations are computed again.
ExplainPart = Callable[[int, int, bool], None]


def explain_in_steps(model: Model, tensors: Mapping[str, Tensor], count: int, explain_part: ExplainPart) -> None:
    """Explain all of ``count`` inputs of ``model``, the samples of ``tensors``, by calls ``explain_part(first, number, recomputed)`` for
    parts that fit into memory. Returns None.

    ``first`` and ``number`` are the part of the inputs, and ``recomputed`` is true if the activations of the model's blocks shall be
    computed again on the way back, to save memory. A part whose memory ran out is explained again in smaller parts, at last with
    ``recomputed``. Raises MemoryShortageError, with the bytes that are needed and free, where one input does not fit in any way.
    """
    recomputed = False

    def explain_some(first: int, number: int) -> None:
        nonlocal recomputed
        if number > 1:
            explain_part(first, number, False)
            return
        if not recomputed and isinstance(attempt(partial(explain_part, first, 1, False)), Ran):
            return
        if (reason := reason_against_recomputation(model)) is not None:
            raise MemoryShortageError(f"Memory ran out for 1 input by {model.name}. {reason} {words_of_kept(model, tensors)}")
        recomputed = True
        tried = attempt(partial(explain_part, first, 1, True))
        if not isinstance(tried, Ran):
            raise tried if isinstance(tried, MemoryShortageError) else MemoryShortageError(words_of_shortage(model, tensors))

    try:
        for _ in Passes(count).run(count, explain_some):
            pass
    except MemoryShortageError as error:
        raise error from None


def words_of_shortage(model: Model, tensors: Mapping[str, Tensor]) -> str:
    """Return a sentence with the bytes that one input needs at least, and those that are free, and what to do."""
    needed, free, total = bytes_recomputed(model, tensors), free_memory(model.device), total_memory(model.device)
    of_all = "" if free is None or total is None else f", and {gigabytes(free)} of {gigabytes(total)} are free"
    return (
        f"Memory ran out for 1 input by {model.name}, even with the activations of its blocks computed again on the way back: this needs "
        f"about {gigabytes(needed)} ({model.device.type}){of_all}. Choose a smaller model, a smaller input or another method, or free "
        "memory."
    )


def words_of_kept(model: Model, tensors: Mapping[str, Tensor]) -> str:
    """Return a sentence with the bytes that one input needs if all activations are kept, those that are free, and what to do."""
    needed, free = OVERHEAD_FACTOR * estimate_of_one(model, tensors), free_memory(model.device)
    there = "" if free is None else f", and {gigabytes(free)} are free"
    return (
        f"Kept, all activations take up to {gigabytes(needed)} ({model.device.type}){there}. Leave this method out, choose a smaller "
        "model or a smaller input, or free memory."
    )


def gigabytes(count: float) -> str:
    """Return a number of bytes in GB, with two digits."""
    return f"{count / 1e9:.2g} GB"
