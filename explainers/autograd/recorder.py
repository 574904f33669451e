"""The base class of operators, and the protocol of a recording as operators and handlers use it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from functools import cache
from inspect import signature
from typing import Any, ClassVar, Literal, Protocol

from torch import Size, Tensor
from torch.autograd import Function

from explainers.autograd.nodes import Node, Nodes, Role
from explainers.autograd.rules import Rule
from explainers.autograd.sample_axes import SampleAxis
from explainers.autograd.saved_values import SavedTensors

#: What a bias belongs to: a norm, a linear map, or one of what attention gives.
BiasOf = Literal["norm", "linear", "attention"]
#: The position of a matrix product of two paths, and the index of one of its operands.
Reader = tuple[int, int]


class Operator(Function):
    """An autograd function whose ``backward`` follows the rule in force, and that says how contributions pass it.

    ``forward(ctx, *arguments, rec)`` computes what torch computes, for a :class:`Recorder`;
    ``propagate(rec, *arguments)`` is its linear form, for a :class:`Propagator`. ``title`` is its name in messages, with an article.

    keeps_operands  whether its node keeps the operands, which are saved for the backward pass anyway; ``keeps_output``: the same for the
                    output
    """

    title: str
    keeps_operands: ClassVar[bool] = False
    keeps_output: ClassVar[bool] = False

    @staticmethod
    def propagate(*args: Any, **kwargs: Any) -> Any:
        """Return the output of the operator for each copy of a sample, with the constants of the real sample. ``args`` are as in the
        operator's forward pass, after the recorder.
        """
        raise NotImplementedError


def saved_of(ctx: Any) -> Sequence[Any]:
    """Return the tensors that :meth:`Recorder.keep` kept in the autograd context ``ctx``; each is read, or computed again, when it is
    accessed.
    """
    return SavedTensors(ctx.kept_tensors) if hasattr(ctx, "kept_tensors") else ctx.saved_tensors


@cache
def argument_names(operator: type[Operator]) -> tuple[str, ...]:
    """Return the names of the arguments of ``operator``."""
    return tuple(signature(operator.forward).parameters)[1:-1]


class ReadMap(Protocol):
    """A function that reads attention maps on the way back, some queries at a time."""

    def __call__(self, block: int, queries: slice, weights: Tensor, signal: Tensor) -> None:
        """Read the attention ``weights`` of some ``queries`` of a ``block``, counted from 0, and the ``signal`` there: (B, H, queries, S)
        each.
        """


class AttendByRows(Protocol):
    """A function that computes attention whose steps are recorded some queries at a time on the way back."""

    def __call__(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        is_causal: bool,
        scale: float | None,
        record: Callable[..., tuple[Tensor, Tensor]],
    ) -> Tensor:
        """Return attention of ``query`` to ``key`` and ``value``. ``record`` records its steps for (query, key, value, mask), and returns
        its output and its weights.
        """


class Recorder(Protocol):
    """A forward pass while it is recorded, and the backward passes over it.

    double    whether everything is computed in float64
    nodes     the calls that have run so far
    is_differentiated  whether backward passes go over it; else contributions are sent forward
    is_own_code  whether it is a user's own pass (:mod:`explainers.autograd.own_code`): dropout acts, and weights get gradients
    is_differentiated_again  whether the results of the current backward pass are themselves functions of the operators' arguments
    """

    double: bool
    is_differentiated: bool
    is_own_code: bool
    is_differentiated_again: bool
    nodes: Nodes

    @property
    def attend_by_rows(self) -> AttendByRows | None:
        """The function that computes attention of long rows of tokens so that it is recorded some queries at a time on the way back; None:
        it is recorded step by step.
        """

    def active(self, value: Any) -> bool:
        """Return whether ``value`` is a tensor on the path of the input; weights and other constants are not."""

    @property
    def entered(self) -> bool:
        """Return whether the forward pass has reached the explained tokens. Biases before that point are part of these tokens and not
        counted on their own.
        """

    @property
    def position(self) -> int:
        """The number of operators applied since the explained tokens; negative before them."""

    @property
    def insides(self) -> Any:
        """The record of opaque code: :class:`explainers.autograd.opaque.Insides`."""

    @property
    def rule(self) -> Rule:
        """The rule of the current backward pass; outside of one, the ordinary gradient."""

    @property
    def read_map(self) -> ReadMap | None:
        """The function that reads attention maps in the current backward pass; None if nobody reads them."""

    @property
    def operand_signals(self) -> dict[Reader, Tensor | None] | None:
        """The signals at operands of matrix products that the current backward pass reads, None until they are there;
        None or empty: it reads none.
        """

    @property
    def starts(self) -> list[Tensor]:
        """The explained tensors reached so far: the embedded tokens x^1, and the pixels if the recording started from them."""

    def as_chosen(self, out: Any, given: Iterable[Tensor]) -> Any:
        """Return ``out``, the result of a call on the tensors ``given``, with whole numbers and truth values as the explained input has
        them, where the pass holds other inputs too.
        """

    def as_constant(self, value: Tensor) -> Tensor:
        """Return ``value``, numbers of the samples that were taken out of the gradient, as the explained input has them, where the pass
        holds other inputs too.
        """

    def before_write(self, tensor: Tensor) -> None:
        """Note that ``tensor`` is about to be overwritten."""

    def keep(self, ctx: Any, *tensors: Tensor | None) -> None:
        """Keep tensors in an autograd context ``ctx`` for the backward pass, in which :func:`saved_of` returns them one by one."""

    def record_calls(self) -> AbstractContextManager[Any]:
        """Return a context in which torch calls are recorded, for a handler that replaces a function by several others."""

    def recompute(self, value: Tensor, function: Callable[..., Tensor], *arguments: Any) -> None:
        """Note that ``value`` is ``function`` of the arguments and cheap to recompute, so that it need not be kept."""

    def ordinary_gradient(self) -> AbstractContextManager[None]:
        """Return a context in which backward passes follow the ordinary gradient without accounting."""

    def accumulated_rounding(self, position: int) -> float:
        """Return the rounding that the output of the operator at ``position`` has accumulated, in units of the last place."""

    def sample_axis(self, position: int, shape: Size) -> SampleAxis | None:
        """Return where the samples lie in the result of the sum at ``position``, of this ``shape``; None if along its first axis."""

    def note_mean(self, node: Node, operand: int) -> None:
        """Note that a ``node``, a sum, takes off the mean of a normalisation that is written out, or adds a number in the formula of an
        activation that is written out: its operand with this index.
        """

    def mean_operand(self, position: int) -> int | None:
        """Return the index of the operand of the sum at ``position`` that is the mean of a normalisation written out, or a number in the
        formula of an activation written out; None if none is.
        """

    def is_projection(self, position: int) -> bool:
        """Return whether the linear map at ``position`` makes queries, keys or values of attention."""

    def is_of_attention(self, position: int) -> bool:
        """Return whether the matrix product of two paths at ``position`` makes attention weights or multiplies values by them."""

    def is_normalised(self, position: int) -> bool:
        """Return whether the output of the linear attention at ``position`` is divided by its normaliser."""

    @property
    def single_head(self) -> bool:
        """Return whether the attention that is computed now is recorded with a single head."""

    def run(self, operator: type[Operator], *arguments: Any, role: Role | None = None) -> Tensor:
        """Apply an operator to its arguments, record it and return its output; ``role`` is the role of the output in attention or in a
        normalisation.
        """

    def watch(self, tensor: Tensor, name: str, fits: Callable[[Rule], bool] | None = None) -> None:
        """Note the function ``name`` if a signal passes ``tensor`` by the ordinary gradient under a rule for which ``fits`` is false; with
        ``fits`` None, under any rule other than the ordinary gradient.
        """

    def add_bias(self, signal: Tensor, bias: Tensor, position: int | None = None) -> None:
        """Add the bias term signal * bias of the operator at ``position`` to the account of the backward pass."""


class Propagator(Protocol):
    """A forward pass over several copies of each sample: the real sample, and for each source token a copy in which all other tokens are
    zero.

    norms  for each normalisation: its input, its output, the factor (scale times weight) of the real copy, and whether it takes the mean
           off
    """

    norms: list[tuple[Tensor, Tensor, Tensor, bool]]

    @property
    def rule(self) -> Rule:
        """The rule whose linear forms are applied."""

    def real(self, x: Tensor) -> Tensor:
        """Return ``x`` with every copy replaced by the real copy of its sample."""

    def where_real(self, y: Tensor) -> Tensor:
        """Return a bool tensor that broadcasts with ``y``, True at the rows that belong to real copies."""

    def where_constants(self, y: Tensor) -> Tensor:
        """Return a bool tensor that broadcasts with ``y``, True at the rows that take constants: real copies, and copies of constants."""

    def on_real(self, y: Tensor, constant: Tensor) -> Tensor:
        """Add ``constant`` to the rows of ``y`` that take constants, and return the sum."""

    def with_constant(self, y: Tensor, constant: Tensor) -> Tensor:
        """Add a ``constant`` that is no argument of another operator, such as a bias that is added apart, to ``y`` at the copies that it
        belongs to, and return the sum.
        """

    def with_rest(self, y: Tensor) -> Tensor:
        """Return ``y``, a sum of two paths. If biases are shared, what the copies of the source tokens do not add up to, compared with the
        real copy, is added to them.
        """

    def with_bias(self, y: Tensor, bias: Tensor, of: BiasOf) -> Tensor:
        """Add ``bias`` to ``y`` at the copies that it belongs to, and return the sum: see
        :class:`explainers.autograd.forward_decomposition.ForwardDecomposition`. ``of`` names the kind of operator that has the bias.
        """
