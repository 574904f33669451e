"""Ways back through normalisations, in one step or written out."""

from __future__ import annotations

from abc import abstractmethod

from torch import Tensor

from explainers.autograd.rules.choices.base import Choice
from explainers.autograd.rules.operands import Normalisation, Quotient
from explainers.errors import ExplainerError


class NormChoice(Choice):
    """Base of the choices of how a signal goes back through normalisations, and through divisions by a scale."""

    kind = "norm"

    @abstractmethod
    def normalise(self, norm: Normalisation, signal: Tensor) -> Tensor:
        """Return the signal at the input of LayerNorm or RMSNorm."""

    def divide(self, quotient: Quotient, signal: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Propagate a signal through a / b, to both operands; b is a constant scale, unless a choice says otherwise."""
        return signal / quotient.b if quotient.paths[0] else None, None

    def forward(self, x: Tensor, over: tuple[int, ...] | None, factor: Tensor) -> Tensor:
        """Apply the linear form to contributions ``x``, centred ``over`` these dimensions unless None. ``factor`` is scale times weight of
        the values that they are contributions to.
        """
        raise ExplainerError(f"The choice norm={self.value} has no linear form.")


class Derivative(NormChoice):
    """Choice in which mean and scale are differentiated."""

    value = "jacobian"
    title = "derivative"
    says = "Mean and scale are differentiated too."
    is_ordinary = True

    def normalise(self, norm: Normalisation, signal: Tensor) -> Tensor:
        """Return the signal times the transposed Jacobian of the normalisation."""
        signal = norm.before_weight(signal)
        out, unit = norm.before_centring(signal), norm.unit
        return (out - unit * (signal * unit).mean(norm.over, keepdim=True)) * norm.inverse

    def divide(self, quotient: Quotient, signal: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Return the signals at the dividend a of a / b, as if b were constant, and at b."""
        of_b = -signal * quotient.a / quotient.b.square() if quotient.paths[1] else None
        return super().divide(quotient, signal)[0], of_b


class ConstantScale(NormChoice):
    """Choice in which the scale is constant: Ali et al. (2022) as published, LibraGrad, AttnLRP."""

    value = "constant"
    title = "constant scale"
    says = "The scale is a constant; the mean that is taken off is differentiated."
    holds = True
    accounts = True
    has_linear_form = True

    def normalise(self, norm: Normalisation, signal: Tensor) -> Tensor:
        """Propagate a signal through the weight, the centring and a constant scale."""
        return norm.before_centring(norm.before_weight(signal)) * norm.inverse

    def forward(self, x: Tensor, over: tuple[int, ...] | None, factor: Tensor) -> Tensor:
        """Centre contributions and multiply them by the scale of the real values."""
        return (x if over is None else x - x.mean(over, keepdim=True)) * factor


class ConstantMean(NormChoice):
    """Choice in which mean and scale are constants."""

    value = "constant_mean"
    title = "constant scale and mean"
    says = "Scale and mean are both constants, as in the code of Ali et al. as it ships."
    holds = True
    accounts = True

    def normalise(self, norm: Normalisation, signal: Tensor) -> Tensor:
        """Propagate a signal through the weight and a constant scale; the subtracted mean counts as a constant bias."""
        signal = norm.before_weight(signal) * norm.inverse
        if norm.mean is not None:
            norm.account(signal, -norm.mean)
        return signal


class Unchanged(NormChoice):
    """Choice that passes the signal through a normalisation unchanged, as in Chefer et al. (2021)."""

    value = "identity"
    title = "unchanged"
    says = "The signal passes unchanged."
    holds = True

    def normalise(self, norm: Normalisation, signal: Tensor) -> Tensor:
        """Return the signal unchanged, as if the normalisation were the identity."""
        return signal

    def divide(self, quotient: Quotient, signal: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Return the signal at a quotient for its dividend, and None for its divisor."""
        return signal if quotient.paths[0] else None, None


CHOICES: tuple[NormChoice, ...] = (Derivative(), ConstantScale(), ConstantMean(), Unchanged())
