"""The numbers that some choices take."""

from __future__ import annotations

from dataclasses import dataclass

from explainers.errors import ExplainerError

MAX_TEMPERATURE = 10.0


@dataclass(frozen=True)
class Strength:
    """The parameters of the linear choices ``gamma`` and ``epsilon``, with defaults of AttnLRP's code, and of the attention choices
    ``temperature`` and ``half_temperature``, with the default of GIM.

    gamma              γ of linear layers, also as convolutions with a kernel of one place; the projections of attention (queries, keys,
                       values, output) have none
    gamma_convolution  γ of other convolutions, and of the layers of the patch embedding however they are written
    epsilon            ε of linear layers and LayerNorm
    epsilon_sum        ε of sums of two paths and of matrix products
    temperature        T at which a softmax is differentiated, above 0 and at most 10; 1 is the ordinary derivative

    Raises ExplainerError for another temperature.
    """

    gamma: float = 0.05
    gamma_convolution: float = 0.25
    epsilon: float = 1e-6
    epsilon_sum: float = 1e-8
    temperature: float = 2.0

    def __post_init__(self) -> None:
        # Weights at T are made of the weights themselves: those that were rounded to zero would count at a large T.
        if not 0 < self.temperature <= MAX_TEMPERATURE:
            raise ExplainerError(f"temperature={self.temperature!r}: send a number above 0 and at most {MAX_TEMPERATURE:g}.")
