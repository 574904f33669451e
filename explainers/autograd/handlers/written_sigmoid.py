"""Curves written out as quotients: a sigmoid, a constant over itself plus an exponential, 1 / (1 + exp(-x)), a tanh, a difference of
exponentials over their sum, and x over a curve of x.
"""

from __future__ import annotations

import torch
from torch import Tensor

from explainers.autograd import operators as op
from explainers.autograd.handlers.written_curve import FUNCTIONS_OF_SINGLE_NUMBERS
from explainers.autograd.handlers.written_softmax import are_close, is_exponential_node, moved_from
from explainers.autograd.nodes import Move, Node
from explainers.autograd.operators.arithmetic import constant_of
from explainers.autograd.recorder import Recorder


def sigmoid_exponent(rec: Recorder, under: Tensor) -> tuple[Tensor, float] | None:
    """Return the numbers z and the constant k > 0 with which ``under`` is k + exp(z), so that k over it is a sigmoid, of log(k) - z; None
    if it is no such sum.
    """
    total = moved_from(rec.nodes.of(under))
    if total is None or total.operator is not op.Add or len(total.paths) != 1:
        return None
    constant, exponential = torch.as_tensor(constant_of(total)), moved_from(total.paths[0])
    if constant.numel() != 1 or not float(constant) > 0 or exponential is None or not is_exponential_node(exponential):
        return None
    (exponent,) = exponential.operands
    with torch.no_grad():
        is_sum = exponent.shape == under.shape and exponent.dtype == under.dtype and are_close(under, float(constant) + exponent.exp())
    return (exponent, float(constant)) if is_sum else None


def is_exponential_of(node: Node | None, exponent: Tensor) -> bool:
    """Return whether ``node``, followed back through what only moves numbers, holds the exponentials of the very numbers ``exponent``."""
    made = moved_from(node)
    return made is not None and is_exponential_node(made) and made.operands[0] is exponent


def tanh_exponent(rec: Recorder, over: Tensor, under: Tensor) -> tuple[Tensor, float] | None:
    """Return the numbers z and the factor k such that the quotient ``over`` / ``under`` is tanh(k z), if it is a difference of exponentials
    over their sum, of which one may be 1: (exp(z) - exp(-z)) / (exp(z) + exp(-z)) or (exp(z) - 1) / (exp(z) + 1); else None.
    """
    difference, total = (moved_from(rec.nodes.of(each)) for each in (over, under))
    if difference is None or total is None or not difference.operator is total.operator is op.Add or over.shape != under.shape:
        return None
    made = [moved_from(each) for each in total.paths]
    exponents = [each.operands[0] for each in made if each is not None and is_exponential_node(each)]
    if len(exponents) != len(total.paths) or any(each.shape != under.shape or each.dtype != under.dtype for each in exponents):
        return None
    factors = (1.0, -1.0) if len(exponents) > 1 else (0.5, -0.5)
    with torch.no_grad():
        quotient, exponent = rec.as_constant(over / under), rec.as_constant(exponents[0].detach())
        rounding = _TANH_ROUNDING * torch.finfo(under.dtype).eps  # of a difference of numbers near 1, also where that is near 0
        for factor in factors:
            if torch.allclose(quotient, (factor * exponent).tanh(), rtol=0, atol=rounding):
                return exponents[0], factor
    return None


#: How many units of the last place of 1 a tanh that is written out may be off.
_TANH_ROUNDING = 16


def is_curve_of(rec: Recorder, under: Tensor, over: Tensor) -> bool:
    """Return whether ``under`` was made number by number of the numbers of ``over``, perhaps times a constant, so that ``over`` divided by
    it is an activation such as x / (1 + abs(x)); a scale, which is made of many numbers, is none.
    """
    shape, behind, node = over.shape, set[int](), rec.nodes.of(under)
    while node is not None and node.shape == shape:
        behind.add(id(node))
        is_single = node.operator in (op.Add, op.Scale, op.Activation, Move) or node.settings.get("function") in FUNCTIONS_OF_SINGLE_NUMBERS
        node = node.paths[0] if is_single and len(node.paths) == 1 else None
    start = rec.nodes.of(over)
    while start is not None and id(start) not in behind:
        start = start.paths[0] if start.operator in (op.Scale, Move) and len(start.paths) == 1 else None
    return start is not None and under.shape == shape
