"""Which linear maps make the queries, keys and values of attention."""

from __future__ import annotations

from typing import Any

from torch import Tensor


def tell(paths: tuple[Tensor, ...], until: Tensor | None) -> bool:
    """Tell the linear maps that ``paths`` come from, with reshapes, rotations and norms between, that they are projections of attention.

    What lies behind ``until``, the input of the block, is none of them. Returns whether a constant that differs from token to token is
    multiplied in between: rotary positions.
    """
    seen: set[Any] = {None, None if until is None else until.grad_fn}
    waiting = [path.grad_fn for path in paths]
    rotated = False
    while waiting:
        node: Any = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        if type(node).__name__ == "LinearMapBackward":
            node.role = "attention"
        else:
            waiting += [parent for parent, _ in node.next_functions]
            rotated = rotated or (type(node).__name__ == "ScaleBackward" and node.number is None and _by_token(*node.saved_tensors))
    return rotated


def _by_token(constant: Tensor) -> bool:
    """Whether a factor (..., tokens, d) differs from token to token."""
    return constant.dim() > 1 and bool((constant != constant[..., :1, :]).any())
