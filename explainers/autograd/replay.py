"""Operators in a user's own passes: their way back can itself be differentiated, and their weights get gradients.

An operator keeps some numbers of its forward pass and asks them on the way back. Where what comes back shall be differentiated again
(``create_graph=True``), its forward pass is run once more with gradients on, so that these numbers are functions of what it took, and its
way back is made of torch's own differentiable functions. Nothing of this is written a second time for single operators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.autograd import Function

from explainers.autograd.operators import LinearMap, Softmax
from explainers.autograd.recorder import AttendByRows, Operator, Reader, ReadMap
from explainers.autograd.rules import Rule
from explainers.errors import ExplainerError
from explainers.models import matrix_products

ORDINARY = Rule(name="gradient")


@dataclass(eq=False)
class Place:
    """Facts about the use of one operator in the model, which are known only after later operators have run.

    is_projection  whether a linear map makes queries, keys or values, or takes what attention gives
    is_normalised  whether the output of linear attention is divided by a normaliser
    is_attention   whether a softmax gives attention weights, which multiply values, or a matrix product of two paths makes such weights or
                   multiplies values by them
    mean_operand   which operand of a sum is the mean of a normalisation that is written out; None if none is
    """

    is_projection: bool = False
    is_normalised: bool = False
    is_attention: bool = False
    mean_operand: int | None = None


class RuleSource(Protocol):
    """An object that says which rule a backward pass follows at the moment."""

    @property
    def rule(self) -> Rule:
        """The rule in force; outside of all blocks the ordinary gradient."""


@dataclass
class OperatorView:
    """A stand-in for a recording, for a single operator that is run again: it has the rule and the facts that the operator's passes read
    from a recording.
    """

    rule: Rule
    place: Place
    is_differentiated_again: bool = False
    double = False
    entered = False
    is_own_code = True
    attend_by_rows: AttendByRows | None = None
    read_map: ReadMap | None = None
    operand_signals: dict[Reader, Tensor | None] | None = None
    position = 0

    def keep(self, ctx: Any, *tensors: Tensor | None) -> None:
        """Keep ``tensors`` in ``ctx`` for the backward pass; if that is differentiated, as functions of the operator's arguments."""
        ctx.save_for_backward(*tensors)

    def recompute(self, value: Tensor, function: Callable[..., Tensor], *arguments: Any) -> None:
        """Do nothing: a user's own pass keeps its values and computes none again."""

    def mean_operand(self, position: int) -> int | None:
        """Return which operand of the sum is the mean of a normalisation written out. ``position`` is not read: the view is of one
        operator.
        """
        return self.place.mean_operand

    def is_projection(self, position: int) -> bool:
        """Return whether the linear map makes queries, keys or values of attention. ``position`` is not read: the view
        is of one operator.
        """
        return self.place.is_projection

    def is_of_attention(self, position: int) -> bool:
        """Return whether the matrix product makes attention weights or multiplies values by them. ``position`` is not read: the view is of
        one operator.
        """
        return self.place.is_attention

    def is_normalised(self, position: int) -> bool:
        """Return whether the output of the linear attention is divided by its normaliser. ``position`` is not read: the view is of one
        operator.
        """
        return self.place.is_normalised


class Kept:
    """Stand-in for autograd's context: the tensors that an operator saves in its forward pass, and which of its arguments need a gradient
    (``needs_input_grad``).
    """

    saved_tensors: tuple[Tensor | None, ...] = ()

    def __init__(self, needs_input_grad: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs_input_grad

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Save tensors for the backward pass."""
        self.saved_tensors = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Do nothing: a signal of None stays None here."""


@dataclass(eq=False)
class Call:
    """One call of an operator: its arguments, for each whether it is on a path from the input, the values that it saved (``kept``), and its
    output.
    """

    operator: type[Operator]
    arguments: tuple[Any, ...]
    is_path: tuple[bool, ...]
    place: Place
    source: RuleSource
    kept: Kept = field(init=False)
    output: Tensor | None = None

    def run(self) -> None:
        """Compute the output of the operator and keep it, without a graph."""
        with torch.no_grad():
            self.kept, self.output = self.run_once(self.arguments, ORDINARY)

    def run_once(self, arguments: tuple[Any, ...], rule: Rule, differentiable: bool = False) -> tuple[Kept, Tensor]:
        """Run the operator's forward pass on its ``arguments`` under ``rule``; return the tensors that it kept, and its output.
        ``differentiable`` is True if the backward pass will itself be differentiated.
        """
        kept = Kept((*self.is_path, False))
        return kept, self.operator.forward(kept, *arguments, OperatorView(rule, self.place, differentiable))

    def rule(self) -> Rule:
        """Return the rule that the operator follows now; the ordinary gradient for a softmax that weighs no values, such as one over
        classes.
        """
        return ORDINARY if self.operator is Softmax and not self.place.is_attention else self.source.rule

    def save(self, ctx: Any, tensors: tuple[Tensor | None, ...] = ()) -> None:
        """Have autograd keep in ``ctx`` the tensors among the arguments, and these ``tensors``; the other arguments are kept here."""
        of_arguments = tuple(a for a in self.arguments if isinstance(a, Tensor))
        ctx.save_for_backward(*of_arguments, *tensors)
        ctx.autocast = _autocast_of(next(iter(of_arguments)))
        ctx.places = tuple(i for i, a in enumerate(self.arguments) if isinstance(a, Tensor))
        ctx.settings = tuple(None if isinstance(a, Tensor) else a for a in self.arguments)
        ctx.set_materialize_grads(False)


def _load_arguments(ctx: Any) -> tuple[tuple[Any, ...], tuple[Tensor | None, ...]]:
    """Return the arguments of an operator from ``ctx``, the autograd context in which :meth:`Call.save` kept them, and the other tensors
    saved there.
    """
    saved, arguments = ctx.saved_tensors, list(ctx.settings)
    for place, tensor in zip(ctx.places, saved, strict=False):
        arguments[place] = tensor
    return tuple(arguments), saved[len(ctx.places) :]


def _autocast_of(tensor: Tensor) -> tuple[str, bool, torch.dtype]:
    device = tensor.device.type
    return device, torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)


@contextmanager
def _as_in_forward(ctx: Any) -> Iterator[None]:
    """Run the code inside this context without function modes and with the autocast settings that ``ctx`` has kept from its forward
    pass.
    """
    device, enabled, dtype = ctx.autocast
    with torch._C.DisableTorchFunction():
        if enabled or torch.is_autocast_enabled(device):
            with torch.autocast(device, dtype, enabled):
                yield
        else:
            yield


def replay(operator: type[Operator], arguments: tuple[Any, ...], is_path: tuple[bool, ...], place: Place, source: RuleSource) -> Tensor:
    """Apply ``operator`` to ``arguments`` and return its output as a node of autograd's graph. Its backward pass follows the rule that
    ``source`` has at that time. ``is_path`` says which arguments depend on the input, ``place`` what the operator is used for.
    """
    call = Call(operator, arguments, is_path, place, source)
    call.run()
    assert call.output is not None
    weights = [a for a, path in zip(arguments, is_path, strict=True) if isinstance(a, Tensor) and a.requires_grad and not path]
    token = _Weights.apply(call, *weights) if weights else None  # type: ignore[no-untyped-call]
    paths = [a for a, path in zip(arguments, is_path, strict=True) if path]
    out: Tensor = _Replayed.apply(call, token, *paths)  # type: ignore[no-untyped-call]
    return out


class _Replayed(Function):
    """An autograd node of an operator whose output is already known; its backward pass follows a rule. The operator's weights get their
    signal through ``token``, the output of :class:`_Weights`.
    """

    @staticmethod
    def forward(ctx: Any, call: Call, token: Tensor | None, *paths: Tensor) -> Tensor:
        out, call.output = call.output, None
        assert out is not None
        call.save(ctx, call.kept.saved_tensors)
        call.kept.saved_tensors, call.arguments = (), ()  # autograd's from now on
        ctx.call, ctx.has_token = call, token is not None
        return out

    @staticmethod
    def backward(ctx: Any, *signals: Tensor | None) -> Any:
        (signal,) = signals
        call: Call = ctx.call
        if signal is None:
            return (None,) * (2 + sum(call.is_path))
        differentiable = torch.is_grad_enabled()
        rule = call.rule()
        with _as_in_forward(ctx):
            arguments, saved = _load_arguments(ctx)
            if differentiable:
                kept, _ = call.run_once(arguments, rule, differentiable)
            else:
                kept = copy(call.kept)
                kept.saved_tensors = saved
            kept.rec = OperatorView(rule, call.place, differentiable)  # type: ignore[attr-defined]
            given = call.operator.backward(kept, signal)
            given = given if isinstance(given, tuple) else (given,)
            of_paths = [part for part, path in zip(given, call.is_path, strict=False) if path]
            if differentiable:
                of_paths = [None if part is None else _First.apply(part, call.source) for part in of_paths]  # type: ignore[no-untyped-call]
        return None, signal if ctx.has_token else None, *of_paths


class _Weights(Function):
    """An autograd node of zeros in the shape of an operator's output, without memory; it passes the signal that arrives on to the
    operator's weights.
    """

    @staticmethod
    def forward(ctx: Any, call: Call, *weights: Tensor) -> Tensor:
        assert call.output is not None
        call.save(ctx)
        ctx.call = call
        ctx.wanted = tuple(i for i, a in enumerate(call.arguments) if any(a is weight for weight in weights))
        return call.output.new_zeros(()).expand(call.output.shape)

    @staticmethod
    def backward(ctx: Any, *signals: Tensor | None) -> Any:
        (signal,) = signals
        call: Call = ctx.call
        if signal is None:
            return (None,) * (1 + len(ctx.wanted))
        differentiable, rule = torch.is_grad_enabled(), call.source.rule
        if not rule.choice("linear").is_ordinary:
            raise ExplainerError(
                f"The rule {rule.name} says how a signal reaches inputs and gives weights no gradient: ask for gradients of inputs alone, "
                "or use a rule with linear=jacobian, such as libra or attnlrp."
            )
        with _as_in_forward(ctx):
            arguments, _ = _load_arguments(ctx)
            arrived = _at_weights(call, arguments, ctx.wanted, signal, differentiable)
            if differentiable:
                arrived = tuple(_First.apply(part, call.source) for part in arrived)  # type: ignore[no-untyped-call]
        return None, *arrived


def _at_weights(
    call: Call, arguments: tuple[Any, ...], wanted: tuple[int, ...], signal: Tensor, differentiable: bool
) -> tuple[Tensor, ...]:
    """Return ``signal`` times the derivatives of the output of ``call`` with respect to its arguments at the indices ``wanted``, its
    weights, with all other ``arguments`` held constant; they can be differentiated again if ``differentiable``.
    """
    if (
        call.operator is LinearMap
        and arguments[3] is matrix_products.linear
        and signal.dim() > 1
        and not torch.is_autocast_enabled(signal.device.type)
    ):
        rows = signal.flatten(0, -2)  # spares the map itself, which most of the time would go to
        return tuple(rows.mT @ arguments[0].flatten(0, -2) if i == 1 else rows.sum(0) for i in wanted)
    with torch.enable_grad():
        # Aliases: what else depends on a weight, an input among it, is none of this derivative.
        aliases = {i: arguments[i].view_as(arguments[i]) if differentiable else arguments[i].detach().requires_grad_() for i in wanted}
        held = tuple(a.detach() if isinstance(a, Tensor) and not differentiable else a for a in arguments)
        _, out = call.run_once(tuple(aliases.get(i, a) for i, a in enumerate(held)), ORDINARY, differentiable)
        return torch.autograd.grad(out, tuple(aliases.values()), signal.to(out.dtype), create_graph=differentiable)


class _First(Function):
    """An autograd function that returns its gradient unchanged and allows differentiating it under the ordinary gradient only."""

    @staticmethod
    def forward(ctx: Any, signal: Tensor, source: RuleSource) -> Tensor:
        ctx.source = source
        return signal.view_as(signal)

    @staticmethod
    def backward(ctx: Any, *signals: Tensor | None) -> Any:
        rule = ctx.source.rule
        if not rule.is_ordinary:
            raise ExplainerError(
                f"A gradient that was computed under a rule is differentiated under the rule {rule.name}, which would give no derivative "
                "of it: differentiate it after the block, where passes back are ordinary."
            )
        return signals[0], None
