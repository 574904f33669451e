"""Ways back through normalisations, in one step or written out."""

from __future__ import annotations

from abc import abstractmethod

from torch import Tensor

from explainers.autograd.rules.choices.base import Choice
from explainers.autograd.rules.operands import Normalisation, Quotient
from explainers.errors import ExplainerError


class NormChoice(Choice):
    """A way back through normalisations, and through divisions by a scale."""

    kind = "norm"

    @abstractmethod
    def normalise(self, norm: Normalisation, signal: Tensor) -> Tensor:
        """Through LayerNorm or RMSNorm."""

    def divide(self, quotient: Quotient, signal: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Through a / b, to both: b is a constant scale, unless a choice says more."""
        return signal / quotient.b if quotient.paths[0] else None, None

    def forward(self, x: Tensor, over: tuple[int, ...] | None, factor: Tensor) -> Tensor:
        """The linear form: what contributions ``x`` give, centred ``over`` these dimensions unless None. ``factor`` is scale times weight
        of the values that they are contributions to.
        """
        raise ExplainerError(f"The choice norm={self.value} has no linear form.")


class Derivative(NormChoice):
    """Mean and scale are differentiated."""

    value = "jacobian"
    title = "derivative"
    says = "Mean and scale are differentiated too."
    is_ordinary = True

    def normalise(self, norm: Normalisation, signal: Tensor) -> Tensor:
        """The Jacobian's transpose."""
        signal = norm.before_weight(signal)
        out, unit = norm.before_centring(signal), norm.unit
        return (out - unit * (signal * unit).mean(norm.over, keepdim=True)) * norm.inverse

    def divide(self, quotient: Quotient, signal: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """To a as if b were constant, and to b."""
        of_b = -signal * quotient.a / quotient.b.square() if quotient.paths[1] else None
        return super().divide(quotient, signal)[0], of_b


class ConstantScale(NormChoice):
    """The scale is a constant: Ali et al. (2022) as published, LibraGrad, AttnLRP."""

    value = "constant"
    title = "constant scale"
    says = "The scale is a constant; the mean that is taken off is differentiated."
    holds = True
    accounts = True
    has_linear_form = True

    def normalise(self, norm: Normalisation, signal: Tensor) -> Tensor:
        """Through the weight, the centring and a constant scale."""
        return norm.before_centring(norm.before_weight(signal)) * norm.inverse

    def forward(self, x: Tensor, over: tuple[int, ...] | None, factor: Tensor) -> Tensor:
        """Centred, times the scale of the real values."""
        return (x if over is None else x - x.mean(over, keepdim=True)) * factor


class ConstantMean(NormChoice):
    """Mean and scale are constants."""

    value = "constant_mean"
    title = "constant scale and mean"
    says = "Scale and mean are both constants, as in the code of Ali et al. as it ships."
    holds = True
    accounts = True

    def normalise(self, norm: Normalisation, signal: Tensor) -> Tensor:
        """Through the weight and a constant scale; the constant that is taken off is a bias."""
        signal = norm.before_weight(signal) * norm.inverse
        if norm.mean is not None:
            norm.account(signal, -norm.mean)
        return signal


class Unchanged(NormChoice):
    """As Chefer et al. (2021) have it."""

    value = "identity"
    title = "unchanged"
    says = "The signal passes unchanged."
    holds = True

    def normalise(self, norm: Normalisation, signal: Tensor) -> Tensor:
        """The signal."""
        return signal

    def divide(self, quotient: Quotient, signal: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """The signal, to a."""
        return signal if quotient.paths[0] else None, None


CHOICES: tuple[NormChoice, ...] = (Derivative(), ConstantScale(), ConstantMean(), Unchanged())
