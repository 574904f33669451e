"""Ways back through normalisations, in one step or written out."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from torch import Tensor

from explainers.autograd.rules.choices.base import Choice
from explainers.autograd.rules.operands import Normalisation, Quotient
from explainers.errors import ExplainerError


class NormChoice(Choice):
    """Base of the choices of how a signal goes back through normalisations, and through divisions by a scale.

    holds_mean  whether the mean that a normalisation takes off is a constant, so that all of the signal goes to what it is taken off from
    """

    kind = "norm"
    holds_mean: ClassVar[bool] = False

    @abstractmethod
    def normalise(self, norm: Normalisation, signal: Tensor) -> Tensor:
        """Return the signal at the input of ``norm``, a LayerNorm or RMSNorm, from ``signal`` at the normalised and weighted output."""

    def divide(self, quotient: Quotient, signal: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Return the signals at both operands of a / b, from ``signal`` at the quotient. Here b is a constant scale and gets None; some
        choices differ.
        """
        return signal / quotient.b if quotient.paths[0] else None, None

    def forward(self, x: Tensor, over: tuple[int, ...] | None, factor: Tensor) -> Tensor:
        """Return what contributions ``x`` to the input of a normalisation contribute to its output: centred ``over`` these dimensions
        (None: not centred) and multiplied by ``factor``, the real scale times the weight.
        """
        raise ExplainerError(f"The choice norm={self.value} has no linear form.")


class Derivative(NormChoice):
    """Choice for normalisations that differentiates mean and scale, as in the chain rule."""

    value = "jacobian"
    title = "derivative"
    says = "Mean and scale are differentiated too."
    is_ordinary = True

    def normalise(self, norm: Normalisation, signal: Tensor) -> Tensor:
        """Return ``signal``, the signal at the output of the normalisation ``norm``, times the transposed Jacobian: the signal at its
        input.
        """
        signal = norm.before_weight(signal)
        out, unit = norm.before_centring(signal), norm.unit
        return (out - unit * (signal * unit).mean(norm.over, keepdim=True)) * norm.inverse

    def divide(self, quotient: Quotient, signal: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Return the signals at a, the dividend of ``quotient`` a / b, as if b were constant, and at b, from ``signal`` at the quotient;
        None for an operand that does not depend on the input.
        """
        of_b = -signal * quotient.a / quotient.b.square() if quotient.paths[1] else None
        return super().divide(quotient, signal)[0], of_b


class ConstantScale(NormChoice):
    """Choice for normalisations that holds the scale constant: Ali et al. (2022) as published, LibraGrad, AttnLRP."""

    value = "constant"
    title = "constant scale"
    says = "The scale is a constant; the mean that is taken off is differentiated."
    holds = True
    accounts = True
    has_linear_form = True

    def normalise(self, norm: Normalisation, signal: Tensor) -> Tensor:
        """Return the signal at the input of the normalisation ``norm``: ``signal``, passed back through its weight, its centring and a
        constant scale.
        """
        return norm.before_centring(norm.before_weight(signal)) * norm.inverse

    def forward(self, x: Tensor, over: tuple[int, ...] | None, factor: Tensor) -> Tensor:
        """Return contributions ``x``, centred ``over`` these dimensions (None: not centred) and multiplied by ``factor``, the real scale
        times the weight.
        """
        return (x if over is None else x - x.mean(over, keepdim=True)) * factor


class ConstantMean(NormChoice):
    """Choice for normalisations that holds mean and scale constant."""

    value = "constant_mean"
    title = "constant scale and mean"
    says = "Scale and mean are both constants, as in the code of Ali et al. as it ships."
    holds = True
    holds_mean = True
    accounts = True

    def normalise(self, norm: Normalisation, signal: Tensor) -> Tensor:
        """Return the signal at the input of the normalisation ``norm``: ``signal``, passed back through its weight and a constant scale;
        the subtracted mean counts as a constant bias.
        """
        signal = norm.before_weight(signal) * norm.inverse
        if norm.mean is not None:
            norm.account(signal, -norm.mean)
        return signal


class Unchanged(NormChoice):
    """Choice for normalisations that passes a signal back unchanged, as in Chefer et al. (2021)."""

    value = "identity"
    title = "unchanged"
    says = "The signal passes unchanged."
    holds = True
    holds_mean = True

    def normalise(self, norm: Normalisation, signal: Tensor) -> Tensor:
        """Return ``signal`` unchanged, as if the normalisation ``norm`` were the identity."""
        return signal

    def divide(self, quotient: Quotient, signal: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Return a pair: ``signal``, the signal at ``quotient``, for its dividend, and None for its divisor."""
        return signal if quotient.paths[0] else None, None


CHOICES: tuple[NormChoice, ...] = (Derivative(), ConstantScale(), ConstantMean(), Unchanged())
