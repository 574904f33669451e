"""Activations written as products: x times a function of x, such as ``0.5 * x * (1 + tanh(...))`` or ``x * relu6(x + 3) / 6``."""

from __future__ import annotations

import torch
from torch import Tensor

from explainers.autograd import operators as op
from explainers.autograd.nodes import Node, ancestors
from explainers.autograd.operators.arithmetic import constant_of
from explainers.autograd.recorder import Recorder

#: Functions of single numbers.
FUNCTIONS_OF_SINGLE_NUMBERS = frozenset(["abs", "absolute", "exp", "exp2", "expm1", "log1p", "sqrt", "square", "pow", "cosh", "softplus"])
#: The most nodes between a factor and the numbers of which it is a curve.
_MAX_STEPS = 24


def gate_in_curve(rec: Recorder, a: Tensor, b: Tensor) -> int | None:
    """Return the index of the factor that is the gate if ``a * b`` is an activation written out: one factor x, perhaps times a number, and
    the other made of x number by number; or both made so of the same numbers, one by an activation. None for any other product.

    The product divided by x is then the gate, as act(x)/x is of an activation that torch has a function for.
    """
    if a.shape != b.shape:
        return None
    nodes = rec.nodes.of(a), rec.nodes.of(b)
    if nodes[0] is None or nodes[1] is None:
        return None
    for gate, (base, other) in ((1, (nodes[0], nodes[1])), (0, (nodes[1], nodes[0]))):
        if (steps := _steps_from(other, _scaled_from(base))) is not None:
            return _with_numbers_noted(rec, steps, gate)
    for gate, (base, other) in ((1, (nodes[0], nodes[1])), (0, (nodes[1], nodes[0]))):
        if base.operator is op.Activation and base.role is None:
            steps = _steps_from(other, _scaled_from(base.paths[0]))
            if steps is not None:
                return _with_numbers_noted(rec, steps, gate)
    return None


def _with_numbers_noted(rec: Recorder, steps: list[Node], gate: int) -> int:
    """Note that numbers added among the ``steps`` to a gate, as the 3 in ``x * relu6(x + 3)``, are no biases where the curve is
    differentiated as a whole, and return ``gate``.
    """
    for node in steps:
        if node.operator is op.Add and len(node.paths) == 1 and torch.as_tensor(constant_of(node)).dim() == 0:
            rec.note_mean(node, node.inputs.index(None))
    return gate


def _scaled_from(node: Node) -> list[Node]:
    """Return ``node`` and the nodes whose numbers it holds times one number."""
    chain = [node]
    while node.operator is op.Scale and len(node.paths) == 1 and _is_number(node):
        (node,) = node.paths
        chain.append(node)
    return chain


def _is_number(node: Node) -> bool:
    by = constant_of(node)
    return not isinstance(by, Tensor) or by.dim() == 0


def _steps_from(node: Node, bases: list[Node]) -> list[Node] | None:
    """Return the nodes that made ``node`` number by number of the numbers of one of ``bases``; None if it is made of anything else that
    depends on the input, or of other numbers of these.
    """

    def is_step(each: Node) -> bool:
        return each.shape == bases[0].shape and bool(each.paths) and _is_of_single_numbers(each)

    steps = ancestors([node], bases, until=lambda each: not is_step(each))
    return steps if len(steps) <= _MAX_STEPS and all(map(is_step, steps)) else None


def _is_of_single_numbers(node: Node) -> bool:
    """Return whether a node computes each number of its output of one number of each of its inputs."""
    known = (op.Add, op.Scale, op.Mul, op.Activation, op.BoundedGate)
    return node.operator in known or node.settings.get("function") in FUNCTIONS_OF_SINGLE_NUMBERS
