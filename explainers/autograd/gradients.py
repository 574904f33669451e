"""Pure functions that change a gradient on its way back through linear maps: LRP-γ and LRP-ε.

Relevance is here the gradient times the tensor, so that each function gives R(x) / x from R(y) / y.

Sources: Achtibat et al., ICML 2024, arXiv 2402.05602, eq. 8, and the behaviour of its published code (LXT), which takes LRP-γ from zennit.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

STABILISER = 1e-6  # of LRP-γ, added with the sign of the denominator


def gamma(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    gradient: Tensor,
    forward: Callable[[Tensor, Tensor], Tensor],
    backward: Callable[[Tensor, Tensor], Tensor],
    strength: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Run LRP-γ (``strength`` is γ) backward through a linear map of ``x`` by ``weight`` and ``bias``, from ``gradient`` at its output:
    contributions x w of the sign of the output y count 1 + γ times, those of the other sign once.

    R_j = sum_i x_j (w_ij + γ w_ij^s) / (sum_j' the same + b_i + γ b_i^s) R_i, with w^s the positive part of w where x and y have one sign,
    else the negative. ``forward(x, weight)`` applies the map without its bias, ``backward(signal, weight)`` its transpose.

    Returns the signals at the outputs above zero and below, by which terms are multiplied, and the gradient at x.
    """
    up, down = weight + strength * weight.clamp(min=0), weight + strength * weight.clamp(max=0)
    positive, negative = x.clamp(min=0), x.clamp(max=0)
    y = forward(x, weight)
    above, below = forward(positive, up) + forward(negative, down), forward(positive, down) + forward(negative, up)
    if bias is not None:
        y = y + bias
        above, below = above + bias + strength * bias.clamp(min=0), below + bias + strength * bias.clamp(max=0)
    relevance = gradient * y
    s_above, s_below = (
        torch.where(sign, relevance, 0.0) / stabilise(total, STABILISER) for sign, total in ((y > 0, above), (y < 0, below))
    )
    at_positive = backward(s_above, up) + backward(s_below, down)
    at_negative = backward(s_above, down) + backward(s_below, up)
    return s_above, s_below, torch.where(x >= 0, at_positive, at_negative)


def stabilise(denominator: Tensor, epsilon: float) -> Tensor:
    """Return a denominator moved away from zero by ``epsilon``, in the direction of its sign."""
    return torch.where(denominator < 0, denominator - epsilon, denominator + epsilon)


def damp(gradient: Tensor, y: Tensor, epsilon: float) -> Tensor:
    """Return ``gradient``, the gradient at an output ``y`` of the same shape, damped by LRP-ε (``epsilon``): multiplied by y / (y + ε); ε
    is positive whatever the sign of y, as in the published code.
    """
    total = y + epsilon
    return gradient * torch.where(total == 0, 0.0, y / torch.where(total == 0, 1.0, total))
