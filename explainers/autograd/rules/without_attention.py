"""A way back that leaves attention out: what is left of a block acts on each token by itself, so that tokens can be followed."""

from __future__ import annotations

import torch
from torch import Tensor

from explainers.autograd.rules.choices.attention import Constant, Pair
from explainers.autograd.rules.known import RULES
from explainers.autograd.rules.operands import MatrixProduct
from explainers.autograd.rules.rule import Rule


class _Cut(Constant):
    """Choice for internal use that stops the signal at a product of two paths."""

    def matmul(self, product: MatrixProduct, signal: Tensor) -> Pair:
        """Return zeros for both factors of ``product``, whatever the signal; None for a factor that is a constant."""
        of_a, of_b = (torch.zeros_like(each) if path else None for each, path in zip((product.a, product.b), product.paths, strict=True))
        return of_a, of_b


class _WithoutAttention(Rule):
    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "_chosen", {**self._chosen, "attention": _Cut()})


#: Scales and means of normalisations, and gates, are constants, since they may depend on all tokens.
WITHOUT_ATTENTION: Rule = _WithoutAttention(**{**RULES["libra"].choices, "product": "jacobian", "norm": "constant_mean"})  # type: ignore[arg-type]
#: The derivative as it is but for attention: also of scales and means of normalisations, and of gates.
ALL_BUT_ATTENTION: Rule = _WithoutAttention()
