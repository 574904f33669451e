"""The steps by which an explanation gets along with less memory: fewer inputs at a time, then activations computed again, then words.

Memory is estimated before it is taken (:mod:`explainers.autograd.memory`). Where the estimate says that a batch does not fit, or was wrong,
the batch is halved down to single inputs. An input that does not fit either is explained with the activations inside its blocks computed
again on the way back (:mod:`explainers.autograd.recomputation`). Where that fails too, an error says how many bytes it needs and how many
are free. Maps that are done stay done, and nothing of a failed step stays on the device. An error of a library of CUDA that may be a
shortage or not (:func:`explainers.errors.may_lack_memory`) goes down the same steps, and is raised in its own words where it stays.

An analysis goes through the same steps (:func:`run_in_steps`): its passes halve their rows themselves (:mod:`explainers.models.passes`);
where that was not enough it runs again with one row in each pass, and then with the activations of that row computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import partial, wraps
from typing import ParamSpec, TypeVar, cast, get_args

from torch import Tensor

from explainers.autograd.memory import OVERHEAD_FACTOR, bytes_recomputed, estimate_of_one, has_long_rows
from explainers.autograd.recomputation import ReadsInsideError, reason_against_recomputation
from explainers.errors import MemoryShortageError, may_lack_memory, ran_out_of_memory
from explainers.models.memory import free_memory, total_memory
from explainers.models.model import Model
from explainers.models.passes import (
    Passes,
    Ran,
    Sparing,
    as_counted,
    attempt,
    bytes_needed,
    settle_shortages,
    sparing_memory,
    unsettled_shortages,
)
from explainers.models.tf32 import products_in_float32
from explainers.self_check.opening import model_of

P = ParamSpec("P")
T = TypeVar("T")
_IS_IN_STEPS: ContextVar[bool] = ContextVar("an analysis goes through the steps already", default=False)
#: Explains some of the inputs: the first of them, their number, and whether activations are computed again.
ExplainPart = Callable[[int, int, bool], None]


def explain_in_steps(model: Model, tensors: Mapping[str, Tensor], count: int, explain_part: ExplainPart, reads_inside: bool = True) -> None:
    """Explain all of ``count`` inputs of ``model``, the samples of ``tensors``, by calls ``explain_part(first, number, recomputed)`` for
    parts that fit into memory. Returns None.

    ``first`` and ``number`` are the part of the inputs, and ``recomputed`` is true if the activations of the model's blocks shall be
    computed again on the way back, to save memory. A part whose memory ran out is explained again in smaller parts, at last with
    ``recomputed``. One long text is explained with ``recomputed`` at once, unless ``reads_inside``: the methods read what is inside the
    blocks. Raises MemoryShortageError, with the bytes that are needed and free, where one input does not fit in any way, and an error that
    may be no shortage as it is.
    """
    recomputed = count == 1 and not reads_inside and has_long_rows(model, tensors)

    def explain_some(first: int, number: int) -> None:
        nonlocal recomputed
        if number > 1:
            explain_part(first, number, False)
            return
        failed: Exception | None = None
        since = unsettled_shortages()
        if not recomputed:
            tried = attempt(partial(explain_part, first, 1, False))
            if isinstance(tried, Ran):
                return
            failed = tried
        if (reason := reason_against_recomputation(model)) is not None:
            if failed is not None and may_lack_memory(failed):
                raise failed
            words = f"Memory ran out for 1 input by {model.name}. {reason} {words_of_kept(model, tensors)}"
            raise as_counted(MemoryShortageError(words, needed=bytes_needed(failed)))
        recomputed = True
        tried = attempt(partial(explain_part, first, 1, True))
        if isinstance(tried, Ran):
            settle_shortages("recomputed", since)
        elif may_lack_memory(failed) and not ran_out_of_memory(tried):  # a method that cannot do with less says that memory is short
            settle_shortages(None, since)
            raise cast("Exception", failed)
        else:
            if isinstance(tried, MemoryShortageError) or may_lack_memory(tried):
                raise tried
            raise as_counted(MemoryShortageError(words_of_shortage(model, tensors), needed=bytes_recomputed(model, tensors)))

    try:
        for _ in Passes(count).run(count, explain_some):
            pass
    except MemoryShortageError as error:
        raise error from None


def run_in_steps(model: Callable[[], Model], run: Callable[[], T]) -> T:
    """Call ``run``, a function that runs a model, and return its result. If memory runs out, it is called again in a way that takes less.
    ``model`` returns the model; it is called only in that case. Float32 is not rounded to TF32 inside.

    Raises MemoryShortageError, in words, where that fails too, and an error that may be no shortage as it is. Inside another call of it
    ``run`` simply runs: the outermost one decides.
    """
    if _IS_IN_STEPS.get():
        return run()
    token = _IS_IN_STEPS.set(True)
    try:
        with products_in_float32():
            return _run_with_less(model, run)
    finally:
        _IS_IN_STEPS.reset(token)


def _run_with_less(model: Callable[[], Model], run: Callable[[], T]) -> T:
    """Call ``run`` and return its result; where memory runs out call it again, each time in a way that takes less, see
    :func:`run_in_steps`.
    """
    since, tried = unsettled_shortages(), attempt(run)
    if isinstance(tried, Ran):
        return tried.result
    error, opened = tried, model()
    reason = reason_against_recomputation(opened)
    for how in get_args(Sparing)[1:]:
        try:
            with sparing_memory(how):
                tried = attempt(run)
        except ReadsInsideError as inside:
            reason = f"It cannot be done with less: {inside}."
        if isinstance(tried, Ran):
            settle_shortages("smaller-batch" if how == "rows" else "recomputed", since)
            return tried.result
    if may_lack_memory(error) and not ran_out_of_memory(tried):
        settle_shortages(None, since)
        raise error
    if may_lack_memory(tried):
        raise tried
    if isinstance(error, MemoryShortageError):
        error.needed = bytes_needed(tried)  # in the way that takes least
        raise error
    raise as_counted(MemoryShortageError(_words_of_failure(opened, reason), needed=bytes_needed(tried)))


def in_memory_steps(analysis: Callable[P, T]) -> Callable[P, T]:
    """Decorate ``analysis``, a function whose first argument ``model`` has any form that :func:`explainers.open` takes: return a function
    of the same arguments and result that goes through :func:`run_in_steps`.
    """

    @wraps(analysis)
    def in_steps(*args: P.args, **kwargs: P.kwargs) -> T:
        return run_in_steps(lambda: model_of(args[0] if args else kwargs["model"]), lambda: analysis(*args, **kwargs))

    return in_steps


def _words_of_failure(model: Model, reason: str | None) -> str:
    """Return a sentence on an analysis of ``model`` for which memory ran out, with the bytes that are free; ``reason`` says why it takes no
    less.
    """
    free, total = free_memory(model.device), total_memory(model.device)
    there = "" if free is None or total is None else f" {gigabytes(free)} of {gigabytes(total)} are free ({model.device.type})."
    how = f". {reason}" if reason else ", even one input at a time, with the activations of its blocks computed again on the way back."
    return f"Memory ran out for {model.name}{how}{there} Choose a smaller model or a smaller input, or free memory."


def words_of_shortage(model: Model, tensors: Mapping[str, Tensor]) -> str:
    """Return a sentence that says how many bytes ``model`` needs at least for one input of ``tensors``, how many are free, and what
    to do.
    """
    needed, free, total = bytes_recomputed(model, tensors), free_memory(model.device), total_memory(model.device)
    of_all = "" if free is None or total is None else f", and {gigabytes(free)} of {gigabytes(total)} are free"
    return (
        f"Memory ran out for 1 input by {model.name}, even with the activations of its blocks computed again on the way back: this needs "
        f"about {gigabytes(needed)} ({model.device.type}){of_all}. Choose a smaller model, a smaller input or another method, or free "
        "memory."
    )


def words_of_kept(model: Model, tensors: Mapping[str, Tensor]) -> str:
    """Return a sentence that says how many bytes ``model`` needs for one input of ``tensors`` if all activations are kept, how many are
    free, and what to do.
    """
    needed, free = OVERHEAD_FACTOR * estimate_of_one(model, tensors), free_memory(model.device)
    there = "" if free is None else f", and {gigabytes(free)} are free"
    return (
        f"Kept, all activations take up to {gigabytes(needed)} ({model.device.type}){there}. Leave this method out, choose a smaller "
        "model or a smaller input, or free memory."
    )


def gigabytes(count: float) -> str:
    """Return ``count`` bytes as a text in GB, with two digits."""
    return f"{count / 1e9:.2g} GB"
