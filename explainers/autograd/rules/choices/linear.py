"""Ways back through linear maps, sums, pools and constants.

A choice that damps outputs near zero does so at the outputs of matrix products and normalisations too.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from explainers.autograd import gradients, rounding
from explainers.autograd.relevance import Inputs
from explainers.autograd.rows import backward_on_nonzero_rows
from explainers.autograd.rules.choices.base import Choice
from explainers.autograd.rules.operands import (
    LinearAttentionOperand,
    LinearMapOperand,
    MatrixProduct,
    Normalisation,
    NormaliserOperand,
    PoolOperand,
    Sum,
)
from explainers.autograd.rules.strength import Strength
from explainers.old_names import accept_old_names

Triple = tuple[Tensor | None, Tensor | None, Tensor]


class LinearChoice(Choice):
    """Base of the choices of how a signal goes back through linear operators.

    counts_biases  whether the terms of biases are counted in the account; else biases get no signal
    """

    kind = "linear"
    counts_biases: ClassVar[bool]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        accept_old_names(cls, {"beside": "factor_of_constant"})

    @abstractmethod
    def map(self, linear: LinearMapOperand, signal: Tensor) -> Tensor:
        """Return the signal at the input of a linear map, from ``signal`` at its output."""

    @abstractmethod
    def sum(self, total: Sum, signal: Tensor) -> tuple[Tensor, Tensor]:
        """Return the signals at both operands of a + b, the sum ``total``, each in the shape of the sum, from ``signal`` at it."""

    @abstractmethod
    def scale(self, factor: Tensor | float, signal: Tensor) -> Tensor:
        """Return the signal at the path that is multiplied by a constant ``factor``, from ``signal`` at the product."""

    @abstractmethod
    def pool(self, pool: PoolOperand, signal: Tensor) -> Tensor:
        """Return the signal at the input of a sum, a mean or a pool, from ``signal`` at its output."""

    @abstractmethod
    def factor_of_constant(self, constant: Tensor, signal: Tensor) -> Tensor:
        """Return the factor by which the signal at a ``constant``, such as a class token that is concatenated with tokens, is multiplied to
        give its term in the account of the answer.
        """

    def linear_attention(self, attention: LinearAttentionOperand, signal: Tensor, weighs: bool) -> Triple:
        """Return the signals at queries, keys and values of linear attention Q (K V), each by its derivative; None for queries and keys if
        the weights are constants (``weighs`` false).
        """
        at_kv = attention.query.mT @ signal
        of_value = attention.key.mT @ at_kv
        return (signal @ attention.kv.mT, at_kv @ attention.value.mT, of_value) if weighs else (None, None, of_value)

    # What follows is applied to a signal before the choice of attention or of normalisation gets it.

    def matmul(self, product: MatrixProduct, signal: Tensor) -> Tensor:
        """Return the signal at the output of a matrix product that is to be divided between its factors: here unchanged; some choices damp
        it first.
        """
        return signal

    def normaliser(self, quotient: NormaliserOperand, signal: Tensor) -> Tensor:
        """Return the signal that is divided between dividend and normaliser of linear attention, from ``signal``, the signal at its output
        ``quotient``: here unchanged; some choices damp it first.
        """
        return signal

    def norm(self, norm: Normalisation, signal: Tensor) -> Tensor:
        """Count the bias of the normalisation ``norm`` as a bias term, and return ``signal``, the signal at its output, to which the choice
        for normalisations is then applied; some choices change the signal first.
        """
        if norm.bias is not None:
            norm.account(signal, norm.bias)
        return signal


class Derivative(LinearChoice):
    """Choice for linear operators that passes a signal back by the transpose of each map, as in the chain rule."""

    value = "jacobian"
    title = "derivative"
    says = "The signal goes back through the weights; both paths of a sum get it whole."
    carries = "gradient"
    accounts = True
    has_linear_form = True
    is_ordinary = True
    counts_biases = True

    def map(self, linear: LinearMapOperand, signal: Tensor) -> Tensor:
        """Return the signal at the input of a linear map: ``signal`` times the transposed weights. The bias times the signal is counted as
        a bias term.
        """
        if linear.bias is not None:
            linear.account(signal, linear.bias)
        return linear.pull(signal)

    def sum(self, total: Sum, signal: Tensor) -> tuple[Tensor, Tensor]:
        """Return ``signal``, the signal at the sum ``total``, twice: once for each summand. If one of the summands is a constant, its
        signal is counted as a bias term.
        """
        if not total.both:
            total.account(signal)
        return signal, signal

    def scale(self, factor: Tensor | float, signal: Tensor) -> Tensor:
        """Return ``signal``, at a product with a constant ``factor``, multiplied by that factor."""
        return signal * factor

    def pool(self, pool: PoolOperand, signal: Tensor) -> Tensor:
        """Return the signal at each number that ``pool`` joins: ``signal``, the signal at the pooled result, times the weight of the number
        in it.
        """
        return pool.backward(signal if pool.scale == 1 else signal * pool.scale)

    def factor_of_constant(self, constant: Tensor, signal: Tensor) -> Tensor:
        """Return the constant itself: the product of the signal with it is a bias term."""
        return constant


@dataclass(frozen=True)
class _WithStrength(Derivative):
    """Base of choices for linear operators that read numbers, such as γ and ε, from a rule's :class:`Strength`.

    strength  the numbers; :meth:`with_strength` makes a copy of the choice with other numbers
    """

    accounts = False
    has_linear_form = False
    is_ordinary = False
    strength: Strength = Strength()  # noqa: RUF009  it is frozen

    def with_strength(self, strength: Strength) -> Self:
        """Return a choice of this kind with the numbers of a rule's ``strength``."""
        return type(self)(strength)


class Gamma(_WithStrength):
    """Choice for linear operators that follows LRP-γ: see :func:`explainers.autograd.gradients.gamma`."""

    value = "gamma"
    title = "γ"
    says = "In linear layers outside attention, contributions of the output's sign count 1 + γ times (LRP-γ)."

    def map(self, linear: LinearMapOperand, signal: Tensor) -> Tensor:
        """Return the signal at the input of a linear map by LRP-γ; attention's projections keep the ordinary gradient."""
        if linear.role() == "attention":
            return super().map(linear, signal)
        is_pointwise = linear.weight.shape[2:].numel() == 1  # a linear layer of each token, written as a convolution
        convolves = (linear.is_convolution and not is_pointwise) or linear.embeds  # patches may be mapped by a linear layer as well
        gamma, bias = self.strength.gamma_convolution if convolves else self.strength.gamma, linear.bias
        above, below, out = gradients.gamma(linear.x, linear.weight, linear.whole_bias, signal, linear.forward, linear.backward, gamma)
        if bias is not None:
            linear.account(above, bias + gamma * bias.clamp(min=0))
            linear.account(below, bias + gamma * bias.clamp(max=0))
        return out


class Epsilon(_WithStrength):
    """Choice for linear operators that follows LRP-ε: see :func:`explainers.autograd.gradients.damp`."""

    value = "epsilon"
    title = "ε"
    says = "Each output is divided by itself plus ε, which damps outputs near zero (LRP-ε)."

    def map(self, linear: LinearMapOperand, signal: Tensor) -> Tensor:
        """Return the signal at the input of a linear map: ``signal`` damped by the map's output, times the transposed weights."""
        y, bias = linear.forward(linear.x, linear.weight), linear.whole_bias
        return super().map(linear, gradients.damp(signal, y if bias is None else y + bias, self.strength.epsilon))

    def sum(self, total: Sum, signal: Tensor) -> tuple[Tensor, Tensor]:
        """Return ``signal``, the signal at the sum ``total``, for both operands; if both are paths, the signal is damped by their sum
        first.
        """
        if not total.both:
            return super().sum(total, signal)
        signal = gradients.damp(signal, total.a + total.b, self.strength.epsilon_sum)
        return signal, signal

    def linear_attention(self, attention: LinearAttentionOperand, signal: Tensor, weighs: bool) -> Triple:
        """Return the signals at queries, keys and values of linear ``attention`` Q (K V) by LRP-ε, from ``signal`` at its output. It
        divides by each weight Q K, so the weights are computed here.
        """
        epsilon = self.strength.epsilon_sum / 2  # each product is taken twice, once for each factor
        weights = attention.query @ attention.key
        if not attention.normalised():
            signal = gradients.damp(signal, attention.output, epsilon)
        of_value = weights.mT @ signal
        if not weighs:
            return None, None, of_value
        at_weights = gradients.damp(signal @ attention.value.mT, weights, epsilon)
        return at_weights @ attention.key.mT, attention.query.mT @ at_weights, of_value

    def matmul(self, product: MatrixProduct, signal: Tensor) -> Tensor:
        """Return the signal at a matrix product, damped by the product, with a share of ε for each factor that is a path."""
        return gradients.damp(signal, product.output, self.strength.epsilon_sum / sum(product.paths))

    def normaliser(self, quotient: NormaliserOperand, signal: Tensor) -> Tensor:
        """Return ``signal``, the signal at the output ``quotient`` of linear attention, damped by that output."""
        return gradients.damp(signal, quotient.a / quotient.b, self.strength.epsilon_sum / 2)

    def norm(self, norm: Normalisation, signal: Tensor) -> Tensor:
        """Return ``signal``, the signal at the output of the normalisation ``norm``. For LayerNorm it is damped by that output."""
        if norm.mean is not None:
            signal = gradients.damp(signal, norm.output, self.strength.epsilon)
        return super().norm(norm, signal)


class _OfRelevance(LinearChoice):
    """Base of choices that split relevance in proportion, with an estimate of rounding: :mod:`explainers.autograd.relevance`.

    ``inputs``: which inputs of a linear map take a share; ``keeps_total``: whether the shares of a sum's operands are scaled to its total.
    """

    carries = "relevance"
    counts_biases = False
    inputs: ClassVar[Inputs]
    keeps_total: ClassVar[bool] = False

    def map(self, linear: LinearMapOperand, signal: Tensor) -> Tensor:
        """Return the relevance at the input of the map ``linear``, from ``signal``, the relevance of its output, divided by the z⁺ rule; at
        pixels by the z^B rule.
        """
        forward, backward = linear.forward, linear.backward
        if linear.role() == "pixels":
            is_one_image = linear.maps_rows and linear.sample_axis() is not None
            return rounding.split_image_linear(linear.x, linear.weight, signal, forward, backward, linear.inside, is_one_image)
        # Sums of terms of one sign keep their digits: here float32 is enough, and half the work.
        x, product = linear.x, linear.product
        dtype = torch.float32 if linear.double else x.dtype
        weight = linear.weight.to(dtype)

        def split(part: Tensor, x: Tensor, product: Tensor | None = None) -> Tensor:
            product = None if product is None else product.to(dtype)
            return rounding.split_linear(x.to(dtype), weight, part.to(dtype), forward, backward, self.inputs, product).to(signal.dtype)

        known = [x] if product is None else [x, product]
        return backward_on_nonzero_rows(split, signal, *known) if linear.maps_rows else split(signal, *known)

    def sum(self, total: Sum, signal: Tensor) -> tuple[Tensor, Tensor]:
        """Split ``signal``, the relevance of the sum ``total``, between its two summands in proportion, and return both parts. A constant
        takes no share, but position embeddings that are added to the embedded tokens do, and lose it, as in the published code. The shares
        of what several products of attention weights with values gave are not scaled to a total, as those of the keys of one product.
        """
        if not (total.both or total.constant_shares):
            return signal, signal
        keeps_total = self.keeps_total and not total.joins_attention
        samples = total.sample_axis() if keeps_total and total.both else None
        if samples is None:
            return rounding.split_sum(total.a, total.b, signal, keeps_total, total.accumulated_rounding())
        a, b, whole = (samples.to_front(each) for each in (total.a.expand(signal.shape), total.b.expand(signal.shape), signal))
        of_a, of_b = rounding.split_sum(a, b, whole, keeps_total, total.accumulated_rounding())
        return samples.back(of_a), samples.back(of_b)

    def scale(self, factor: Tensor | float, signal: Tensor) -> Tensor:
        """Return ``signal``, the relevance of a product of a path and a constant ``factor``, unchanged: all of it goes to the path."""
        return signal

    def pool(self, pool: PoolOperand, signal: Tensor) -> Tensor:
        """Return the relevance at the numbers that ``pool`` joins, from ``signal``, the relevance of its output. The relevance is divided
        in proportion between the numbers that have the sign of their sum; of products of two paths between all of them, as by a matrix
        product.
        """
        if pool.of_products:
            return rounding.split_total(pool.x, signal, pool.forward, pool.backward)
        return rounding.split_pool(pool.x, signal, pool.forward, pool.backward)

    def factor_of_constant(self, constant: Tensor, signal: Tensor) -> Tensor:
        """Return ones in the shape of ``signal``: the relevance at a constant is its term in the account of the answer."""
        return torch.ones_like(signal)


class ZPlus(_OfRelevance):
    """Choice for linear operators that divides relevance between positive contributions: deep Taylor decomposition as in Chefer et al.
    (2021), eq. 5, 9 and 10.
    """

    value = "z_plus"
    title = "z⁺"
    says = "Contributions of positive sign share the relevance; sums keep its total (deep Taylor)."
    inputs = "both"
    keeps_total = True


class ZPlusPositive(_OfRelevance):
    """Choice for linear operators that divides relevance between products of positive inputs and positive weights: eq. 4 of Chefer et al.
    (2021).
    """

    value = "z_plus_positive"
    title = "z⁺, positive inputs"
    says = "Positive inputs with positive weights share the relevance, negative ones get none; sums do not keep it (eq. 4)."
    inputs = "positive"


class ZPlusEach(_OfRelevance):
    """Choice for linear operators that divides relevance as the LRP baseline in the code of Chefer et al. (2021): all of it between pairs
    of positive inputs and weights, and all of it again between pairs of negative ones.
    """

    value = "z_plus_each"
    title = "z⁺, each sign"
    says = "Positive and negative inputs each get all the relevance; sums do not keep it (LRP)."
    inputs = "each"


CHOICES: tuple[LinearChoice, ...] = (Derivative(), Gamma(), Epsilon(), ZPlus(), ZPlusPositive(), ZPlusEach())
