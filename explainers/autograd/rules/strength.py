"""The numbers that some choices take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Strength:
    """The parameters of the linear choices ``gamma`` and ``epsilon``; defaults are those of AttnLRP's code.

    gamma              γ of linear layers, also as convolutions with a kernel of one place; the projections of attention (queries, keys,
                       values, output) have none
    gamma_convolution  γ of other convolutions, and of the layers of the patch embedding however they are written
    epsilon            ε of linear layers and LayerNorm
    epsilon_sum        ε of sums of two paths and of matrix products
    """

    gamma: float = 0.05
    gamma_convolution: float = 0.25
    epsilon: float = 1e-6
    epsilon_sum: float = 1e-8
