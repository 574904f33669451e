"""A softmax written out: exponentials over their sum, with or without the largest number taken off first, in place or not."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from explainers.autograd import operators as op
from explainers.autograd.dispatch import role
from explainers.autograd.nodes import Move, Node, Role
from explainers.autograd.operators.arithmetic import constant_of
from explainers.autograd.operators.pooling import Mean, Pick
from explainers.autograd.recorder import Recorder

#: How many units of the last place, at most so large a share, a quotient of exponentials may differ from the softmax that it is.
_ROUNDING, _MAX_ROUNDING = 1e3, 0.1
#: The names of torch's functions that give the logarithms of a softmax.
LOG_SOFTMAX = ("log_softmax", "special_log_softmax")


def keep_exponent(rec: Recorder, exponential: Tensor, exponent: Tensor) -> None:
    """Note that a tensor holds the exponentials of the numbers ``exponent``."""
    node = rec.nodes.of(exponential)
    if node is not None:
        node.operands = (exponent,)


def keep_unshifted(rec: Recorder, difference: Tensor, whole: Any, shift: Any) -> None:
    """Note on the node of ``difference`` that it is ``whole`` minus ``shift``, one number for each row (its largest, a number outside of
    the gradient or, of attention scores, any): the softmax of both is the same. Does nothing for any other shift.
    """
    node = rec.nodes.of(difference)
    if node is None or not (isinstance(whole, Tensor) and isinstance(shift, Tensor) and rec.active(whole)):
        return
    rows = [*whole.shape]
    is_one_a_row = shift.dim() == len(rows) and sum(a != b for a, b in zip(shift.shape, rows, strict=True)) == 1 and 1 in shift.shape
    if not is_one_a_row:
        return
    if not rec.active(shift) or _is(moved_from(rec.nodes.of(shift)), Pick) or role(rec, whole) == Role.SCORES:
        node.operands = (whole,)


def unshifted(rec: Recorder, exponent: Tensor, dim: int) -> Tensor:
    """Return numbers with the same softmax along ``dim`` as ``exponent`` from which one number for each row was subtracted, as
    :func:`keep_unshifted` noted it: those before the subtraction, scaled, added to and masked as the difference was since. ``exponent``
    itself if nothing was subtracted.
    """
    steps: list[Node] = []
    node = moved_from(rec.nodes.of(exponent))
    while node is not None and not (_is(node, op.Add) and len(node.operands) == 1):
        if node.operator not in (op.Add, op.Scale) or len(node.paths) != 1:
            return exponent
        steps.append(node)
        node = moved_from(node.paths[0])
    if node is None or node.operands[0].shape != exponent.shape or node.operands[0].dtype != exponent.dtype:
        return exponent
    (whole,) = node.operands
    for step in reversed(steps):
        constant = constant_of(step)
        whole = rec.run(op.Scale, whole, constant, role=role(rec, whole)) if step.operator is op.Scale else _plus(rec, whole, constant)
    with torch.no_grad():
        expected = exponent.softmax(dim)
        hidden = expected == 0
    if whole.shape == exponent.shape and bool(hidden.any()):
        whole = rec.nodes.move(whole.masked_fill(hidden, -math.inf), whole, role(rec, whole))
    return whole if are_close(*map(rec.as_constant, (whole.detach().softmax(dim), expected))) else exponent


def _plus(rec: Recorder, path: Tensor, constant: Any) -> Tensor:
    """Return attention scores ``path`` plus a ``constant``, recorded."""
    out: Tensor = rec.run(op.Add, path, torch.as_tensor(constant).to(path), role(rec, path), role=role(rec, path))
    return out


def is_exponential(rec: Recorder, tensor: Tensor) -> bool:
    """Return whether ``tensor`` holds exponentials, perhaps moved, in the pass that ``rec`` records."""
    return is_exponential_node(moved_from(rec.nodes.of(tensor)))


def softmax_of_logarithms(rec: Recorder, exponent: Tensor) -> tuple[Tensor, int] | None:
    """Return the numbers and the dimension of the softmax of which ``exponent`` holds the logarithms: a log-softmax, or numbers minus the
    logarithm of the sum of their exponentials; None if it holds none.
    """
    node = moved_from(rec.nodes.of(exponent))
    is_known = node is not None and (_is(node, op.Add) or node.settings.get("function") in LOG_SOFTMAX)
    if node is None or not is_known or len(node.operands) != 1 or node.operands[0].shape != exponent.shape:
        return None
    (whole,) = node.operands
    with torch.no_grad():
        value = rec.as_constant(exponent.exp())  # the copies of single tokens need not add up
        for dim in reversed(range(value.dim())):
            total = value.sum(dim)
            if are_close(total, torch.ones_like(total)) and are_close(value, rec.as_constant(whole.softmax(dim, dtype=value.dtype))):
                return whole, dim
    return None


def written_softmax(rec: Recorder, over: Tensor, under: Tensor) -> Tensor | None:
    """Return the quotient ``over`` / ``under``, recorded as a softmax, if ``under`` is the sum of the exponentials ``over``; else None: see
    :func:`_softmax_of_share`.
    """
    return _softmax_of_share(rec, over, rec.nodes.of(under), lambda: over / under)


def written_softmax_by_inverse(rec: Recorder, over: Tensor, inverse: Tensor) -> Tensor | None:
    """Return the product ``over`` * ``inverse``, recorded as a softmax, if ``inverse`` is 1 divided by the sum of the exponentials
    ``over``; else None.
    """
    node = rec.nodes.of(inverse)
    while node is not None and node.operator is Move and len(node.paths) == 1:
        (node,) = node.paths
    if node is None or node.role != Role.SCALE or node.settings.get("function") not in ("reciprocal", "pow", "div") or not node.paths:
        return None
    return _softmax_of_share(rec, over, node.paths[0], lambda: over * inverse)


def _softmax_of_share(rec: Recorder, over: Tensor, under: Node | None, share: Callable[[], Tensor]) -> Tensor | None:
    """Return exponentials ``over`` their sum ``under`` as a softmax, if the ``share`` that they are is one; else None. If a constant is
    added to the sum, it is a softmax with one more number, the logarithm of the constant, which is left out of the result.
    """
    exponential, total, constant = moved_from(rec.nodes.of(over)), moved_from(under), 0.0
    if total is not None and total.operator is op.Add and len(total.paths) == 1:
        added = torch.as_tensor(constant_of(total))
        constant = float(added) if added.numel() == 1 else math.nan
        total = moved_from(total.paths[0])
    if exponential is None or total is None or not is_exponential_node(exponential) or not constant >= 0:
        return None
    if total.operator is not Mean or len(total.settings["dims"]) != 1 or not is_exponential_node(moved_from(total.paths[0])):
        return None
    dim = total.settings["dims"][0] % over.dim()
    with torch.no_grad():
        value = share()
    for exponent in _exponents(rec, exponential):
        if exponent.shape != over.shape or exponent.dtype != over.dtype:
            continue
        is_last, move = dim == over.dim() - 1, rec.nodes.move
        rows = exponent if is_last else move(exponent.transpose(dim, -1), exponent, Role.SCORES)
        wide = rows if not constant else move(F.pad(rows, (0, 1), value=math.log(constant)), rows, Role.SCORES)
        with torch.no_grad():
            expected = wide.softmax(-1)[..., : rows.shape[-1]].transpose(dim, -1)
        if not are_close(*map(rec.as_constant, (value, expected))):  # to a copy of one token no constant is added
            continue
        weights: Tensor = rec.run(op.Softmax, wide, -1, None, role=Role.WEIGHTS)
        known = weights if not constant else move(weights[..., :-1], weights, Role.WEIGHTS)
        return known if is_last else move(known.transpose(dim, -1), known, Role.WEIGHTS)
    return None


def are_close(value: Tensor, expected: Tensor) -> bool:
    """Return whether ``value`` and ``expected``, two tensors, are the same but for rounding."""
    numbers = torch.finfo(value.dtype)
    rounding = min(_ROUNDING * numbers.eps, _MAX_ROUNDING)
    return value.shape == expected.shape and torch.allclose(value, expected, rtol=rounding, atol=numbers.tiny / numbers.eps)


def moved_from(node: Node | None) -> Node | None:
    """Follow the nodes that only move numbers (:class:`Move`) back from ``node``, and return the node that made these numbers: ``node``
    itself if it moves none. None stays None.
    """
    while node is not None and node.operator is Move and node.paths:
        node = node.paths[0]
    return node


def _exponents(rec: Recorder, exponential: Node) -> Iterator[Tensor]:
    """Yield the tensors whose softmax a quotient may be, given the node of its exponentials: the exponents before one number for each row
    was subtracted, if that was done, and the exponents themselves.
    """
    (exponent,) = exponential.operands
    difference = moved_from(rec.nodes.of(exponent))
    if _is(difference, op.Add) and difference is not None:
        yield from difference.operands
    yield exponent


def is_exponential_node(node: Node | None) -> bool:
    """Return whether ``node`` made exponentials, whose exponents are its only operand."""
    return node is not None and node.settings.get("function") in ("exp", "exp2", "special_exp2") and len(node.operands) == 1


def _is(node: Node | None, operator: Any) -> bool:
    return node is not None and node.operator is operator
