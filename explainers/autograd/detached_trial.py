"""Trial passes that show whether numbers that a model takes out of the gradient change its answer.

What a softmax is shifted by changes nothing, nor does whatever else is taken off again, such as the shift of exponentials whose logarithm
of a sum is shifted back, or that of numbers whose mean is taken off. No list of forms tells them all. So the numbers are moved a little as
they leave the gradient, in float64: if the answer stays the same, no gradient is missing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from explainers.autograd.attention_trial import Key, key_of, trial_tensors
from explainers.autograd.nodes import Nodes
from explainers.errors import ran_out_of_memory
from explainers.models.model import Model

#: The largest difference, relative to the largest logit, of answers that are the same; rounding in float64 stays far below.
_SAME = 1e-9
_MATTERS: WeakKeyDictionary[nn.Module, dict[Key, bool]] = WeakKeyDictionary()


class MovedPass(Protocol):
    """A recording with the two parts that this module reads: its ``logits`` (B, C), and ``nodes``, which tell whether any detached numbers
    were moved.
    """

    logits: Tensor
    nodes: Nodes


P = TypeVar("P", bound=MovedPass)


def functions_that_matter(model: Model, functions: frozenset[str], record: Callable[..., P]) -> frozenset[str]:
    """Return those of ``functions`` whose detached numbers change the answer of ``model``.

    ``functions`` are names of torch functions or contexts that take numbers out of the gradient, such as "detach", "data" or "no_grad".
    Each is tried once for a model, on made-up inputs in float64: its numbers are moved a little, and the logits compared with those of an
    unmoved pass. A function counts as changing the answer too if that pass fails, or if the function detaches nothing in it.

    ``record(model, tensors, double=True)`` must return a recording of one pass; with ``moved=name`` of a pass in which the numbers of that
    function are moved.
    """
    known = _MATTERS.setdefault(model.module, {})
    place = "" if model.reading is None else model.reading.place.at
    key = (*key_of(model), place)
    for function in functions:
        if (*key, function) not in known:
            known[*key, function] = _changes_the_answer(model, function, record)
    return frozenset(function for function in functions if known[*key, function])


def _changes_the_answer(model: Model, function: str, record: Callable[..., P]) -> bool:
    """Return whether the logits of a made-up input change when the numbers that ``function`` detaches are changed a little. True also if
    that pass fails, or if the function detaches nothing in it. ``record`` makes the two recordings.
    """
    try:
        with torch.no_grad():
            tensors = trial_tensors(model)
            plain, moved = record(model, tensors, double=True), record(model, tensors, double=True, moved=function)
    except Exception as error:  # whatever code of the model's own raises of an input that is made up
        if ran_out_of_memory(error):
            raise
        return True
    difference = (moved.logits - plain.logits).detach().abs().max()
    return not moved.nodes.has_moved or not bool(difference <= _SAME * plain.logits.detach().abs().max())
