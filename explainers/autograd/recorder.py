"""What operators and handlers may ask of a recording, and tell it."""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor
from torch.autograd import Function

from explainers.autograd.rules import Rule


class Recorder(Protocol):
    """A forward pass while it is recorded, and the backward passes over it.

    rule      the rule in force, which a backward pass follows
    entered   whether the forward pass has reached the explained tokens: biases before them are part of them
    double    whether everything is computed in float64
    place     how many operators were applied since the explained tokens; before them, less than zero
    """

    rule: Rule
    entered: bool
    double: bool
    place: int

    def gathered(self, place: int) -> float:
        """The rounding that what the operator at ``place`` gives has gathered, in units of the last place."""

    @property
    def single_head(self) -> bool:
        """Whether the attention computed now is to have one head."""

    @property
    def last_attention(self) -> Tensor:
        """The attention map computed last."""

    def run(self, operator: type[Function], *arguments: Any) -> Tensor:
        """Apply an operator."""

    def watch(self, tensor: Tensor, name: str, field: str | None = None) -> None:
        """Note ``name`` if a signal passes ``tensor`` by ordinary gradient under a rule that wants something else (in its ``field``)."""

    def add_bias(self, signal: Tensor, bias: Tensor) -> None:
        """Account for the bias term signal * bias."""

    def saw_attention(self, weights: Tensor) -> None:
        """Take note of a softmax over keys: (B, H, queries, keys)."""

    def saw_parts(self, query: Tensor, key: Tensor, value: Tensor, weights: Tensor, output: Tensor) -> None:
        """Take note of what one attention was made of."""

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
