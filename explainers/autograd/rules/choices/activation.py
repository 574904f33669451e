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
    on. Of an activation that a model writes as a product, x times a gate made of x, a choice is asked about the gate alone.
    """

    kind = "activation"

    @abstractmethod
    def curve(self, curve: ActivationCurve, signal: Tensor) -> Tensor | None:
        """Return the signal at the input of ``curve``, an activation with act(0) = 0, from ``signal`` at its output; None if no signal
        passes.
        """

    def gate(self, curve: ActivationCurve, signal: Tensor) -> Tensor | None:
        """Return the signal at the input of ``curve``, a sigmoid (the operator ``BoundedGate``), from ``signal`` at its output; None if no
        signal passes. For a gate multiplied with a path see ``holds``.
        """
        return self.curve(curve, signal)

    def power(self, curve: ActivationCurve, signal: Tensor, norm: NormChoice) -> Tensor | None:
        """Return the signal at the input of ``curve``, a power of x, from ``signal`` at its output. The power may be part of a variance: it
        is differentiated if ``norm``, the choice for normalisations, differentiates scales; None if no signal passes.
        """
        return self.curve(curve, signal) if norm.holds else signal * curve.slope

    def forward(self, curve: ActivationCurve, x: Tensor) -> Tensor:
        """Return what contributions ``x`` to the input of an activation contribute to its output, by the linear form of the choice;
        ``curve`` holds the real input and output.
        """
        raise ExplainerError(f"The choice activation={self.value} has no linear form.")


class Derivative(ActivationChoice):
    """Choice for activations that passes a signal back by the ordinary derivative act'(x)."""

    value = "jacobian"
    title = "derivative"
    says = "The signal is multiplied by the slope of the curve."
    is_ordinary = True

    def curve(self, curve: ActivationCurve, signal: Tensor) -> Tensor:
        """Return the signal times the derivative act'(x) of the ``curve``."""
        return signal * curve.slope


class HeldRatio(ActivationChoice):
    """Choice for activations that multiplies a signal by the ratio act(x) / x and treats this ratio as a constant: LibraGrad (Mehri et al.
    2025), and the identity rule of AttnLRP (Achtibat et al. 2024).
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
        """Return contributions ``x`` to the input of an activation times act(x)/x, the quotient of its real output and
        input in ``curve``.
        """
        return x * curve.ratio


class Unchanged(ActivationChoice):
    """Choice for activations that passes a signal back unchanged: deep Taylor decomposition as in Chefer et al. (2021)."""

    value = "identity"
    title = "unchanged"
    says = "The signal passes unchanged."
    holds = True

    def curve(self, curve: ActivationCurve, signal: Tensor) -> Tensor:
        """Return the signal unchanged, whatever the ``curve`` of the activation."""
        return signal

    def power(self, curve: ActivationCurve, signal: Tensor, norm: NormChoice) -> Tensor:
        """Return ``signal`` unchanged, whatever the power (``curve``), also for a variance."""
        return signal


CHOICES: tuple[ActivationChoice, ...] = (Derivative(), HeldRatio(), Unchanged())
