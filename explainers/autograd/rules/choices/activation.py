"""Ways back through curves: GELU, SiLU, tanh, powers, and bounded gates."""

from __future__ import annotations

from abc import abstractmethod

from torch import Tensor

from explainers.autograd.rules.choices.base import Choice
from explainers.autograd.rules.choices.norm import NormChoice
from explainers.autograd.rules.operands import ActivationCurve
from explainers.errors import ExplainerError


class ActivationChoice(Choice):
    """Base of the choices of how a signal goes back through an element-wise curve y = act(x). A signal of None means that nothing is passed
    on.
    """

    kind = "activation"

    @abstractmethod
    def curve(self, curve: ActivationCurve, signal: Tensor) -> Tensor | None:
        """Propagate a signal through an activation with act(0) = 0."""

    def gate(self, curve: ActivationCurve, signal: Tensor) -> Tensor | None:
        """Propagate a signal through the operator ``BoundedGate``, a sigmoid; for a gate multiplied with a path see ``holds``."""
        return self.curve(curve, signal)

    def power(self, curve: ActivationCurve, signal: Tensor, norm: NormChoice) -> Tensor | None:
        """Propagate a signal through a power of x, possibly part of a variance: by its slope if the rule differentiates scales of
        normalisations.
        """
        return self.curve(curve, signal) if norm.holds else signal * curve.slope

    def forward(self, curve: ActivationCurve, x: Tensor) -> Tensor:
        """Apply the linear form to contributions ``x``; ``curve`` holds the values that they are contributions to."""
        raise ExplainerError(f"The choice activation={self.value} has no linear form.")


class Derivative(ActivationChoice):
    """Choice of the ordinary derivative act'(x)."""

    value = "jacobian"
    title = "derivative"
    says = "The signal is multiplied by the slope of the curve."
    is_ordinary = True

    def curve(self, curve: ActivationCurve, signal: Tensor) -> Tensor:
        """Return the signal times the derivative act'(x) of the ``curve``."""
        return signal * curve.slope


class HeldRatio(ActivationChoice):
    """Choice that multiplies by act(x)/x, held constant: LibraGrad (Mehri et al. 2025), and the identity rule of AttnLRP (Achtibat et al.
    2024).
    """

    value = "gate"
    title = "gate"
    says = "The signal is multiplied by output over input, act(x)/x, taken as a constant."
    holds = True
    accounts = True
    has_linear_form = True

    def curve(self, curve: ActivationCurve, signal: Tensor) -> Tensor:
        """Return the signal times act(x)/x, the output of the ``curve`` over its input."""
        return signal * curve.ratio

    def gate(self, curve: ActivationCurve, signal: Tensor) -> None:
        """Return None: under this choice a gate is a constant, so no signal reaches it."""

    def forward(self, curve: ActivationCurve, x: Tensor) -> Tensor:
        """Multiply contributions by act(x)/x, the quotient of the real values."""
        return x * curve.ratio


class Unchanged(ActivationChoice):
    """Choice that passes the signal unchanged: deep Taylor decomposition as in Chefer et al. (2021)."""

    value = "identity"
    title = "unchanged"
    says = "The signal passes unchanged."
    holds = True

    def curve(self, curve: ActivationCurve, signal: Tensor) -> Tensor:
        """Return the signal unchanged, whatever the ``curve`` of the activation."""
        return signal

    def power(self, curve: ActivationCurve, signal: Tensor, norm: NormChoice) -> Tensor:
        """Return the signal unchanged, whatever the power (``curve``), also for a variance."""
        return signal


CHOICES: tuple[ActivationChoice, ...] = (Derivative(), HeldRatio(), Unchanged())
