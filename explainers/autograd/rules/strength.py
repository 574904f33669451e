"""The numbers that some choices take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Strength:
    """The numbers of the linear choices ``gamma`` and ``epsilon``, as the code of AttnLRP has them.

    gamma              of linear layers; the projections of attention (queries, keys, values, output) get none
    gamma_convolution  of convolutions, the patch embedding among them
    epsilon            of linear layers and LayerNorm
    epsilon_sum        of sums of two paths and of matrix products
    """

    gamma: float = 0.05
    gamma_convolution: float = 0.25
    epsilon: float = 1e-6
    epsilon_sum: float = 1e-8
