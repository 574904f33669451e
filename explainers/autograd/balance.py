"""Find the operators at which a backward pass loses or gains part of its signal, under a rule that promises to account for all of it.

Under such a rule what each operator passes on, times its input, and its bias terms add up to what arrived at it, times its output. The
recording is made once more, and each operator is asked. Weights of attention are constants there: what arrives at them has been counted at
the values, unless they are used for something else than to weigh values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from explainers.autograd.integration import Rerun
from explainers.autograd.nodes import Role
from explainers.autograd.operators import DynamicLinear, MatMul, Mul, Softmax, Weights
from explainers.autograd.recorder import Operator
from explainers.autograd.recording import Recording
from explainers.autograd.rules import Rule
from explainers.models.model import Model
from explainers.models.structure.hooks import remove_hooks_after

#: An operator is named if it is behind at least this share of what is missing.
LEAST_SHARE = 0.2


@dataclass(frozen=True)
class Loss:
    """The amount of signal that operators of one kind (``title``) lost; below zero they gained it. ``places`` are the names of the modules
    in which they ran, largest loss first.
    """

    amount: float
    title: str
    places: tuple[str, ...]

    @property
    def words(self) -> str:
        """The kind of operator that lost relevance, and its places, in words."""
        more = len(self.places) - 1
        others = f" and {more} more place{'s' if more > 1 else ''}" if more > 0 else ""
        return self.title + (f" in {self.places[0]}{others}" if self.places and self.places[0] else "")


class BalancedRecording(Recording):
    """A recording whose operators each note what they lose, for :func:`losses_of`."""

    def __init__(self, model: Model, tensors: Mapping[str, Tensor], **how: Any) -> None:
        self.lost: dict[tuple[str, str], float] = {}
        self._place: list[str] = []
        self._explained = 0.0
        super().__init__(model, tensors, **how)

    @contextmanager
    def _hooks(self) -> Iterator[None]:
        def leave(*_: Any) -> None:
            self._place.pop()

        handles = []
        for name, module in self.model.module.named_modules():
            handles.append(module.register_forward_pre_hook(lambda *_, name=name: self._place.append(name)))
            handles.append(module.register_forward_hook(leave))
        with remove_hooks_after(handles), super()._hooks():
            yield

    def run(self, operator: type[Operator], *arguments: Any, role: Role | None = None) -> Tensor:
        """Apply ``operator`` to its arguments, record it with ``role`` and return its output; its backward pass will note how much of the
        signal it loses.
        """
        out = super().run(operator, *arguments, role=role)
        if out.grad_fn is None or not self.entered:
            return out
        title, place = operator.title, self._place[-1] if self._place else ""
        given = [a.detach().clone() if a.requires_grad else a for a in arguments if isinstance(a, Tensor)]
        roles = [node and node.role for node in self.nodes.ran[-1].inputs]
        weighs = [operator in (MatMul, DynamicLinear, Mul) and of == Role.WEIGHTS for of in roles]
        value, of_weights = out.detach().clone(), ("a softmax", place)

        def before(signals: tuple[Tensor | None, ...]) -> None:
            self._explained = self._biases_so_far()

        def after(passed: tuple[Tensor | None, ...], arrived: tuple[Tensor | None, ...]) -> None:
            if arrived[0] is None or self.backward_pass.biases is None:  # a trial that finds the structure counts no biases
                return
            lost = float((arrived[0] * value).sum().detach()) - (self._biases_so_far() - self._explained)
            for signal, x, weight in zip(passed, given, weighs, strict=True):
                if signal is not None and weight:  # counted at the values
                    self.lost[of_weights] = self.lost.get(of_weights, 0.0) - float((signal * x).sum().detach())
                elif signal is not None:
                    lost -= float((signal * x).sum().detach())
            key = of_weights if operator in (Softmax, Weights) else (title, place)
            self.lost[key] = self.lost.get(key, 0.0) + lost

        out.grad_fn.register_prehook(before)
        out.grad_fn.register_hook(after)
        return out

    def _biases_so_far(self) -> float:
        biases = self.backward_pass.biases
        return 0.0 if biases is None else float(biases.by_token.sum() + biases.unplaced.sum())


def losses_of(rerun: Rerun, rule: Rule, output_gradient: Tensor, missing: Tensor) -> list[Loss]:
    """List the kinds of operators that lost signal under ``rule``, largest loss first, for the one sample with the largest ``missing``
    (B,): the part of <output gradient, logits> that does not arrive at tokens and biases. Losses that are small beside it are left out.
    ``rerun`` records the samples once more, and the backward pass starts with ``output_gradient`` (B, C).
    """
    worst = int(missing.abs().argmax())
    alone = torch.zeros_like(output_gradient)
    alone[worst] = output_gradient[worst]
    recording = rerun(kind=BalancedRecording)
    assert isinstance(recording, BalancedRecording)
    recording.cached_backward(rule, alone)
    kinds: dict[str, dict[str, float]] = {}
    for (title, place), amount in recording.lost.items():
        kinds.setdefault(title, {})[place] = amount
    kinds_lost = [
        Loss(sum(places.values()), title, tuple(sorted((p for p in places if places[p]), key=lambda p: -abs(places[p]))))
        for title, places in kinds.items()
    ]
    large = [loss for loss in kinds_lost if abs(loss.amount) >= LEAST_SHARE * float(missing[worst].abs())]
    return sorted(large, key=lambda loss: -abs(loss.amount))
