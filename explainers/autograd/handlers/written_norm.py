"""A normalisation written out: numbers less their mean, times or over a scale."""

from __future__ import annotations

import math

from torch import Tensor

from explainers.autograd import operators as op
from explainers.autograd.nodes import Node
from explainers.autograd.operators.pooling import Mean
from explainers.autograd.products import number_of, unmoved
from explainers.autograd.recorder import Recorder


def note_mean(rec: Recorder, x: Tensor) -> None:
    """Note, of numbers ``x`` that are normalised, that the sum which took their mean off is part of the normalisation. Does nothing if
    no mean was taken off.
    """
    node = unmoved(rec.nodes.of(x))
    mean = None if node is None else mean_taken_off(node)
    if node is not None and mean is not None:
        rec.note_mean(node, mean)


def mean_taken_off(node: Node) -> int | None:
    """Return the index of the operand of a sum that is minus the mean of the other one; None if there is none, and for other nodes."""
    if node.operator is not op.Add or len(node.paths) != 2:
        return None
    return next((place for place, each in enumerate(node.inputs) if _is_less_mean_of(each, node.inputs[1 - place])), None)


def _is_less_mean_of(node: Node | None, whole: Node | None) -> bool:
    """Return whether ``node`` is minus the mean of what ``whole`` gave."""
    factor = 1.0
    while (node := unmoved(node)) is not None and (number := number_of(node)) is not None:
        factor, node = factor * float(number), node.inputs[0]
    if node is None or len(node.paths) != 1 or unmoved(node.paths[0]) is not unmoved(whole):
        return False
    if node.operator is not Mean:
        return factor == -1 and node.settings.get("function") == "var_mean"
    count = math.prod(node.paths[0].shape[dim] for dim in node.settings["dims"])
    return math.isclose(factor * node.settings["scale"] * count, -1, rel_tol=1e-4)
