"""Ways back through attention: its softmax, its two matrix products, and linear attention."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Self

import torch
from torch import Tensor

from explainers.autograd import rounding
from explainers.autograd.rules.choices.base import Choice
from explainers.autograd.rules.choices.linear import LinearChoice
from explainers.autograd.rules.choices.norm import ConstantScale, NormChoice
from explainers.autograd.rules.operands import LinearAttentionOperand, MatrixProduct, NormaliserOperand
from explainers.autograd.rules.strength import Strength

Pair = tuple[Tensor | None, Tensor | None]
Triple = tuple[Tensor | None, Tensor | None, Tensor | None]


class AttentionChoice(Choice):
    """Base of the choices of how a signal goes back through attention.

    part           the share of the signal that each of two multiplied paths gets
    weights_are_constant  whether no signal passes from the attention weights to queries and keys
    covers_gates   whether it also covers weights that a sigmoid makes
    """

    kind = "attention"
    part: ClassVar[float] = 1.0
    weights_are_constant: ClassVar[bool] = False
    covers_gates: ClassVar[bool] = True

    @abstractmethod
    def softmax(self, weights: Tensor, dim: int, signal: Tensor) -> Tensor | None:
        """Return the signal before the softmax over ``dim`` that gave the weights; None if no signal passes."""

    @abstractmethod
    def matmul(self, product: MatrixProduct, signal: Tensor) -> Pair:
        """Return the signals at both factors of a matrix product a @ b, from ``signal`` at the product; None for a
        factor that gets none.
        """

    @abstractmethod
    def linear_attention(self, attention: LinearAttentionOperand, signal: Tensor, linear: LinearChoice) -> Triple:
        """Return the signals at queries, keys and values of linear attention Q (K V), from ``signal`` at its output, by the rules of (Q K)
        V; None for one that gets none.
        """

    @abstractmethod
    def normaliser(self, quotient: NormaliserOperand, signal: Tensor, norm: NormChoice) -> Pair:
        """Return the signals at dividend and divisor of ``quotient``, the division of linear attention by its normaliser, from ``signal``
        at the quotient; None for one that gets none. ``norm`` is the choice for normalisations.
        """

    def weights(self, signal: Tensor) -> Tensor | None:
        """Return the signal before the curve that made the attention weights, if this curve is not softmax, from ``signal``, the signal at
        the weights. None if no signal passes.
        """
        return None if self.weights_are_constant else signal


class _OfGradients(AttentionChoice):
    carries = "gradient"

    def softmax(self, weights: Tensor, dim: int, signal: Tensor) -> Tensor | None:
        """Return the signal at the input of a softmax over ``dim`` with output ``weights``, from ``signal`` at its output: its derivative;
        None if weights are constant.
        """
        if self.weights_are_constant:
            return None
        weighed = signal * weights
        return weighed - weights * weighed.sum(dim, keepdim=True)

    def matmul(self, product: MatrixProduct, signal: Tensor) -> Pair:
        """Return the derivatives of a matrix product times the signal, at each factor that is a path: ``part`` of it, or all if only one is
        a path.
        """
        part = self.part if all(product.paths) else 1.0
        of_a = part * (signal @ product.b.mT) if product.paths[0] else None
        of_b = part * (product.a.mT @ signal) if product.paths[1] else None
        return of_a, of_b

    def linear_attention(self, attention: LinearAttentionOperand, signal: Tensor, linear: LinearChoice) -> Triple:
        """Return the signals at query, key and value of a linear ``attention``, from the ``signal`` at its output: ``part`` of the
        derivative for the values, and ``part`` squared for queries and keys, as these share the weights' part.
        """
        of_query, of_key, of_value = linear.linear_attention(attention, signal, weighs=not self.weights_are_constant)
        inner = self.part**2
        return (
            None if of_query is None else inner * of_query,
            None if of_key is None else inner * of_key,
            self.part * of_value,
        )

    def normaliser(self, quotient: NormaliserOperand, signal: Tensor, norm: NormChoice) -> Pair:
        """Split the ``signal`` at ``quotient``, the output a / b of a linear attention, into those at a and at b, its normaliser. If the
        weights are held constant, b is constant too. Else ``norm`` decides the signal at b, which is multiplied by ``part`` if b comes from
        a separate product.
        """
        of_a, of_b = (ConstantScale() if self.weights_are_constant else norm).divide(quotient, signal)
        return of_a, self.part * of_b if of_b is not None and quotient.apart else of_b


class Derivative(_OfGradients):
    """Choice for attention that passes a signal back by the ordinary derivative."""

    value = "jacobian"
    title = "derivative"
    says = "The attention weights are differentiated like everything else."
    is_ordinary = True


class Constant(_OfGradients):
    """Choice for attention that holds the attention weights constant, so that only values get a signal: Ali et al. (2022), LibraGrad."""

    value = "constant"
    title = "constant"
    says = "The attention weights are constants: the signal goes back through the values alone."
    holds = True
    accounts = True
    has_linear_form = True
    weights_are_constant = True


class ConstantHalf(_OfGradients):
    """Choice for attention that holds the attention weights constant and lets them take half of the signal: PA-LRP (Bakish et al. 2025)."""

    value = "constant_half"
    title = "constant, values half"
    says = "The attention weights are constants that take half of the signal, which ends there; the values get the other half."
    weights_are_constant = True
    part = 0.5


class Half(_OfGradients):
    """Choice for attention in which each factor of a matrix product gets half of the signal: AttnLRP (Achtibat et al. 2024)."""

    value = "half"
    title = "half each"
    says = "Each of the two products gives half of the signal to each of its factors."
    part = 0.5
    covers_gates = False


class AtTemperature(_OfGradients):
    """Choice for attention that differentiates its softmax at a temperature T: the signal goes back through the Jacobian of the softmax at
    scores / T, without the factor 1 / T of the chain rule. GIM (Edin et al. 2025).
    """

    value = "temperature"
    title = "softmax at temperature"
    says = "The softmax is differentiated where its scores are divided by T, which is 2 in GIM; the products as usual."

    def __init__(self, temperature: float = Strength().temperature) -> None:
        self.temperature = temperature

    def with_strength(self, strength: Strength) -> Self:
        """Return the choice with the temperature in ``strength``."""
        return type(self)(strength.temperature)

    def softmax(self, weights: Tensor, dim: int, signal: Tensor) -> Tensor | None:
        """Return the signal at the scores of a softmax over ``dim`` with output ``weights``, from ``signal`` at its output: its derivative
        at scores / T. A weight that is zero, as of a masked key, stays zero.
        """
        return super().softmax(softened(weights, dim, self.temperature), dim, signal)


class HalfAtTemperature(AtTemperature):
    """Choice for attention that differentiates its softmax at a temperature, and in which each factor of a matrix product gets half of the
    signal: GIM (Edin et al. 2025), whose queries and keys so get a quarter, and values half.
    """

    value = "half_temperature"
    title = "half each, softmax at temperature"
    says = "Each product gives half of the signal to each factor; the softmax is differentiated where its scores are divided by T (GIM)."
    part = 0.5
    covers_gates = False


class Cut(_OfGradients):
    """Choice for attention through which nothing goes back, so that what it adds to the tokens counts as a constant: so AGCAM's code has
    it (Leem & Seo 2024).
    """

    value = "cut"
    title = "cut"
    says = "Nothing goes back through attention: what it adds to the tokens is a constant."
    weights_are_constant = True
    part = 0.0

    def matmul(self, product: MatrixProduct, signal: Tensor) -> Pair:
        """Return zeros for both factors of ``product``, whatever the signal; None for a factor that is a constant."""
        of_a, of_b = (torch.zeros_like(each) if path else None for each, path in zip((product.a, product.b), product.paths, strict=True))
        return of_a, of_b


def softened(weights: Tensor, dim: int, temperature: float) -> Tensor:
    """Return softmax(x / ``temperature``) over ``dim`` from ``weights`` = softmax(x) alone: their powers, made to sum to 1 again."""
    # Where a weight is zero, the slope of its power is infinite: so the power of a 1 is taken, and left out.
    is_zero = weights == 0
    powers = torch.where(is_zero, 0.0, torch.where(is_zero, 1.0, weights).pow(1 / temperature))
    return powers / powers.sum(dim, keepdim=True)


class Split(AttentionChoice):
    """Choice for attention that divides relevance between the factors of a matrix product in proportion, half of the total to each: Chefer
    et al. (2021).
    """

    value = "relevance"
    title = "split"
    says = "Each product splits the relevance between its factors in proportion, and halves it."
    carries = "relevance"
    part = 0.5

    def softmax(self, weights: Tensor, dim: int, signal: Tensor) -> Tensor:
        """Return ``signal``, the relevance at the ``weights``, unchanged, as that at the logits before their softmax."""
        return signal

    def matmul(self, product: MatrixProduct, signal: Tensor) -> Pair:
        """Return ``signal``, the relevance of the matrix ``product``, split between its two factors in proportion.

        If one factor is a constant, the other takes all.
        """
        of_a, of_b = rounding.split_product(product.a, product.b, product.output, signal, product.accumulated_rounding())
        return (of_a, of_b) if all(product.paths) else (of_a * 2, of_b * 2)

    def linear_attention(self, attention: LinearAttentionOperand, signal: Tensor, linear: LinearChoice) -> Triple:
        """Return ``signal``, the relevance of linear ``attention``, divided between queries, keys and values in proportion: a quarter of
        the total each for queries and keys, half for the values.
        """
        of_query, of_key, of_value = rounding.split_linear_attention(
            attention.query, attention.key, attention.value, attention.kv, attention.output, signal, attention.accumulated_rounding()
        )
        return 0.25 * of_query, 0.25 * of_key, 0.5 * of_value

    def normaliser(self, quotient: NormaliserOperand, signal: Tensor, norm: NormChoice) -> Pair:
        """Return all of the ``signal`` at the ``quotient`` for the dividend, and None for the divisor."""
        return signal, None


CHOICES: tuple[AttentionChoice, ...] = (
    Derivative(),
    Constant(),
    ConstantHalf(),
    Half(),
    AtTemperature(),
    HalfAtTemperature(),
    Cut(),
    Split(),
)
