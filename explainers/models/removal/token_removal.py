"""Questions to a model about an input whose tokens may be removed, and the passes that every way of removal makes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from explainers.errors import ExplainerError, ran_out_of_memory
from explainers.models.eval_mode import answering
from explainers.models.model import Model
from explainers.models.passes import MAX_GPU_ROWS, Passes
from explainers.models.removal.stem import Stem
from explainers.models.removal.ways import How
from explainers.models.structure.hooks import in_this_thread, remove_hooks_after

BATCH = 64  # inputs in one forward pass on a CPU
TOKENS = 2000  # in one forward pass on a CPU: longer passes are no faster a token, and others are let in between two passes
#: Called before every forward pass with how many inputs are answered, and how many there are; it may raise to stop.
BeforePass = Callable[[int, int], None]
#: Changes what a module is given.
Hook = Callable[[nn.Module, tuple[Any, ...], dict[str, Any]], tuple[Any, Any] | None]
#: Errors that a model may raise if it needs a token that is missing; running out of memory is not one of these.
REFUSALS = (RuntimeError, ValueError, IndexError, TypeError, AssertionError)


def _nothing(done: int, total: int) -> None:
    """Do nothing: the default callback for progress."""


@dataclass(frozen=True)
class TokenRemoval:
    """One input whose N patches or word pieces can be removed.

    how     the way of removal; "removed": the model gets fewer tokens
    tokens  N, the number of removable tokens
    least   number of tokens that must stay: 1 if the model cannot answer without any
    """

    how: How
    tokens: int
    least: int
    _ask: Callable[[Tensor], Tensor] = field(repr=False)
    _most_tokens: int | None = field(default=TOKENS, repr=False)  # in one forward pass

    def logits(self, keep: Tensor, before_pass: BeforePass = _nothing) -> Tensor:
        """Return logits (K, C), float32 on the CPU, with the tokens that ``keep`` bool (K, N) keeps and all special ones. ``before_pass``
        is called before each pass with the numbers of done and of all rows.

        Equal rows are computed and counted once; rows that keep the same number of tokens go into one batch. Raises ExplainerError if a row
        keeps fewer tokens than the model needs.
        """
        rows, inverse = keep.cpu().unique(dim=0, return_inverse=True)
        counts = rows.sum(1)
        if int(counts.min()) < self.least:
            raise ExplainerError("This model cannot answer when nothing is left of its input: keep at least one token.")
        answers: list[Tensor] = [torch.empty(0)] * len(rows)
        done = 0
        for count in counts.unique().tolist():
            group = torch.nonzero(counts == count).flatten()

            def ask(first: int, number: int, group: Tensor = group, done: int = done) -> Tensor:
                before_pass(done + first, len(rows))
                return self._run(rows[group[first : first + number]]).float().cpu()

            parts = math.ceil(len(group) / self._at_once(count))
            of_group = Passes(math.ceil(len(group) / parts)).run(len(group), ask)  # parts of one size
            for i, logits in zip(group.tolist(), (row for part in of_group for row in part), strict=True):
                answers[i] = logits
            done += len(group)
        return torch.stack(answers)[inverse]

    def _run(self, keep: Tensor) -> Tensor:
        """Return the logits for the rows of ``keep``, all with the same number of tokens. Raises ExplainerError where the model cannot run
        with that number.
        """
        try:
            return self._ask(keep)
        except REFUSALS as error:
            if self.how != "removed" or isinstance(error, ExplainerError) or bool(keep.all()) or ran_out_of_memory(error):
                raise
            raise ExplainerError(
                f"This model cannot run with {int(keep[0].sum())} of the {self.tokens} tokens of its input: choose another way to take "
                "them away (how=), one that keeps their number."
            ) from error

    def _at_once(self, count: int) -> int:
        """Return how many inputs that keep ``count`` tokens go into one forward pass."""
        length = count if self.how == "removed" else self.tokens
        if self._most_tokens is None:
            return MAX_GPU_ROWS
        most_rows = BATCH if self._most_tokens <= TOKENS else MAX_GPU_ROWS
        return max(1, min(most_rows, self._most_tokens // max(1, length)))


def most_tokens(model: Model) -> int | None:
    """Return the largest number of tokens in one forward pass of a model on its device; None for no limit."""
    return TOKENS if model.device.type == "cpu" else None


def repeat_sample(model: Model, tensors: Mapping[str, Tensor], times: int) -> dict[str, Tensor]:
    """Repeat the ``tensors`` of one sample ``times`` times and return them by name; those that the samples of ``model`` share are not
    repeated.
    """
    if model.reads_pictures:
        return model.repeat(tensors, times)
    return {name: tensor.expand(times, *tensor.shape[1:]) if model.is_sample(name) else tensor for name, tensor in tensors.items()}


def answer(model: Model, tensors: Mapping[str, Tensor], hooks: Sequence[tuple[nn.Module, Hook]] = (), stem: Stem | None = None) -> Tensor:
    """Run ``model`` on ``tensors`` with ``hooks``, pairs of a module and a function that changes its input, which act only in this thread,
    and return the logits (K, C). With ``stem`` everything before the embedded tokens is taken from it.
    """
    with answering(model.module), ExitStack() as stack:
        if stem is not None:
            hooks = [(model.entry, stem.end), *hooks]
            stack.enter_context(stem)
        handles = (module.register_forward_pre_hook(in_this_thread(hook), with_kwargs=True) for module, hook in hooks)
        stack.enter_context(remove_hooks_after(handles))
        return model.forward(tensors)


def agree(first: Tensor, second: Tensor) -> bool:
    """Return whether the logits ``first`` and ``second`` are the same except for rounding."""
    error = max(1e-3, 4 * torch.finfo(first.dtype).eps)
    return bool((first - second).abs().max() <= error * first.abs().max())


def fewest_tokens(ask: Callable[[Tensor], Tensor], count: int, special: int) -> int:
    """Return the smallest number of an input's ``count`` tokens that must stay when ``ask`` runs the model without others: 0 if there are
    ``special`` ones and the model answers with these alone.
    """
    if not special:
        return 1
    try:
        return 0 if bool(ask(torch.zeros(1, count, dtype=torch.bool)).isfinite().all()) else 1
    except REFUSALS as error:
        if ran_out_of_memory(error):
            raise
        return 1
