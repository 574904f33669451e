"""What an operator is, and what operators and handlers may ask of a recording, and tell it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

from torch import Tensor
from torch.autograd import Function

from explainers.autograd.rules import Rule


class Operator(Function):
    """An autograd function whose ``backward`` follows the rule in force, and that says how contributions pass it.

    ``forward(ctx, *arguments, rec)`` computes what torch computes, for a :class:`Recorder`;
    ``propagate(rec, *arguments)`` is its linear form, for a :class:`Propagator`. ``title`` is what to call it, with its article.
    """

    title: str

    @staticmethod
    def propagate(*args: Any, **kwargs: Any) -> Any:
        """What each copy gives on, with the constants of the real one."""
        raise NotImplementedError


class Recorder(Protocol):
    """A forward pass while it is recorded, and the backward passes over it.

    entered   whether the forward pass has reached the explained tokens: biases before them are part of them
    double    whether everything is computed in float64
    is_differentiated  whether backward passes go over it; else contributions are sent forward
    insides   what was recorded inside opaque code: :class:`explainers.autograd.opaque.Insides`
    position  how many operators were applied since the explained tokens; before them, less than zero
    """

    entered: bool
    double: bool
    is_differentiated: bool
    position: int
    insides: Any

    @property
    def rule(self) -> Rule:
        """The rule that the backward pass under way follows; beside one, the ordinary gradient."""

    @property
    def starts(self) -> list[Tensor]:
        """What is explained, as far as the forward pass has come: x^1, and the pixels where it was recorded from them."""

    def before_write(self, tensor: Tensor) -> None:
        """Something is about to write into ``tensor``."""

    def ordinary_gradient(self) -> AbstractContextManager[None]:
        """Follow the ordinary gradient for a while, without accounting for anything."""

    def gathered(self, position: int) -> float:
        """The rounding that what the operator at ``position`` gives has gathered, in units of the last place."""

    @property
    def single_head(self) -> bool:
        """Whether the attention computed now is to have one head."""

    @property
    def last_attention(self) -> Tensor:
        """The attention map computed last."""

    def run(self, operator: type[Operator], *arguments: Any) -> Tensor:
        """Apply an operator."""

    def watch(self, tensor: Tensor, name: str, fits: Callable[[Rule], bool] | None = None) -> None:
        """Note ``name`` if a signal passes ``tensor`` by ordinary gradient under a rule that wants something else: one that it does not
        fit; None: that is not the ordinary gradient.
        """

    def add_bias(self, signal: Tensor, bias: Tensor) -> None:
        """Account for the bias term signal * bias."""

    def saw_attention(self, weights: Tensor) -> None:
        """Take note of a softmax over keys: (B, H, queries, keys)."""

    def saw_parts(self, query: Tensor, key: Tensor, value: Tensor, weights: Tensor, output: Tensor) -> None:
        """Take note of what one attention was made of."""

    def saw_product(self, a: Tensor, b: Tensor, product: Tensor, attended: bool) -> None:
        """Take note of a product of two paths: of attention weights and values where ``attended``."""

    def saw_values(self, value: Tensor) -> None:
        """Take note of what attention weights multiply."""

    def saw_attended(self, *paths: Tensor) -> None:
        """Take note of the factors of attention's products: queries, keys, values."""

    def saw_linear(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> None:
        """Take note of a linear layer."""

    def saw_constant(self, constant: Tensor, total: Tensor) -> None:
        """Take note of a constant that was added to a path, and of their sum."""

    def saw_sum(self, total: Tensor) -> None:
        """Take note of a sum of two paths."""


class Propagator(Protocol):
    """A forward pass of copies of each sample: the real one, and for each source token one that holds it alone.

    norms   of each normalisation: input, output, the factor (scale times weight) of the real copy
    """

    norms: list[tuple[Tensor, Tensor, Tensor]]

    @property
    def rule(self) -> Rule:
        """The rule whose linear forms are applied."""

    def real(self, x: Tensor) -> Tensor:
        """The real copy of each sample at the place of all its copies."""

    def where_real(self, y: Tensor) -> Tensor:
        """bool, to be broadcast with ``y``: which of its rows belong to real copies."""

    def on_real(self, y: Tensor, constant: Tensor) -> Tensor:
        """Add a constant to the real copies alone."""

    def with_bias(self, y: Tensor, bias: Tensor) -> Tensor:
        """Add a bias where it belongs: see :class:`explainers.autograd.propagation.Propagation`."""
