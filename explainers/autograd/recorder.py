"""What an operator is, and what operators and handlers may ask of a recording."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import cache
from inspect import signature
from typing import Any, ClassVar, Literal, Protocol

from torch import Tensor
from torch.autograd import Function

from explainers.autograd.nodes import Nodes, Role
from explainers.autograd.rules import Rule
from explainers.autograd.saved_values import SavedTensors

#: What a bias belongs to: a norm, a linear map, or one of what attention gives.
BiasOf = Literal["norm", "linear", "attention"]


class Operator(Function):
    """An autograd function whose ``backward`` follows the rule in force, and that says how contributions pass it.

    ``forward(ctx, *arguments, rec)`` computes what torch computes, for a :class:`Recorder`;
    ``propagate(rec, *arguments)`` is its linear form, for a :class:`Propagator`. ``title`` is what to call it, with its article.

    keeps_operands  whether its node keeps what it took, which is saved for the way back all the same; ``keeps_output`` likewise
    """

    title: str
    keeps_operands: ClassVar[bool] = False
    keeps_output: ClassVar[bool] = False

    @staticmethod
    def propagate(*args: Any, **kwargs: Any) -> Any:
        """What each copy gives on, with the constants of the real one."""
        raise NotImplementedError


def saved_of(ctx: Any) -> Sequence[Any]:
    """What :meth:`Recorder.keep` kept: each tensor is read, or computed again, when it is asked for."""
    return SavedTensors(ctx.kept_tensors) if hasattr(ctx, "kept_tensors") else ctx.saved_tensors


@cache
def argument_names(operator: type[Operator]) -> tuple[str, ...]:
    """What an operator calls its arguments."""
    return tuple(signature(operator.forward).parameters)[1:-1]


class Recorder(Protocol):
    """A forward pass while it is recorded, and the backward passes over it.

    double    whether everything is computed in float64
    nodes     what has run so far
    is_differentiated  whether backward passes go over it; else contributions are sent forward
    is_own_code  whether it is a user's own pass (:mod:`explainers.autograd.own_code`): dropout acts, and weights get gradients
    is_differentiated_again  whether what the backward pass under way brings back is a function of what the operators took
    """

    double: bool
    is_differentiated: bool
    is_own_code: bool
    is_differentiated_again: bool
    nodes: Nodes

    def active(self, value: Any) -> bool:
        """Whether ``value`` is a tensor on the path of the input; weights and other constants are not."""

    @property
    def entered(self) -> bool:
        """Whether the forward pass has reached the explained tokens: biases before them are part of them."""

    @property
    def position(self) -> int:
        """How many operators were applied since the explained tokens; before them, less than zero."""

    @property
    def insides(self) -> Any:
        """What was recorded inside opaque code: :class:`explainers.autograd.opaque.Insides`."""

    @property
    def rule(self) -> Rule:
        """The rule that the backward pass under way follows; beside one, the ordinary gradient."""

    @property
    def starts(self) -> list[Tensor]:
        """What is explained, as far as the forward pass has come: x^1, and the pixels where it was recorded from them."""

    def before_write(self, tensor: Tensor) -> None:
        """Something is about to write into ``tensor``."""

    def keep(self, ctx: Any, *tensors: Tensor | None) -> None:
        """Keep tensors for the way back, where :func:`saved_of` gives them one by one."""

    def recompute(self, value: Tensor, function: Callable[..., Tensor], *arguments: Any) -> None:
        """Say that ``value`` is ``function`` of the arguments and cheap to compute again: it need not be kept."""

    def ordinary_gradient(self) -> AbstractContextManager[None]:
        """Follow the ordinary gradient for a while, without accounting for anything."""

    def accumulated_rounding(self, position: int) -> float:
        """The rounding that what the operator at ``position`` gives has gathered, in units of the last place."""

    def is_projection(self, position: int) -> bool:
        """Whether the linear map at ``position`` makes queries, keys or values of attention."""

    def is_normalised(self, position: int) -> bool:
        """Whether what the linear attention at ``position`` gives is divided by its normaliser."""

    @property
    def single_head(self) -> bool:
        """Whether the attention computed now is to have one head."""

    def run(self, operator: type[Operator], *arguments: Any, role: Role | None = None) -> Tensor:
        """Apply an operator; ``role`` is what the result is to attention or to a normalisation."""

    def watch(self, tensor: Tensor, name: str, fits: Callable[[Rule], bool] | None = None) -> None:
        """Note ``name`` if a signal passes ``tensor`` by ordinary gradient under a rule that wants something else: one that it does not
        fit; None: that is not the ordinary gradient.
        """

    def add_bias(self, signal: Tensor, bias: Tensor) -> None:
        """Account for the bias term signal * bias."""


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

    def with_rest(self, y: Tensor) -> Tensor:
        """A sum of two paths, with what its copies lack of the real one where that is shared among them."""

    def with_bias(self, y: Tensor, bias: Tensor, of: BiasOf) -> Tensor:
        """Add a bias where it belongs: see :class:`explainers.autograd.forward_decomposition.ForwardDecomposition`."""
