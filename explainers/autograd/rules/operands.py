"""Facts from an operator's forward pass, which it hands to the choices of a rule on the way back.

A class that would have the name of its operator ends in ``Operand``. ``saved`` is what the operator kept, which may be computed again when
it is read: so a choice reads what it needs, and no more.

``account(signal, bias)`` notes FullGrad's bias term signal * bias, where the operator and the rule have such terms; elsewhere it does
nothing. ``accumulated_rounding()`` is that of the operator's output, in units of the last place: asked for where relevance is divided by
it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar, overload

import torch
from torch import Tensor

from explainers.autograd.queued import is_queued
from explainers.autograd.rows import backward_on_nonzero_rows
from explainers.autograd.sample_axes import SampleAxis
from explainers.models import matrix_products

__all__ = [
    "ActivationCurve",
    "LinearAttentionOperand",
    "LinearMapOperand",
    "MatrixProduct",
    "Normalisation",
    "NormaliserOperand",
    "PoolOperand",
    "Product",
    "Quotient",
    "Sum",
]

T = TypeVar("T")
Account = Callable[[Tensor, Tensor], None]
BilinearMap = Callable[[Tensor, Tensor], Tensor]

#: What a linear map is, where a rule asks: of the pixels themselves, one of attention's projections, or any other.
LinearMapRole = Literal["pixels", "attention"] | None

TINY = 1e-6  # below this |x| the ratio act(x)/x is replaced by its limit, the slope at x


@dataclass(slots=True)
class ActivationCurve:
    """The operands of y = act(x), element by element. ``saved`` holds x and, if it was kept, y; ``kept`` caches values computed from them.

    ``differentiable``: whether the results are differentiated with respect to x.
    """

    act: Callable[[Tensor], Tensor]
    saved: Callable[[], Sequence[Tensor]]
    kept: dict[str, Tensor] = field(default_factory=dict)
    differentiable: bool = False

    @property
    def x(self) -> Tensor:
        """The input of the curve."""
        return self.saved()[0] if self.differentiable else self.saved()[0].detach()

    @property
    def y(self) -> Tensor:
        """The output of the curve."""
        saved = self.saved()
        return self.act(self.x) if self.differentiable or len(saved) == 1 else saved[1].detach()

    @property
    def slope(self) -> Tensor:
        """The derivative of the activation at x."""
        return self.compute_once("slope", lambda: slope(self.act, self.x, self.differentiable))

    @property
    def ratio(self) -> Tensor:
        """The ratio y/x, and the slope where x is almost zero."""
        return self.compute_once("ratio", lambda: (smooth_ratio if self.differentiable else ratio)(self.act, self.x, self.y))

    @property
    def gate(self) -> Tensor:
        """The old name of ``ratio``, from version 0.2."""
        return self.ratio

    def compute_once(self, name: str, compute: Callable[[], Tensor]) -> Tensor:
        """Return the result of ``compute()``, which is called once in a backward pass and cached under ``name``."""
        if name not in self.kept:
            self.kept[name] = compute()
        return self.kept[name]


def slope(act: Callable[[Tensor], Tensor], x: Tensor, differentiable: bool = False) -> Tensor:
    """Return the derivative of ``act``, an element-wise function, at ``x``, a tensor of the same shape. ``differentiable``: the result can
    be differentiated with respect to x again.
    """
    with torch.enable_grad():
        x = x.view_as(x) if differentiable and x.requires_grad else x.detach().requires_grad_()
        (slope,) = torch.autograd.grad(act(x).sum(), x, create_graph=differentiable)
    return slope


def ratio(act: Callable[[Tensor], Tensor], x: Tensor, y: Tensor) -> Tensor:
    """Return y/x for ``y`` = act(``x``), an element-wise function, and its slope where x is almost zero."""
    near = x.abs() < TINY
    if not is_queued(near) and not bool(near.any()):
        return y / x
    return torch.where(near, slope(act, x), y / torch.where(near, 1.0, x))


def smooth_ratio(act: Callable[[Tensor], Tensor], x: Tensor, y: Tensor) -> Tensor:
    """Return y/x of ``y`` and ``x`` like :func:`ratio`, as a function that can also be differentiated at zero: there act(x)/x is the slope
    at x/2, up to terms of x^2.
    """
    near = x.detach().abs() < torch.finfo(x.dtype).eps ** 0.5
    if not is_queued(near) and not bool(near.any()):
        return y / x
    return torch.where(near, slope(act, x / 2, differentiable=True), y / torch.where(near, 1.0, x))


class Saved(Generic[T]):
    """Descriptor that reads one tensor, the one at index ``place``, from an operand's ``saved``."""

    def __init__(self, place: int) -> None:
        self._place = place

    @overload
    def __get__(self, operand: None, kind: type) -> Saved[T]: ...
    @overload
    def __get__(self, operand: Any, kind: type) -> T: ...
    def __get__(self, operand: Any, kind: type) -> Saved[T] | T:
        return self if operand is None else operand.saved[self._place]


@dataclass(slots=True)
class Sum:
    """The operands of a + b.

    saved                 the tensors a and b
    both                  whether both are paths of the input, and not one a constant
    constant_shares       whether a constant takes a share of relevance too
    account               function to call with the signal, which counts the constant operand as a bias term
    accumulated_rounding  returns the rounding error that the sum has gathered, in units of the last place
    sample_axis           returns where the samples lie; None if along the first axis
    joins_attention       whether a and b are both weights times values, as in A v - B v, so that the sum is one product over all their keys
    """

    saved: Sequence[Tensor]
    both: bool
    constant_shares: bool
    account: Callable[[Tensor], None]
    accumulated_rounding: Callable[[], float]
    sample_axis: Callable[[], SampleAxis | None] = lambda: None
    joins_attention: bool = False

    a = Saved[Tensor](0)  # the first operand
    b = Saved[Tensor](1)  # the second operand

    @property
    def shares(self) -> bool:
        """The old name of ``constant_shares``, from version 0.2."""
        return self.constant_shares


def is_convolution(weight: Tensor, forward: BilinearMap) -> bool:
    """Return whether ``weight``, the weight of the linear map ``forward``, has dimensions for positions or for experts besides those for
    input and output.
    """
    return weight.dim() > 2 and forward is not torch.matmul


@dataclass(slots=True)
class LinearMapOperand:
    """forward(x, weight) + bias, linear in x and in the weight. ``backward(signal, weight)`` is its transpose.

    saved           the tensors x, weight, bias and ``product``, which is forward(x, weight), if it was kept
    role            returns what the map is for, such as "attention"; known after the whole pass
    double          whether all is computed in float64
    account         function that counts a bias as a term of the answer: takes the signal at the output and the bias
    differentiable  whether the result is differentiated, so that rows without a signal count too
    added           a bias that a sum of its own adds, which also accounts for it
    embeds          whether the map comes before the embedded tokens x^1
    inside          0 where zeros pad the pixels that are x, 1 elsewhere; None where nothing pads them
    sample_axis     returns where the samples lie in x; None if along the first axis
    """

    saved: Sequence[Any]
    forward: BilinearMap
    backward: BilinearMap
    role: Callable[[], LinearMapRole]
    double: bool
    account: Account
    differentiable: bool = False
    added: Tensor | None = None
    embeds: bool = False
    inside: Tensor | None = None
    sample_axis: Callable[[], SampleAxis | None] = lambda: None

    x = Saved[Tensor](0)  # what the map takes
    weight = Saved[Tensor](1)  # its weight
    bias = Saved[Tensor | None](2)  # its bias
    product = Saved[Tensor | None](3)  # what it gives without the bias, where that was kept

    @property
    def maps_rows(self) -> bool:
        """Return whether each row of x is mapped by itself."""
        return self.forward is matrix_products.linear

    @property
    def is_convolution(self) -> bool:
        """Return whether the weight has dimensions for positions or for experts besides those for input and output."""
        return is_convolution(self.weight, self.forward)

    @property
    def whole_bias(self) -> Tensor | None:
        """Return the bias that the map adds, or that a sum right after it adds; None if there is none."""
        return self.added if self.bias is None else self.bias

    def pull(self, signal: Tensor) -> Tensor:
        """Return ``signal``, at the output of the map, multiplied by the transposed weight: the signal at its input."""
        if self.maps_rows and not self.differentiable:
            return backward_on_nonzero_rows(lambda rows: self.backward(rows, self.weight), signal)
        return self.backward(signal, self.weight)


@dataclass(slots=True)
class PoolOperand:
    """The operands of forward(x) * scale: a sum, a mean or a pool of weights that are constant and not negative. ``backward`` is forward's
    transpose. ``of_products``: x are products of two paths, so that their sum is a matrix product.
    """

    x: Tensor
    scale: float
    forward: Callable[[Tensor], Tensor]
    backward: Callable[[Tensor], Tensor]
    of_products: bool = False


@dataclass(slots=True)
class Product:
    """The operands ``a`` and ``b`` of a * b, two paths multiplied element by element."""

    a: Tensor
    b: Tensor


@dataclass(slots=True)
class MatrixProduct:
    """The operands of a @ b and their product (``saved``). ``paths``: which of the two depend on the input; ``accumulated_rounding()``: the
    rounding that the product has gathered, in units of the last place.
    """

    saved: Sequence[Tensor]
    paths: tuple[bool, bool]
    accumulated_rounding: Callable[[], float]

    a = Saved[Tensor](0)  # the first factor
    b = Saved[Tensor](1)  # the second factor
    output = Saved[Tensor](2)  # the product


@dataclass(slots=True)
class LinearAttentionOperand:
    """The operands of linear attention Q (K V).

    query, key, value, output  the tensors Q, K, V and the result
    kv                         the product K V
    normalised                 returns whether the output is divided by a normaliser, which is then stabilised instead of the output
    accumulated_rounding       returns the rounding error that the output has gathered, in units of the last place
    """

    query: Tensor
    key: Tensor
    value: Tensor
    kv: Tensor
    output: Tensor
    normalised: Callable[[], bool]
    accumulated_rounding: Callable[[], float]


@dataclass(slots=True)
class Quotient:
    """The operands of a / b, with b a scale. ``paths``: which of the two depend on the input."""

    a: Tensor
    b: Tensor
    paths: tuple[bool, bool]


@dataclass(slots=True)
class NormaliserOperand(Quotient):
    """The operands of a / b in linear attention: its output and the normaliser. ``apart``: whether b comes from a separate product."""

    apart: bool


@dataclass(slots=True)
class Normalisation:
    """The operands of a normalisation: unit * weight + bias, with unit = (x - mean) * inverse.

    saved    the tensors that its forward pass kept; ``mean`` is None if x is not centred
    over     the dimensions along which mean and scale are taken
    account  function that counts the bias as a term of the answer
    """

    saved: Sequence[Any]
    over: tuple[int, ...]
    account: Account

    @property
    def unit(self) -> Tensor:
        """The normalised tensor, before the weight."""
        x: Tensor = self.saved[0]
        return (x if self.mean is None else x - self.mean) * self.inverse

    inverse = Saved[Tensor](1)  # the scale
    mean = Saved[Tensor | None](2)  # what is taken off, None where nothing is
    weight = Saved[Tensor | None](3)  # what the unit is multiplied by
    bias = Saved[Tensor | None](4)  # what is added at last

    @property
    def output(self) -> Tensor:
        """The output of the normalisation."""
        unit = self.unit
        y = unit if self.weight is None else unit * self.weight
        return y if self.bias is None else y + self.bias

    def before_weight(self, signal: Tensor) -> Tensor:
        """Return the signal at the normalised tensor, before the weight, from ``signal`` at the output."""
        return signal if self.weight is None else signal * self.weight

    def before_centring(self, signal: Tensor) -> Tensor:
        """Return the signal at the input of the subtraction of the mean, from ``signal`` at its output; unchanged if the normalisation
        subtracts no mean.
        """
        return signal if self.mean is None else signal - signal.mean(self.over, keepdim=True)


# Their names in 0.2, one a line: packages annotate with them.
Curve = ActivationCurve
LinearAttention = LinearAttentionOperand
LinearMap = LinearMapOperand
Normaliser = NormaliserOperand
Pool = PoolOperand
