"""A recorded pass as the linear map that a rule makes of it, to be applied in both directions."""

from __future__ import annotations

import torch
from torch import Tensor

from explainers.autograd.recording import Recording
from explainers.autograd.rules import Rule
from explainers.errors import ExplainerError


class Linearised:
    """The linear map L from the embedded tokens x^1 to the logits whose transpose is the backward pass under ``rule``, at the input of
    ``recording``.

    Under the rule ``gradient`` L is the Jacobian. :meth:`pull` needs one pass for each logit to know all of L, :meth:`push` one for each
    number of x^1; both cost about what one backward pass costs. Raises ExplainerError for a rule that carries relevance, whose way back is
    not linear.
    """

    def __init__(self, recording: Recording, rule: Rule) -> None:
        if rule.is_relevance:
            raise ExplainerError(
                f"The backward pass of the rule {rule.name}, which carries relevance, is not linear: choose a rule that carries gradients."
            )
        self._recording, self._rule = recording, rule
        self._way_back: tuple[Tensor, Tensor] | None = None

    def pull(self, output_gradient: Tensor) -> Tensor:
        """Apply L^T, the backward pass, to ``output_gradient``, a signal at the logits (B, C); return the signal at the embedded tokens (B,
        S, D).
        """
        return self._pull(output_gradient, differentiable=False)

    def push(self, tangent: Tensor) -> Tensor:
        """Apply L to ``tangent``, a change of the embedded tokens (B, S, D); return the resulting change of the logits (B, C).

        The backward pass is linear in the signal that it begins with, so L is the transpose of its own derivative.
        """
        if self._way_back is None:
            logits = self._recording.logits
            output_gradient = (
                torch.linspace(1, 2, logits.numel(), dtype=logits.dtype, device=logits.device).view_as(logits).requires_grad_()
            )
            self._way_back = (output_gradient, self._pull(output_gradient, differentiable=True))
        output_gradient, signal = self._way_back
        (change,) = torch.autograd.grad(signal, output_gradient, tangent.to(signal), retain_graph=True)
        return change

    def _pull(self, output_gradient: Tensor, differentiable: bool) -> Tensor:
        recording = self._recording
        signal = recording.pull(self._rule, recording.logits, recording.block_inputs[0], output_gradient, differentiable)
        assert signal is not None
        return signal
