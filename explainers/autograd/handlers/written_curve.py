"""Activations written as products: x times a function of x, such as ``0.5 * x * (1 + tanh(...))`` or ``x * relu6(x + 3) / 6``."""

from __future__ import annotations

from torch import Tensor

from explainers.autograd import operators as op
from explainers.autograd.nodes import Node
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
        if _is_made_of(other, _scaled_from(base)):
            return gate
    for gate, (base, other) in ((1, (nodes[0], nodes[1])), (0, (nodes[1], nodes[0]))):
        if base.operator is op.Activation and base.role is None and _is_made_of(other, _scaled_from(base.paths[0])):
            return gate
    return None


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


def _is_made_of(node: Node, bases: list[Node]) -> bool:
    """Return whether ``node`` is made number by number of the numbers of one of ``bases``, and of nothing else that depends on the input.
    """
    ends = {id(base) for base in bases}
    waiting, seen = [node], set[int]()
    while waiting:
        each = waiting.pop()
        if id(each) in ends or id(each) in seen:
            continue
        seen.add(id(each))
        if len(seen) > _MAX_STEPS or each.shape != bases[0].shape or not each.paths or not _is_of_single_numbers(each):
            return False
        waiting += each.paths
    return True


def _is_of_single_numbers(node: Node) -> bool:
    """Return whether a node computes each number of its output of one number of each of its inputs."""
    known = (op.Add, op.Scale, op.Mul, op.Activation, op.BoundedGate)
    return node.operator in known or node.settings.get("function") in FUNCTIONS_OF_SINGLE_NUMBERS
