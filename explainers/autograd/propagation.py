"""Every source token propagated forward on its own: what each contributes to every later tensor, the non-linearities held.

A batch holds, for each sample, the real input and copies of it in which x^1 (or the input of one block) is zero but at one
source token. All run through the model together. What is not linear takes its constants from the real one: attention weights,
the scales of normalisations, gates; biases are added to the real one alone. So each copy carries one source's contribution,
and the copies of all sources sum to the real one less its biases. Where the sources are the tokens of one block, a bias that
meets a token before attention mixes it with others belongs to that token: value vectors carry their bias.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, nn

from explainers.autograd.recorder import Operator
from explainers.autograd.recording import Recording
from explainers.autograd.rules import Rule
from explainers.models.base import Model


class Propagation(Recording):
    """A forward pass of ``1 + len(sources)`` copies of each sample, sample-major, the real one first.

    ``tensors`` are those of the samples, each already repeated that often; ``sources`` (K,) are token indices. With ``block``
    None the sources are those of x^1 and ``logits`` holds what each contributes; else the sources are the tokens at the input
    of that block, which is the last to run.
    ``rule`` must hold attention and scales and gates constant; ``product`` may be ``half`` or ``jacobian``.
    """

    def __init__(self, model: Model, tensors: Mapping[str, Tensor], sources: Tensor, rule: Rule, block: int | None = None) -> None:
        self.copies = 1 + len(sources)
        self._sources = sources
        self.share = 0.5 if rule.product == "half" else 1.0
        self._block = block
        self._kept: Tensor | None = None  # (copies, S): the tokens of each copy, from the isolated input of the block on
        # of the last block: input, output, the factor (scale times weight) of the real copy
        self.norms: list[tuple[Tensor, Tensor, Tensor]] = []
        with suppress(_ReachedError):
            super().__init__(model, tensors, entry=self._isolate if block is None else None)
        self._entry = None  # a method of its own would keep it, and all that it recorded, until cycles are collected

    def _isolate(self, x: Tensor) -> Tensor:
        """The real input, and copies of it that hold their source token alone."""
        real = x.detach().unflatten(0, (-1, self.copies))[:, :1]  # the copies may come without the biases of earlier blocks
        alone: Tensor = real * self._kept_tokens(x)[None, :, :, None]
        return alone.flatten(0, 1)

    def _kept_tokens(self, x: Tensor) -> Tensor:
        """(copies, S): 1 at the tokens that each copy holds, all of the real one."""
        kept = torch.zeros(self.copies, x.shape[1], dtype=x.dtype, device=x.device)
        kept[0] = 1
        kept[torch.arange(1, self.copies), self._sources] = 1
        return kept

    def _before_block(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        replaced = super()._before_block(module, args, kwargs)
        if self._block is None or len(self.block_inputs) - 1 != self._block:
            return replaced
        self.norms = []
        x = self._isolate(self.block_inputs[-1]).requires_grad_()
        self._kept = self._kept_tokens(x)
        self.block_inputs[-1] = x
        return self._with_tokens(args, kwargs, x)

    def _after_block(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
        replaced = super()._after_block(module, args, kwargs, output)
        if self._block is not None and len(self.block_outputs) - 1 == self._block:
            raise _ReachedError
        return replaced

    def real(self, x: Tensor) -> Tensor:
        """The real copy of each sample at the place of all its copies."""
        groups = x.detach().unflatten(0, (-1, self.copies, len(x) // len(self._x1)))  # tokens or heads may lie with the samples
        repeated: Tensor = groups[:, :1].expand_as(groups)
        return repeated.flatten(0, 2)

    def where_real(self, y: Tensor) -> Tensor:
        """bool, to be broadcast with ``y``: which of its rows belong to real copies."""
        first = torch.zeros(self.copies, dtype=torch.bool, device=y.device)
        first[0] = True
        rows = first.repeat_interleave(len(y) // len(self._x1)).repeat(len(self._x1) // self.copies)
        return rows.view(-1, *[1] * (y.dim() - 1))

    def on_real(self, y: Tensor, constant: Tensor) -> Tensor:
        """Add a constant to the real copies alone."""
        return y + constant * self.where_real(y).to(y.dtype)

    def with_bias(self, y: Tensor, bias: Tensor) -> Tensor:
        """Add a bias to the real copies and, in the block of the sources before its attention, to the source token of each copy."""
        before_attention = self._kept is not None and self._inside and self.attentions[-1] is None
        if before_attention and y.dim() == 3 and y.shape[:2] == self.block_inputs[-1].shape[:2]:
            assert self._kept is not None
            return y + bias * self._kept.repeat(len(y) // self.copies, 1)[:, :, None].to(y.dtype)
        return self.on_real(y, bias)

    def run(self, operator: type[Operator], *arguments: Any) -> Tensor:
        """Apply the linear form of an operator."""
        out: Tensor = operator.propagate(self, *arguments)
        return out


class _ReachedError(Exception):
    """The last block of interest is done."""
