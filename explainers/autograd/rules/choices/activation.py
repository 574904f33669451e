"""Ways back through curves: GELU, SiLU, tanh, powers, and bounded gates."""

from __future__ import annotations

from abc import abstractmethod

from torch import Tensor

from explainers.autograd.rules.choices.base import Choice
from explainers.autograd.rules.choices.norm import NormChoice
from explainers.autograd.rules.operands import ActivationCurve
from explainers.errors import ExplainerError


class ActivationChoice(Choice):
    """A way back through an element-wise curve y = act(x). A signal of None: nothing goes on."""

    kind = "activation"

    @abstractmethod
    def curve(self, curve: ActivationCurve, signal: Tensor) -> Tensor | None:
        """Through a curve with act(0) = 0."""

    def gate(self, curve: ActivationCurve, signal: Tensor) -> Tensor | None:
        """Through the operator ``BoundedGate``, a sigmoid, where the signal reached it; where it multiplies a path, see ``holds``."""
        return self.curve(curve, signal)

    def power(self, curve: ActivationCurve, signal: Tensor, norm: NormChoice) -> Tensor | None:
        """Through a power of x, which may be part of a variance: by its slope where the rule differentiates scales of normalisations."""
        return self.curve(curve, signal) if norm.holds else signal * curve.slope

    def forward(self, curve: ActivationCurve, x: Tensor) -> Tensor:
        """The linear form: what contributions ``x`` give, ``curve`` holding the values that they are contributions to."""
        raise ExplainerError(f"The choice activation={self.value} has no linear form.")


class Derivative(ActivationChoice):
    """act'(x)."""

    value = "jacobian"
    title = "derivative"
    says = "The signal is multiplied by the slope of the curve."
    is_ordinary = True

    def curve(self, curve: ActivationCurve, signal: Tensor) -> Tensor:
        """Signal * act'(x)."""
        return signal * curve.slope


class HeldRatio(ActivationChoice):
    """act(x)/x, held constant: LibraGrad (Mehri et al. 2025), and the identity rule of AttnLRP (Achtibat et al. 2024)."""

    value = "gate"
    title = "gate"
    says = "The signal is multiplied by output over input, act(x)/x, taken as a constant."
    holds = True
    accounts = True
    has_linear_form = True

    def curve(self, curve: ActivationCurve, signal: Tensor) -> Tensor:
        """Signal * act(x)/x."""
        return signal * curve.ratio

    def gate(self, curve: ActivationCurve, signal: Tensor) -> None:
        """Nothing goes on: under this choice a gate is a constant."""

    def forward(self, curve: ActivationCurve, x: Tensor) -> Tensor:
        """X * act(x)/x, the quotient of the real values."""
        return x * curve.ratio


class Unchanged(ActivationChoice):
    """1: deep Taylor decomposition as Chefer et al. (2021) have it."""

    value = "identity"
    title = "unchanged"
    says = "The signal passes unchanged."
    holds = True

    def curve(self, curve: ActivationCurve, signal: Tensor) -> Tensor:
        """The signal as it came, whatever the slope."""
        return signal

    def power(self, curve: ActivationCurve, signal: Tensor, norm: NormChoice) -> Tensor:
        """The signal as it came, whatever the exponent, of a variance too."""
        return signal


CHOICES: tuple[ActivationChoice, ...] = (Derivative(), HeldRatio(), Unchanged())
