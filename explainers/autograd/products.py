"""Products of two paths, and the numbers that they or their factors were multiplied by."""

from __future__ import annotations

from torch import Tensor

from explainers.autograd.nodes import Move, Node, Role, Unruled
from explainers.autograd.operators import Activation, Add, BoundedGate, Div, MatMul, Mul, Scale
from explainers.autograd.operators.arithmetic import constant_of

#: The most operators between a softmax and the product with values that are followed.
MAX_MIXING_STEPS = 100


def number_of(node: Node) -> float | Tensor | None:
    """Return the number by which a node multiplies its input, if it is a product with one number that is not zero; else None."""
    if node.operator is not Scale:
        return None
    by = constant_of(node)
    return by if (not isinstance(by, Tensor) or by.dim() == 0) and by != 0 else None


def unmoved(node: Node | None) -> Node | None:
    """Return the node that gave the numbers which ``node`` moves; ``node`` itself if it moves none."""
    while node is not None and node.operator is Move and len(node.inputs) == 1:
        node = node.inputs[0]
    return node


def unscaled(node: Node) -> Node:
    """Return the node that gave the numbers which ``node`` moves or multiplies by one number; ``node`` itself if it does neither."""
    while (node.operator is Move or number_of(node) is not None) and len(node.paths) == 1:
        (node,) = node.paths
    return node


def factor(node: Node | None) -> float:
    """Return the number by which the tensor of a node was multiplied since the last function that did more than move or scale numbers; 1 if
    by none.
    """
    numbers = []
    while node is not None:
        number = number_of(node)
        if number is not None:
            numbers.append(float(number))
        elif node.operator is not Move:
            break
        node = node.inputs[0] if node.inputs else None
    whole = 1.0
    for number in reversed(numbers):
        whole *= number
    return whole


def product_of(node: Node | None) -> tuple[Tensor, Tensor] | None:
    """Return the two paths whose matrix product, possibly times a number, is the tensor of a node; else None."""
    while node is not None and number_of(node) is not None:
        node = node.inputs[0]
    if node is None or node.operator is not MatMul or node.role != Role.SCORES:
        return None
    return node.operands[0], node.operands[1]


def are_mixed_weights(node: Node | None) -> bool:
    """Return whether a node gave attention weights of several softmaxes, or changed ones: moved, scaled, gated, added to each other or put
    through a curve, such as (1 - g) A + g B with a gate g. Every term of a sum must be one of them. False if that takes more than
    :data:`MAX_MIXING_STEPS` operators.
    """
    known: dict[int, bool] = {}

    def ask(each: Node | None) -> bool:
        if each is None or (id(each) not in known and len(known) >= MAX_MIXING_STEPS):
            return False
        if id(each) not in known:
            known[id(each)] = False
            known[id(each)] = each.role == Role.WEIGHTS or follow(each)
        return known[id(each)]

    def follow(each: Node) -> bool:
        if each.operator is Mul:  # the other factor is a gate of theirs, whatever made it
            return any(map(ask, each.paths))
        if each.operator is Div:
            return ask(each.inputs[0])
        return each.operator in (Move, Scale, Activation, Add) and bool(each.paths) and all(map(ask, each.paths))

    return ask(node)


def are_curved_scores(node: Node | None) -> bool:
    """Return whether a node gave a matrix product of two paths, such as of queries with keys, that was changed number by number or divided
    by numbers made of itself, as a curve of scores over their sum: attention weights if they meet values. A product that was only moved,
    scaled or added to does not count, nor does a factor that multiplies such a product. False if that takes more than
    :data:`MAX_MIXING_STEPS` operators.
    """
    known: dict[int, Role | None] = {}

    def ask(each: Node | None) -> Role | None:
        """Return SCORES for products of two paths as they are, CURVED for changed ones, None for anything else."""
        if each is None or (id(each) not in known and len(known) >= MAX_MIXING_STEPS):
            return None
        if id(each) not in known:
            known[id(each)] = None
            known[id(each)] = each.role if each.role in (Role.SCORES, Role.CURVED) else follow(each)
        return known[id(each)]

    def follow(each: Node) -> Role | None:
        if each.operator is Div:
            return None if ask(each.inputs[0]) is None else Role.CURVED
        is_of_numbers = each.operator in (Activation, BoundedGate, Unruled) and all(path.shape == each.shape for path in each.paths)
        if not is_of_numbers and each.operator not in (Mul, Move, Scale, Add):
            return None
        kinds = [ask(path) for path in each.paths]
        if each.operator is Mul:
            is_changed = Role.CURVED in kinds or Role.SCALE in each.settings["roles"] or None not in kinds
            return None if not any(kinds) else Role.CURVED if is_changed else Role.SCORES
        if not kinds or None in kinds:
            return None
        return Role.CURVED if is_of_numbers or Role.CURVED in kinds else Role.SCORES

    return ask(node) == Role.CURVED
