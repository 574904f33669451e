"""Muon, an optimizer for matrices: each step moves a matrix along its momentum with all singular values near 1 (Jordan et al., 2024)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from recipes.networks.trunk import FAST_DTYPE


def orthogonalise(matrix: Tensor, coefficients: tuple[float, float, float], steps: int, least_norm: float) -> Tensor:
    """Return a matrix like ``matrix`` (M, N) with the same singular vectors and singular values near 1, in `FAST_DTYPE`.

    The polynomial a x + b x^3 + c x^5 with ``coefficients`` (a, b, c) is applied ``steps`` times to the singular values (Newton-Schulz).
    A norm below ``least_norm`` counts as ``least_norm``.
    """
    is_tall = matrix.shape[0] > matrix.shape[1]
    x = (matrix.T if is_tall else matrix).to(FAST_DTYPE)
    x = x / x.norm().clamp(min=least_norm)
    linear, cubic, quintic = coefficients
    for _ in range(steps):
        square = x @ x.T
        x = torch.addmm(x, torch.addmm(square, square, square, beta=cubic, alpha=quintic), x, beta=linear)
    return x.T if is_tall else x


class Muon(torch.optim.Muon):
    """torch's Muon with the learning rate of AdamW (``adjust_lr_fn="match_rms_adamw"``), and products in `FAST_DTYPE`: torch's own are in
    bfloat16, which took half of a training on a processor without it. Its saved state is torch's.
    """

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        """Move every matrix that has a gradient. Raises ValueError for a closure."""
        if closure is not None:
            raise ValueError("Muon takes no closure: compute the gradients first")
        for group in self.param_groups:
            for matrix in group["params"]:
                if matrix.grad is None:
                    continue
                momentum = self.state[matrix].setdefault("momentum_buffer", torch.zeros_like(matrix.grad))
                momentum.lerp_(matrix.grad, 1 - group["momentum"])
                direction = matrix.grad.lerp(momentum, group["momentum"])
                update = orthogonalise(direction, group["ns_coefficients"], group["ns_steps"], group["eps"])
                matrix.mul_(1 - group["lr"] * group["weight_decay"])
                matrix.add_(update, alpha=-0.2 * group["lr"] * max(matrix.shape) ** 0.5)
