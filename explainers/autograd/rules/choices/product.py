"""Ways back through products of two paths, element by element."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from torch import Tensor

from explainers.autograd import rounding
from explainers.autograd.rules.choices.base import Choice
from explainers.autograd.rules.operands import MatrixProduct, Product
from explainers.errors import ExplainerError


class ProductChoice(Choice):
    """Base of the choices of how a signal goes back through a * b. ``part`` is the share of the signal that each of two paths gets."""

    kind = "product"
    part: ClassVar[float]

    @abstractmethod
    def both(self, product: Product, signal: Tensor, part: float) -> tuple[Tensor, Tensor]:
        """Return the signals at both factors of a product of two paths, from ``signal`` at the product; each gets ``part`` of it, as the
        choice for products, attention or scales says.
        """

    @abstractmethod
    def alone(self, other: Tensor, signal: Tensor) -> Tensor:
        """Return the signal at the only factor of a product that is a path; ``other`` is its constant factor."""

    def matmul(self, product: MatrixProduct, signal: Tensor) -> tuple[Tensor, Tensor]:
        """Return the signals at both factors of a matrix product of two paths that is no part of attention, from ``signal`` at the product:
        the derivative at each, times ``part``; whole where only one of them is asked for.
        """
        part = self.part if all(product.paths) else 1.0
        return part * (signal @ product.b.mT), part * (product.a.mT @ signal)

    def forward(self, a: Tensor, b: Tensor, real_a: Tensor, real_b: Tensor) -> Tensor:
        """Return what contributions ``a`` and ``b`` to the factors of a product contribute to it, by the linear form of the choice;
        ``real_a`` and ``real_b`` are the real factors.
        """
        raise ExplainerError(f"The choice product={self.value} has no linear form.")


class _OfGradients(ProductChoice):
    carries = "gradient"
    has_linear_form = True

    def both(self, product: Product, signal: Tensor, part: float) -> tuple[Tensor, Tensor]:
        """Return the derivatives of a product at both factors, each times the signal and times ``part``."""
        signal = signal if part == 1 else part * signal
        return signal * product.b, signal * product.a

    def alone(self, other: Tensor, signal: Tensor) -> Tensor:
        """Return the signal times ``other``, the constant factor: the derivative at the only factor that is a path."""
        return signal * other

    def forward(self, a: Tensor, b: Tensor, real_a: Tensor, real_b: Tensor) -> Tensor:
        """Return ``part`` times the sum of both factors ``a`` and ``b`` of a product, each multiplied by the real value of the other
        (``real_b``, ``real_a``).
        """
        return self.part * (a * real_b + real_a * b)


class Derivative(_OfGradients):
    """Choice for element-wise products that follows the product rule of calculus."""

    value = "jacobian"
    title = "derivative"
    says = "Each factor gets the whole signal."
    is_ordinary = True
    part = 1.0


class Half(_OfGradients):
    """Choice for element-wise products of two paths in which each factor gets half of the signal: LibraGrad, AttnLRP.

    A factor that a sigmoid made is no such path where gates are constant, as in gated attention or a gated residual: the other one gets the
    whole signal. That is our choice, see docs/rules.md.
    """

    value = "half"
    title = "half each"
    says = "Each factor gets half of the signal."
    accounts = True
    part = 0.5


class HeldCurve(Half):
    """Choice for element-wise products that holds a factor constant if an activation made it: CP-LRP in gated feed-forward layers, as in
    LXT, the code of Achtibat et al. 2024.
    """

    value = "constant_curve"
    title = "gate constant"
    says = "What an activation gave is a constant, and the other factor gets the whole signal; two other paths get half of it each."
    holds = True


class Split(ProductChoice):
    """Choice for element-wise products of two paths in which each factor gets half of the relevance, whatever its value."""

    value = "relevance"
    title = "split"
    says = "Each factor gets half of the relevance."
    carries = "relevance"
    part = 0.5

    def both(self, product: Product, signal: Tensor, part: float) -> tuple[Tensor, Tensor]:
        """Return half of ``signal``, the relevance of ``product``, for each of its two factors."""
        half = signal / 2
        return half, half

    def matmul(self, product: MatrixProduct, signal: Tensor) -> tuple[Tensor, Tensor]:
        """Split the relevance at a matrix product between its two factors in proportion, half of the total to each."""
        return rounding.split_product(product.a, product.b, product.output, signal, product.accumulated_rounding())

    def alone(self, other: Tensor, signal: Tensor) -> Tensor:
        """Return ``signal``, the relevance of a product, unchanged, for its only factor that is a path; ``other`` is
        the constant factor.
        """
        return signal


CHOICES: tuple[ProductChoice, ...] = (Derivative(), Half(), HeldCurve(), Split())
