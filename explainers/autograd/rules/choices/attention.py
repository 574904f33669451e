"""Ways back through attention: its softmax, its two matrix products, and linear attention."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from torch import Tensor

from explainers.autograd import rounding
from explainers.autograd.rules.choices.base import Choice
from explainers.autograd.rules.choices.linear import LinearChoice
from explainers.autograd.rules.choices.norm import ConstantScale, NormChoice
from explainers.autograd.rules.operands import LinearAttentionOperand, MatrixProduct, NormaliserOperand

Pair = tuple[Tensor | None, Tensor | None]
Triple = tuple[Tensor | None, Tensor | None, Tensor | None]


class AttentionChoice(Choice):
    """A way back through attention.

    part           of the signal at a product of two paths, what each gets
    weights_are_constant  whether nothing goes on from the attention weights to what they were made of
    covers_gates   whether it says what to do where the weights are made by a sigmoid
    """

    kind = "attention"
    part: ClassVar[float] = 1.0
    weights_are_constant: ClassVar[bool] = False
    covers_gates: ClassVar[bool] = True

    @abstractmethod
    def softmax(self, weights: Tensor, dim: int, signal: Tensor) -> Tensor | None:
        """Through the softmax over ``dim`` that gave the weights."""

    @abstractmethod
    def matmul(self, product: MatrixProduct, signal: Tensor) -> Pair:
        """Through a @ b, to both."""

    @abstractmethod
    def linear_attention(self, attention: LinearAttentionOperand, signal: Tensor, linear: LinearChoice) -> Triple:
        """Through Q (K V), to queries, keys and values, by the rules of (Q K) V."""

    @abstractmethod
    def normaliser(self, quotient: NormaliserOperand, signal: Tensor, norm: NormChoice) -> Pair:
        """Through the division of linear attention by its normaliser, to both."""

    def weights(self, signal: Tensor) -> Tensor | None:
        """Through attention weights that another curve than softmax made."""
        return None if self.weights_are_constant else signal


class _OfGradients(AttentionChoice):
    carries = "gradient"

    def softmax(self, weights: Tensor, dim: int, signal: Tensor) -> Tensor | None:
        """The derivative, or nothing."""
        if self.weights_are_constant:
            return None
        weighed = signal * weights
        return weighed - weights * weighed.sum(dim, keepdim=True)

    def matmul(self, product: MatrixProduct, signal: Tensor) -> Pair:
        """A part of the derivative each. A constant takes no share."""
        part = self.part if all(product.paths) else 1.0
        of_a = part * (signal @ product.b.mT) if product.paths[0] else None
        of_b = part * (product.a.mT @ signal) if product.paths[1] else None
        return of_a, of_b

    def linear_attention(self, attention: LinearAttentionOperand, signal: Tensor, linear: LinearChoice) -> Triple:
        """A part for the values, and of the weights' part once more one each for queries and keys."""
        of_query, of_key, of_value = linear.linear_attention(attention, signal, weighs=not self.weights_are_constant)
        inner = self.part**2
        return (
            None if of_query is None else inner * of_query,
            None if of_key is None else inner * of_key,
            self.part * of_value,
        )

    def normaliser(self, quotient: NormaliserOperand, signal: Tensor, norm: NormChoice) -> Pair:
        """Where weights are constant, so is their sum. Else it is a scale, and follows the choice of normalisation; of a product of its
        own, it holds the part of the signal that is the weights'.
        """
        of_a, of_b = (ConstantScale() if self.weights_are_constant else norm).divide(quotient, signal)
        return of_a, self.part * of_b if of_b is not None and quotient.apart else of_b


class Derivative(_OfGradients):
    """The derivative of all of it."""

    value = "jacobian"
    title = "derivative"
    says = "The attention weights are differentiated like everything else."
    is_ordinary = True


class Constant(_OfGradients):
    """The weights are constants: Ali et al. (2022), LibraGrad."""

    value = "constant"
    title = "constant"
    says = "The attention weights are constants: the signal goes back through the values alone."
    holds = True
    accounts = True
    has_linear_form = True
    weights_are_constant = True


class ConstantHalf(_OfGradients):
    """The weights are constants that take half: PA-LRP (Bakish et al. 2025)."""

    value = "constant_half"
    title = "constant, values half"
    says = "The attention weights are constants that take half of the signal, which ends there; the values get the other half."
    weights_are_constant = True
    part = 0.5


class Half(_OfGradients):
    """Half for each factor: AttnLRP (Achtibat et al. 2024)."""

    value = "half"
    title = "half each"
    says = "Each of the two products gives half of the signal to each of its factors."
    part = 0.5
    covers_gates = False


class Split(AttentionChoice):
    """Relevance in proportion, halved: Chefer et al. (2021)."""

    value = "relevance"
    title = "split"
    says = "Each product splits the relevance between its factors in proportion, and halves it."
    carries = "relevance"
    part = 0.5

    def softmax(self, weights: Tensor, dim: int, signal: Tensor) -> Tensor:
        """The relevance."""
        return signal

    def matmul(self, product: MatrixProduct, signal: Tensor) -> Pair:
        """In proportion. The other factor, where it is a constant, takes no share."""
        of_a, of_b = rounding.split_product(product.a, product.b, product.output, signal, product.accumulated_rounding())
        return (of_a, of_b) if all(product.paths) else (of_a * 2, of_b * 2)

    def linear_attention(self, attention: LinearAttentionOperand, signal: Tensor, linear: LinearChoice) -> Triple:
        """In proportion; a quarter for queries and keys each, half for the values."""
        of_query, of_key, of_value = rounding.split_linear_attention(
            attention.query, attention.key, attention.value, attention.kv, attention.output, signal, attention.accumulated_rounding()
        )
        return 0.25 * of_query, 0.25 * of_key, 0.5 * of_value

    def normaliser(self, quotient: NormaliserOperand, signal: Tensor, norm: NormChoice) -> Pair:
        """All to what is divided."""
        return signal, None


CHOICES: tuple[AttentionChoice, ...] = (Derivative(), Constant(), ConstantHalf(), Half(), Split())
